"""Alerts on GPUs from exporter metrics. They need no remediator and no API server."""

from alerts import codes, templates
from alerts.identity import BOARD, DEVICE, NODE, by, of, on
from alerts.recordings import COUNTED, GPU_UP, LOST, MISSING, OF_DEVICES, RECOVERY, XID_SEEN
from alerts.rule import Alert, Group
from alerts.subjects import OF_BOARD, OF_DEVICE, OF_NODE, OF_PAGE
from alerts.thresholds import APPLICATION_ERRORS, NEW_CONTAINED_ERROR, NEW_ERROR, NEW_LOSS

_GPU = codes.of_faults("gpu", "lost", "node")
_FABRIC = codes.of_faults("fabric")
_CONTAINED = codes.of_faults("contained")
_MEMORY = codes.of_faults("memory")
_PENDING = codes.of_faults("pending")
_APPLICATION = codes.of_applications()
_INCIDENT = "draguard_incident_info"
_LISTED_NO_MORE = of(DEVICE, 'draguard_gpu_up{reason!="Hung"} == 0')
"""A GPU that hangs is still listed, so it does not explain a missing one."""
_MISSING = f"count by ({', '.join(NODE)}) ({MISSING})"

_NVML_DOWN = 'draguard_source_up{source="nvml"} == 0'
_NVML_AWAY = (
    f"(\n  {of(NODE, _NVML_DOWN, 'count')}\n"
    f"  and {on(NODE)} {of(NODE, 'draguard_gpus_expected')} > 0\n)"
)
"""Has its own alert. While NVML is down, the shown GPUs are not a valid count."""

_CLAIMANTS = by(DEVICE, f'{GPU_UP}{{UUID!=""}} == 1')
"""Aggregated by node again: with federation a recorded series exists several times. Exporters with
old label names have no `UUID`, and all their GPUs would count as one."""
_OWN_NAMES = by((*BOARD, "Hostname"), 'draguard_gpu_up{Hostname!=""} == 1')
_ONE_NAME = f"count by ({', '.join(BOARD)}) ({_OWN_NAMES}) == 1"
"""The exporters report one node: one page is scraped by two jobs that label its node differently.

Target labels or exporter labels alone are wrong where a node was renamed, where two exporters run
on one node, or where each of two collectors adds its own node. So both must show two nodes.
"""

_RESTART = "A restart of the exporter or the driver interrupts the series for minutes."


def _recent(matcher: str, seconds: int) -> str:
    """GPUs that had one of these XIDs recently.

    It uses the last-seen time, not the count. A series that starts at 1 has no increase, and one
    that starts at 5 when an exporter is installed may be old.
    """
    return f"max by ({', '.join(DEVICE)}) (time() - {XID_SEEN}{{{matcher}}} < {seconds})"


def _incident(kind: str) -> str:
    return f'max by ({", ".join(DEVICE)}) ({_INCIDENT}{{class="{kind}"}})'


_OVER = f"unless {on(DEVICE)} {RECOVERY} == 0"
"""The driver has reported since that no recovery action is needed."""
_TAINTING = 'effect=~"NoSchedule|NoExecute"'
_UNWATCHED = (
    f"unless {on(DEVICE)} {_INCIDENT}\n"
    f"unless {on(DEVICE)} (\n  last_over_time(draguard_incident_rules{{{_TAINTING}}}[1h]) > 0\n"
    "  unless on (cluster) draguard_remediator_build_info\n)"
)
"""With an incident, the alerts on incidents fire instead: they show what was done. Taints stay when
the remediators go down, which has one alert of its own and not one for each GPU."""
_CLOSED = (
    f"unless {on(DEVICE)} (\n      last_over_time({_INCIDENT}[1h])\n"
    "      and on (cluster) draguard_remediator_build_info\n    )"
)
"""A running remediator saw the recovery. Drivers before R565 do not report it themselves."""

