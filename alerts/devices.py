"""Alerts on GPUs as the node exporters see them: they need no remediator, and no API server."""

from alerts import codes, templates
from alerts.identity import BOARD, DEVICE, NODE, by, of, on
from alerts.recordings import COUNTED, GPU_UP, LOST, MISSING, OF_DEVICES, RECOVERY, XID_SEEN
from alerts.rule import Alert, Group
from alerts.subjects import OF_BOARD, OF_DEVICE, OF_NODE, OF_PAGE

_GPU = codes.of_faults("gpu", "lost", "node")
_FABRIC = codes.of_faults("fabric")
_CONTAINED = codes.of_faults("contained")
_MEMORY = codes.of_faults("memory")
_PENDING = codes.of_faults("pending")
_APPLICATION = codes.of_applications()
_INCIDENT = "draguard_incident_info"
_LISTED_NO_MORE = of(DEVICE, 'draguard_gpu_up{reason!="Hung"} == 0')
"""A GPU that hangs is listed, so it accounts for none that is missing."""
_MISSING = f"count by ({', '.join(NODE)}) ({MISSING})"

_NVML_DOWN = 'draguard_source_up{source="nvml"} == 0'
_NVML_AWAY = (
    f"(\n  {of(NODE, _NVML_DOWN, 'count')}\n"
    f"  and {on(NODE)} {of(NODE, 'draguard_gpus_expected')} > 0\n)"
)
"""Has an alert of its own, and what a page shows is then no count."""

_CLAIMANTS = by(DEVICE, f'{GPU_UP}{{UUID!=""}} == 1')
"""Once more by node: where recorded series are federated, there are several of one. Exporters that
spell their labels in the old way have no `UUID`, and all their GPUs would be one."""
_OWN_NAMES = by((*BOARD, "Hostname"), 'draguard_gpu_up{Hostname!=""} == 1')
_ONE_NAME = f"count by ({', '.join(BOARD)}) ({_OWN_NAMES}) == 1"
"""By their own word it is one node: one page, scraped by two jobs that label its node differently.

Targets tell nodes apart for sure, and exporters know who they are. Either of them alone is
mistaken where a node was renamed, where two exporters run on one node, and where each of two
collectors puts its own node on what it gathers; so both have to say that there are two.
"""

_DAY = 86400
_RESTART = "A restart of the exporter or the driver takes the series away for minutes: no news."


def _recent(matcher: str, seconds: int) -> str:
    """GPUs that had one of these XIDs of late.

    By when it was seen and not by its count: a series that is born at 1 has no increase, and one
    that stands at 5 when an exporter is installed has been so for long.
    """
    return f"max by ({', '.join(DEVICE)}) (time() - {XID_SEEN}{{{matcher}}} < {seconds})"


def _incident(kind: str) -> str:
    return f'max by ({", ".join(DEVICE)}) ({_INCIDENT}{{class="{kind}"}})'


_OVER = f"unless {on(DEVICE)} {RECOVERY} == 0"
"""The driver has spoken since and wants nothing done."""
_TAINTING = 'effect=~"NoSchedule|NoExecute"'
_UNWATCHED = (
    f"unless {on(DEVICE)} {_INCIDENT}\n"
    f"unless {on(DEVICE)} (\n  last_over_time(draguard_incident_rules{{{_TAINTING}}}[1h]) > 0\n"
    "  unless on (cluster) draguard_remediator_build_info\n)"
)
"""With an incident the alerts on incidents speak, which know what was done. A taint stands when the
remediators go down; that they did is a page of its own, and not one for each GPU."""
_CLOSED = (
    f"unless {on(DEVICE)} (\n      last_over_time({_INCIDENT}[1h])\n"
    "      and on (cluster) draguard_remediator_build_info\n    )"
)
"""A remediator that runs has seen it recover: drivers before R565 never say so themselves."""

