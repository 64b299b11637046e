"""Alerts on exporters: their sources, sensors and agents."""

from alerts import templates
from alerts.identity import NODE, of, on
from alerts.recordings import EXPECTED, EXPORTERS, OF_SENSORS, SHOWN
from alerts.rule import Alert, Group
from alerts.subjects import OF_FLEET, OF_PAGE, OF_SOURCE
from alerts.thresholds import LAST_PAGE, LAST_REPORT, OLD_READINGS
from exporter.model.readings import LOST_RECORDS

_SILENT = of(NODE, f"time() - draguard_snapshot_timestamp_seconds > {OLD_READINGS}")
_NO_GPUS = f"{EXPECTED} == 0"
"""Known to have none. An unknown number does not suppress alerts."""
_TARGETS = f"(up and on (cluster, job) {EXPORTERS})"
"""Whether or not they can be scraped."""
_ASIDE = "Off|HostPIDOff|NotServed"
"""Reasons of a source that is not expected: switched off, or not in this cluster."""
_LOST = f'draguard_kernel_log_rejected_total{{reason=~"{"|".join(LOST_RECORDS)}"}}[1h]'
_ROWS_LEFT_OUT = of(NODE, "draguard_counters_rows_left_out > 0")
_FILE_REFUSED = of(NODE, "draguard_counters_last_reload_success == 0")