GROUP = Group(
    name="draguard-devices",
    rules=(
        *OF_DEVICES,
        Alert(
            name="DraguardGpuGone",
            severity="critical",
            of=OF_DEVICE,
            when="A GPU has left the bus, or NVML hangs on it. The alert stays for a day when no "
            "exporter reports the node's GPUs, the node still exists, and the GPU answers on no "
            "other node.",
            expr=f"time() - ({LOST} > 0) < {NEW_LOSS}",
            wait="1m",
            wait_why="Two samples: one failed answer may be a manual reset.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU no longer answers.",
            description="The GPU is lost or hangs"
            + templates.GONE
            + ": "
            + templates.xids(_GPU)
            + "."
            + templates.UNSEEN,
            next="If it is not tainted: `draguard cordon`, or cordon node {{ $labels.node }}. "
            "Check `dmesg` there. Reset the GPU, or drain and reboot the node. If the GPU is lost "
            "again, replace it.",
        ),
        Alert(
            name="DraguardGpuMissing",
            severity="critical",
            of=OF_NODE,
            when="PCI or the DRA driver lists more GPUs than NVML, and no GPU that was seen before "
            "explains the difference.",
            expr=f"{_MISSING}\n> (\n  count by ({', '.join(NODE)}) ({_LISTED_NO_MORE})\n"
            f"  or 0 * {_MISSING}\n)",
            wait="10m",
            wait_why="After a boot the driver needs minutes to initialize all GPUs.",
            keep="10m",
            keep_why=_RESTART,
            summary="A node has fewer GPUs than expected.",
            description="NVML does not list all GPUs of node {{ $labels.node }}. "
            "Missing: {{ $value }} (" + templates.MISSING + ").",
            next="Check `lspci -d 10de:` and `dmesg` on node {{ $labels.node }}, and reboot it. If "
            "the GPU stays missing, replace it.",
        ),
        Alert(
            name="DraguardFewerGpus",
            severity="warning",
            of=OF_PAGE,
            when="A node's exporter shows fewer GPUs than within the last day, and PCI and the DRA "
            "driver list no more. A GPU did not come back after a reboot, or was removed. Not "
            "while NVML is down and PCI lists GPUs.",
            expr=f"max_over_time({COUNTED}[1d]) - {COUNTED} > 0\nunless {on(NODE)} {MISSING}\n"
            f"unless {on(NODE)} {_NVML_AWAY}",
            wait="15m",
            wait_why="After a boot the driver needs minutes to initialize all GPUs, and a board "
            "replacement takes several boots.",
            keep="10m",
            keep_why=_RESTART,
            summary="A node has fewer GPUs than a day ago.",
            description="Node {{ $labels.node }} shows fewer GPUs than within the last day, by "
            "{{ $value }}. No exporter shows now: " + templates.VANISHED + ".",
            next="Check `lspci -d 10de:` and `dmesg` on node {{ $labels.node }}, and replace the "
            "GPU if it is dead. If it was removed or passed to a virtual machine on purpose, the "
            "alert resolves within a day.",
        ),
        Alert(
            name="DraguardGpuOnTwoNodes",
            severity="critical",
            of=OF_BOARD,
            when="The same GPU UUID answers on two or more nodes of a cluster, by the target "
            "labels and by the exporters' own labels. A GPU that is lost, hangs or was removed "
            "from a node does not answer there.",
            expr=f"count by ({', '.join(BOARD)}) ({_CLAIMANTS}) > 1\n"
            f"unless {on(BOARD)} {_ONE_NAME}",
            wait="15m",
            wait_why="A moved GPU, a recreated virtual machine and a renamed node appear on both "
            "nodes during Prometheus' lookback of five minutes, and until an exporter notices.",
            keep="10m",
            keep_why=_RESTART,
            summary="Several nodes report the same GPU.",
            description="GPU {{ $labels.UUID }} answers on {{ $value }} nodes: "
            + templates.CLAIMANTS
            + ". Its metrics may belong to another GPU, and pods on several nodes may use it. A "
            "remediator that cannot determine its node neither taints nor untaints it.",
            next="Compare the bootID of the nodes (`kubectl get nodes -o yaml`): two nodes on one "
            "machine see the same GPUs, so give each its own. Otherwise stop the exporter of the "
            "node without the GPU. If nothing explains it, cordon that node and treat it as "
            "compromised.",
        ),
        Alert(
            name="DraguardDeviceSick",
            severity="critical",
            of=OF_DEVICE,
            when="An XID of class gpu, lost or node within the last hour that the driver has not "
            "cleared, or a recovery action for a reset or reboot. Not with an incident, open or "
            "closed within the hour, nor with a taint of a remediator that went down within the "
            "hour.",
            expr=f"(\n  (\n    {_recent(_GPU, NEW_ERROR)}\n    {_OVER}\n    {_CLOSED}\n  )\n"
            f"  or {RECOVERY} > 0 != 3 != 5\n)\n{_UNWATCHED}",
            wait="2m",
            wait_why="Within a minute a remediator opens an incident, or the driver reports that "
            "the fault is cleared.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU has a hardware fault, and Draguard takes no action.",
            description="The GPU has a fault that requires a reset or a reboot: "
            + templates.xids(_GPU)
            + "; "
            + templates.RECOVERY
            + ".",
            next="Block new pods (`draguard cordon`, or cordon node {{ $labels.node }}). Wait "
            "until its pods end or evict them, then reset the GPU.",
        ),
        Alert(
            name="DraguardMemoryFault",
            severity="critical",
            of=OF_DEVICE,
            when="A memory row could not be remapped, or the SRAM threshold is exceeded. Not with "
            "an open incident, nor with a taint of a remediator that went down within the hour.",
            expr=f"(\n  {of(DEVICE, 'draguard_gpu_row_remap_failure')} == 1\n"
            f"  or {of(DEVICE, 'draguard_gpu_sram_threshold_exceeded')} == 1\n"
            f"  or (\n    {_recent(_MEMORY, NEW_ERROR)}\n    {_CLOSED}\n  )\n)\n{_UNWATCHED}",
            wait="2m",
            wait_why="A remediator opens an incident within a minute.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU has an unrepairable memory fault.",
            description="A row of the GPU could not be remapped, or SRAM errors exceed the "
            "threshold; " + templates.xids(_MEMORY) + ".",
            next="Block new pods, run NVIDIA's field diagnostics and replace the GPU. A reset "
            "hides the symptom and repairs nothing.",
        ),
        Alert(
            name="DraguardRowRemapPending",
            severity="warning",
            of=OF_DEVICE,
            when="A row remap or page retirement is pending until the next reset (NVML, or an "
            "incident of class pending).",
            expr=f"{of(DEVICE, 'draguard_gpu_row_remap_pending')} == 1\n"
            f"or {of(DEVICE, 'draguard_gpu_retired_pages_pending')} == 1\n"
            f"or {_incident('pending')}",
            wait="10m",
            wait_why="The reset is not urgent; one that follows at once needs no ticket.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU needs a reset for a pending row remap.",
            description="The next reset of the GPU remaps a memory row or retires a page. Until "
            "then the GPU works: " + templates.xids(_PENDING) + ".",
            next="Reset the GPU when it is idle, at the next maintenance of node "
            "{{ $labels.node }}.",
        ),
        Alert(
            name="DraguardSliceFault",
            severity="warning",
            of=OF_DEVICE,
            when="A contained error of one slice or process (XID 94) within the last ten minutes, "
            "or an open incident of class contained.",
            expr=f"{_recent(_CONTAINED, NEW_CONTAINED_ERROR)}\nor {_incident('contained')}",
            wait="0s",
            wait_why="One log line is the whole event, and its process is dead already.",
            keep="10m",
            keep_why=_RESTART,
            summary="An uncorrectable error was contained in one slice or process of a GPU.",
            description="A memory error was contained: "
            + templates.xids(_CONTAINED)
            + ". Other slices of the GPU keep working.",
            next="Tell the owner to restart the pod. If row remaps are pending, reset the GPU when "
            "it is drained.",
        ),
        Alert(
            name="DraguardFabricFault",
            severity="warning",
            of=OF_DEVICE,
            when="An NVLink XID within the last hour that neither the driver nor a closed incident "
            "has cleared, a recovery action for the fabric, an unhealthy fabric, or an open "
            "incident of class fabric.",
            expr=f"(\n  {_recent(_FABRIC, NEW_ERROR)}\n  {_OVER}\n  {_CLOSED}\n)\n"
            f"or {RECOVERY} == 3\nor {RECOVERY} == 5\n"
            f"or {of(DEVICE, 'draguard_fabric_health')} == 2\nor {_incident('fabric')}",
            wait="2m",
            wait_why="Links retrain within a minute, and the driver reports whether the fault is "
            "cleared.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU has an NVLink or fabric fault.",
            description="A link of the GPU is faulty: "
            + templates.xids(_FABRIC)
            + "; "
            + templates.RECOVERY
            + ". Jobs that use NVLink fail; other jobs continue.",
            next="Check the peers of the GPU as well, because either end of a link can report the "
            "fault. Then reset the GPU, or the switch together with its GPUs.",
        ),
        Alert(
            name="DraguardSwitchFault",
            severity="critical",
            of=OF_NODE,
            when="A fatal SXid of an NVSwitch within the last hour.",
            expr=of(
                NODE,
                f'time() - draguard_sxid_last_seen_timestamp_seconds{{fatal="true"}} < {NEW_ERROR}',
            ),
            wait="0s",
            wait_why="A fatal SXid is one log line, and the GPUs have lost their links already.",
            keep="10m",
            keep_why=_RESTART,
            summary="An NVSwitch has a fatal error.",
            description="An NVSwitch of node {{ $labels.node }} has a fatal error: "
            + templates.SXIDS
            + ".",
            next="Evict jobs that use NVLink, then reset the switch with all its GPUs, or reboot "
            "node {{ $labels.node }}.",
        ),
        Alert(
            name="DraguardApplicationErrors",
            severity="info",
            of=OF_DEVICE,
            when="XIDs that programs cause themselves were seen at three more times within the "
            "last hour.",
            expr=by(
                DEVICE,
                of(
                    (*DEVICE, "code", "gi", "ci"),
                    f"changes(draguard_xid_last_seen_timestamp_seconds{{{_APPLICATION}}}[1h])",
                ),
                "sum",
            )
            + f" >= {APPLICATION_ERRORS}",
            wait="0s",
            wait_why="The expression already covers one hour.",
            keep="15m",
            keep_why="A program in CrashLoopBackOff waits longer and longer between two runs.",
            summary="Programs on a GPU crash repeatedly.",
            description="Application XIDs were seen {{ $value }} times within the last hour: "
            + templates.xids(_APPLICATION)
            + ".",
            next="Tell the owner of the pod. If different owners see it on this GPU only, run GPU "
            "diagnostics.",
        ),
    ),
)