GROUP = Group(
    name="draguard-devices",
    rules=(
        *OF_DEVICES,
        Alert(
            name="DraguardGpuGone",
            severity="critical",
            of=OF_DEVICE,
            when="A GPU that was there has left the bus, or NVML hangs on it; for a day also when "
            "no exporter tells of the node's GPUs any more, the node is still there, and the GPU "
            "answers in no other.",
            expr=f"time() - ({LOST} > 0) < {_DAY}",
            wait="1m",
            wait_why="Two samples: one answer that fails may be a reset that somebody does.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU no longer answers.",
            description="The GPU is lost or hangs"
            + templates.GONE
            + ": "
            + templates.xids(_GPU)
            + "."
            + templates.UNSEEN,
            next="Not tainted yet? `draguard cordon`, or cordon node {{ $labels.node }}. Look at "
            "`dmesg` there; reset the GPU, or drain and reboot the node. Replace the GPU when it "
            "is lost again.",
        ),
        Alert(
            name="DraguardGpuMissing",
            severity="critical",
            of=OF_NODE,
            when="PCI or the DRA driver promise more GPUs than NVML lists, and none that was seen "
            "before accounts for it.",
            expr=f"{_MISSING}\n> (\n  count by ({', '.join(NODE)}) ({_LISTED_NO_MORE})\n"
            f"  or 0 * {_MISSING}\n)",
            wait="10m",
            wait_why="After a boot the driver needs minutes to bring all GPUs up.",
            keep="10m",
            keep_why=_RESTART,
            summary="A node has fewer GPUs than it should.",
            description="NVML does not list all GPUs of node {{ $labels.node }}; "
            "missing are {{ $value }}: " + templates.MISSING + ".",
            next="Look at `lspci -d 10de:` and `dmesg` on node {{ $labels.node }}; reboot it, and "
            "replace the GPU when it stays away.",
        ),
        Alert(
            name="DraguardFewerGpus",
            severity="warning",
            of=OF_PAGE,
            when="A node's exporter shows fewer GPUs than it did within the day, and PCI and the "
            "DRA driver promise no more: a board that did not come back from a reboot, or that "
            "was taken out. Not while NVML is away and PCI lists GPUs.",
            expr=f"max_over_time({COUNTED}[1d]) - {COUNTED} > 0\nunless {on(NODE)} {MISSING}\n"
            f"unless {on(NODE)} {_NVML_AWAY}",
            wait="15m",
            wait_why="After a boot the driver needs minutes to bring all GPUs up, and whoever "
            "exchanges a board starts the node more than once.",
            keep="10m",
            keep_why=_RESTART,
            summary="A node came back with fewer GPUs than it had.",
            description="Node {{ $labels.node }} shows fewer GPUs than within the day, by "
            "{{ $value }}. Shown nowhere now: " + templates.VANISHED + ".",
            next="Look at `lspci -d 10de:` and `dmesg` on node {{ $labels.node }}, and replace the "
            "board when it is dead. Taken out, or given to a virtual machine, on purpose? Then "
            "this ends within a day by itself.",
        ),
        Alert(
            name="DraguardGpuOnTwoNodes",
            severity="critical",
            of=OF_BOARD,
            when="The same GPU, by its UUID, answers on two or more nodes of a cluster, by the "
            "targets' labels and by the exporters' own word. One that is lost, hangs or was taken "
            "out of a node does not answer there.",
            expr=f"count by ({', '.join(BOARD)}) ({_CLAIMANTS}) > 1\n"
            f"unless {on(BOARD)} {_ONE_NAME}",
            wait="15m",
            wait_why="A board that moves, a virtual machine that is made anew and a node that is "
            "renamed are on both for the five minutes in which Prometheus takes a last answer for "
            "the present, and for the minutes in which an exporter notices.",
            keep="10m",
            keep_why=_RESTART,
            summary="Two nodes claim the same GPU.",
            description="GPU {{ $labels.UUID }} answers on {{ $value }} nodes: "
            + templates.CLAIMANTS
            + ". It is in one machine. What is said of it may be of another GPU, pods of both "
            "nodes may be given it, and a remediator that cannot tell whose it is neither taints "
            "nor untaints it.",
            next="Compare the bootID of the nodes (`kubectl get nodes -o yaml`): two nodes on one "
            "machine see the same GPUs, so give each its own. Else stop the exporter of the node "
            "that has not got the GPU; when nothing explains it, cordon that node and treat it as "
            "broken into.",
        ),
        Alert(
            name="DraguardDeviceSick",
            severity="critical",
            of=OF_DEVICE,
            when="An XID of class gpu, lost or node within the hour that the driver has not called "
            "over since, or a recovery action that asks for a reset or a reboot; and no remediator "
            "keeps an incident of it, nor has closed one within the hour, nor left a taint there "
            "when it went silent within the hour.",
            expr=f"(\n  (\n    {_recent(_GPU, 3600)}\n    {_OVER}\n    {_CLOSED}\n  )\n"
            f"  or {RECOVERY} > 0 != 3 != 5\n)\n{_UNWATCHED}",
            wait="2m",
            wait_why="A remediator opens its incident, and the driver says whether it is over, "
            "within a minute.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU has a hardware fault and nobody keeps work away from it.",
            description="The GPU has a fault that takes a reset or a reboot: "
            + templates.xids(_GPU)
            + "; "
            + templates.RECOVERY
            + ".",
            next="Keep new work away (`draguard cordon`, or cordon node {{ $labels.node }}), let "
            "or make its pods go, then reset the GPU.",
        ),
        Alert(
            name="DraguardMemoryFault",
            severity="critical",
            of=OF_DEVICE,
            when="A memory row could not be remapped, or the SRAM threshold is exceeded; and no "
            "remediator keeps an incident of it, nor left a taint there when it went silent within "
            "the hour.",
            expr=f"(\n  {of(DEVICE, 'draguard_gpu_row_remap_failure')} == 1\n"
            f"  or {of(DEVICE, 'draguard_gpu_sram_threshold_exceeded')} == 1\n"
            f"  or (\n    {_recent(_MEMORY, 3600)}\n    {_CLOSED}\n  )\n)\n{_UNWATCHED}",
            wait="2m",
            wait_why="A remediator opens its incident within a minute.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU's memory is worn out.",
            description="Memory of the GPU is beyond repair: a row could not be remapped, or SRAM "
            "had more errors than allowed; " + templates.xids(_MEMORY) + ".",
            next="Keep new work away, run the field diagnostics and have the GPU replaced: a reset "
            "hides the sign and cures nothing.",
        ),
        Alert(
            name="DraguardRowRemapPending",
            severity="warning",
            of=OF_DEVICE,
            when="A memory row or page is taken out of use with the next reset (NVML, or an "
            "incident of class pending).",
            expr=f"{of(DEVICE, 'draguard_gpu_row_remap_pending')} == 1\n"
            f"or {of(DEVICE, 'draguard_gpu_retired_pages_pending')} == 1\n"
            f"or {_incident('pending')}",
            wait="10m",
            wait_why="It waits for a reset at leisure; one that comes at once needs no ticket.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU waits for a reset to repair its memory.",
            description="A memory row or page of the GPU is taken out of use at the next reset; "
            "until then it works: " + templates.xids(_PENDING) + ".",
            next="Reset the GPU when nothing runs on it, at the next maintenance of node "
            "{{ $labels.node }}.",
        ),
        Alert(
            name="DraguardSliceFault",
            severity="warning",
            of=OF_DEVICE,
            when="An error contained in one slice or process (XID 94) within ten minutes, or an "
            "open incident of class contained.",
            expr=f"{_recent(_CONTAINED, 600)}\nor {_incident('contained')}",
            wait="0s",
            wait_why="One line is the whole event, and its process is dead: waiting tells nothing.",
            keep="10m",
            keep_why=_RESTART,
            summary="An uncorrectable error hit one slice or process of a GPU.",
            description="A memory error was contained: "
            + templates.xids(_CONTAINED)
            + ". Other slices of the GPU go on.",
            next="Tell the owner of the pod that it must start again. Reset the GPU when it is "
            "empty if rows wait to be remapped.",
        ),
        Alert(
            name="DraguardFabricFault",
            severity="warning",
            of=OF_DEVICE,
            when="An NVLink XID within the hour that neither the driver nor a closed incident has "
            "called over since, a recovery action for the fabric, an unhealthy fabric, or an open "
            "incident of class fabric.",
            expr=f"(\n  {_recent(_FABRIC, 3600)}\n  {_OVER}\n  {_CLOSED}\n)\n"
            f"or {RECOVERY} == 3\nor {RECOVERY} == 5\n"
            f"or {of(DEVICE, 'draguard_fabric_health')} == 2\nor {_incident('fabric')}",
            wait="2m",
            wait_why="Links are trained again within a minute, and the driver says whether it is "
            "over.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU's NVLink or fabric is at fault.",
            description="A link of the GPU is at fault: "
            + templates.xids(_FABRIC)
            + "; "
            + templates.RECOVERY
            + ". Work that uses NVLink fails; the rest goes on.",
            next="Look at the peers of the GPU as well, since either end of a link tells of it; "
            "then reset the GPU, or the switch and its GPUs together.",
        ),
        Alert(
            name="DraguardSwitchFault",
            severity="critical",
            of=OF_NODE,
            when="A fatal SXid of an NVSwitch within the hour.",
            expr=of(
                NODE,
                'time() - draguard_sxid_last_seen_timestamp_seconds{fatal="true"} < 3600',
            ),
            wait="0s",
            wait_why="A fatal SXid is one line, and GPUs behind the switch have lost their links.",
            keep="10m",
            keep_why=_RESTART,
            summary="An NVSwitch has a fatal error.",
            description="An NVSwitch of node {{ $labels.node }} has a fatal error: "
            + templates.SXIDS
            + ".",
            next="Move work that uses NVLink away, then reset the switch with all its GPUs, or "
            "reboot node {{ $labels.node }}.",
        ),
        Alert(
            name="DraguardApplicationErrors",
            severity="info",
            of=OF_DEVICE,
            when="XIDs that a program brings on itself were seen at three more times within the "
            "hour.",
            expr=by(
                DEVICE,
                of(
                    (*DEVICE, "code", "gi", "ci"),
                    f"changes(draguard_xid_last_seen_timestamp_seconds{{{_APPLICATION}}}[1h])",
                ),
                "sum",
            )
            + " >= 3",
            wait="0s",
            wait_why="The hour is in the question.",
            keep="15m",
            keep_why="A program that crashes in a loop waits longer and longer between two runs.",
            summary="Programs on a GPU crash again and again.",
            description="Application XIDs repeat, {{ $value }} times within the hour: "
            + templates.xids(_APPLICATION)
            + ".",
            next="Tell the owner of the pod. When different owners see it on this GPU alone, have "
            "the GPU diagnosed.",
        ),
    ),
)