GROUP = Group(
    name="draguard-sensors",
    rules=(
        *OF_SENSORS,
        Alert(
            name="DraguardExporterDown",
            severity="warning",
            of=OF_PAGE,
            when="Prometheus has an exporter as a target, but cannot scrape it.",
            expr=of(NODE, f"up == 0 and on (cluster, job) {EXPORTERS}", "count"),
            wait="10m",
            wait_why="Node reboots and DaemonSet rollouts take minutes.",
            keep="5m",
            keep_why="A container in CrashLoopBackOff answers now and then.",
            summary="A GPU exporter cannot be scraped.",
            description="Prometheus cannot scrape the exporter of node {{ $labels.node }}. The "
            "state of its GPUs is unknown here.",
            next="Check the exporter's pod on node {{ $labels.node }}: `kubectl -n "
            "draguard-system get pods --field-selector spec.nodeName={{ $labels.node }}`.",
        ),
        Alert(
            name="DraguardExporterGone",
            severity="warning",
            of=OF_PAGE,
            when="A node had GPUs within the last week and still exists, but Prometheus has no "
            "exporter as a target there any more. Not when no exporter of the cluster is left.",
            expr=f"time() - {SHOWN} < {LAST_PAGE}\nunless {on(NODE)} {_TARGETS}\n"
            f"and on (cluster) {_TARGETS}",
            wait="15m",
            wait_why="A reinstalled DaemonSet pulls images; a removed node is listed for minutes.",
            keep="10m",
            keep_why="The source that lists the node may restart.",
            summary="A GPU node has no exporter any more.",
            description="Node {{ $labels.node }} exists, but has had no exporter for "
            "{{ $value | humanizeDuration }}. The state of its GPUs is unknown. It had: "
            + templates.LAST_SHOWN
            + ".",
            next="Check whether node {{ $labels.node }} still lists its GPUs (`lspci -d 10de:`). "
            "The node labels that select exporters disappear with the last GPU.",
        ),
        Alert(
            name="DraguardNoExporter",
            severity="warning",
            of=OF_FLEET,
            when="Nodes of a cluster had GPUs within the last day and still exist, but Prometheus "
            "has no exporter as a target in that cluster any more.",
            expr=f"count by (cluster) (time() - {SHOWN} < {LAST_REPORT})\n"
            f"unless on (cluster) {_TARGETS}\nunless on (cluster) draguard_exporter_build_info",
            wait="15m",
            wait_why="A reinstalled DaemonSet pulls images.",
            keep="10m",
            keep_why="The source that lists the nodes may restart.",
            summary="A GPU cluster has no exporter any more.",
            description="Existing nodes that had GPUs: {{ $value }}. None of them has an exporter. "
            "The state of all GPUs is unknown.",
            next="Check `kubectl -n draguard-system get daemonsets,pods` and the node labels. "
            "After an uninstall the alert resolves within a day.",
        ),
        Alert(
            name="DraguardSourceDown",
            severity="warning",
            of=OF_SOURCE,
            when="A source of an exporter (nvml, kmsg, podresources, resourceslices, "
            "report, ...) is down. Not on nodes known to have no GPU, nor for sources that are "
            "switched off or APIs that the cluster does not have.",
            expr=of((*NODE, "source"), f'draguard_source_up{{reason!~"{_ASIDE}"}} == 0')
            + f" == 0\nunless {on(NODE)} {_NO_GPUS}\nunless {on(NODE)} {_SILENT}",
            wait="10m",
            wait_why="A driver reload and a kubelet restart take minutes.",
            keep="5m",
            keep_why="A flapping source counts as down.",
            summary="A source of an exporter is down.",
            description="Source {{ $labels.source }} of node {{ $labels.node }} is down, "
            + templates.SOURCE
            + ". Its readings are unknown.",
            next="Run `draguard exporter --check` on node {{ $labels.node }}: it shows what is "
            "missing and how to provide it.",
        ),
        Alert(
            name="DraguardKernelLogIncomplete",
            severity="warning",
            of=OF_PAGE,
            when="Within the last hour an exporter could not read kernel log records, because the "
            "log was cleared or overwritten, or because journald missed them; or it rejected lines "
            "that begin like the driver's. Not for lines that the driver certainly did not print.",
            expr=of(NODE, f"increase({_LOST})") + " > 0",
            wait="0s",
            wait_why="The expression already covers one hour.",
            keep="10m",
            keep_why="An exporter that restarts interrupts the series for minutes.",
            summary="Kernel log records of a GPU node were lost.",
            description="Node {{ $labels.node }}: kernel log records were lost or rejected within "
            "the last hour, reason " + templates.LOST_RECORDS + ". XIDs and SXids that only the "
            "log reports may be missing.",
            next="On node {{ $labels.node }}, compare `dmesg` or `journalctl -k` with "
            "draguard_xid_errors_total, and follow the runbook for the reason.",
        ),
        Alert(
            name="DraguardSignalsDropped",
            severity="warning",
            of=OF_PAGE,
            when="Within the last hour a sensor saw more errors of GPUs than it keeps for its "
            "agent, and some are lost.",
            expr=of(NODE, "increase(draguard_signals_dropped_total[1h])") + " > 0",
            wait="0s",
            wait_why="The expression already covers one hour.",
            keep="10m",
            keep_why="An exporter that restarts interrupts the series for minutes.",
            summary="Errors of the GPUs of a node were lost.",
            description="Node {{ $labels.node }}: signals of GPUs were lost within the last hour, "
            "because no agent took them. XIDs may be missing.",
            next="On node {{ $labels.node }}, compare `dmesg` or `journalctl -k` with "
            "draguard_xid_errors_total, and see why the container `agent` was away.",
        ),
        Alert(
            name="DraguardSensorSilent",
            severity="warning",
            of=OF_PAGE,
            when="The readings of an exporter are older than five minutes.",
            expr=f"{_SILENT}\nunless {on(NODE)} {_NO_GPUS}",
            wait="5m",
            wait_why="A restart of the container, if that helps, takes minutes.",
            keep="5m",
            keep_why="A sensor in CrashLoopBackOff reports now and then.",
            summary="A node's GPU readings are stale.",
            description="The sensor of node {{ $labels.node }} last reported "
            "{{ $value | humanizeDuration }} ago. The state of its GPUs is unknown.",
            next="Check the log of the container `sensor` of the exporter's pod on node "
            "{{ $labels.node }}. A process in uninterruptible sleep requires a reboot.",
        ),
        Alert(
            name="DraguardAgentStale",
            severity="warning",
            of=OF_PAGE,
            when="A node has a report, but its agent renews neither the report nor its Lease.",
            expr=f"max by ({', '.join(NODE)}) (draguard_agent_stale) == 1",
            wait="10m",
            wait_why="A node reboot takes minutes.",
            keep="5m",
            keep_why="An agent in CrashLoopBackOff renews its Lease now and then.",
            summary="A node's report to the remediator is stale.",
            description="The agent of node {{ $labels.node }} is stale. The remediator treats its "
            "GPUs as Unknown and neither taints nor untaints them.",
            next="Check the log of the container `agent` of the exporter's pod on node "
            "{{ $labels.node }}, and its permissions (`draguard doctor`).",
        ),
        Alert(
            name="DraguardCountersFileBad",
            severity="warning",
            of=OF_FLEET,
            when="Exporters of a cluster omit rows of their counters file, or reject the current "
            "file.",
            expr=f"count by (cluster) (\n{_ROWS_LEFT_OUT}\nor {_FILE_REFUSED}\n) > 0",
            wait="15m",
            wait_why="A file that is being edited is usually fixed within minutes, and a ConfigMap "
            "takes a minute or two to reach all nodes.",
            keep="5m",
            keep_why="A restarting exporter exports no metrics for a moment.",
            summary="A counters file has invalid rows.",
            description="Nodes on which rows of the counters file are omitted, or the last good "
            "file is still in use: {{ $value }}.",
            next="Run `draguard exporter --check --collectors=FILE`. It shows each row with its "
            "line and the fix, as does the log of the container `agent`.",
        ),
    ),
)
