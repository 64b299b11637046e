"""Alerts on what sees: an exporter, one of its sources, its sensor, its agent."""

from alerts import templates
from alerts.identity import NODE, of, on
from alerts.recordings import EXPECTED, EXPORTERS, OF_SENSORS, SHOWN
from alerts.rule import Alert, Group
from alerts.subjects import OF_FLEET, OF_PAGE, OF_SOURCE

_SILENT_SECONDS = 300
_SILENT = of(NODE, f"time() - draguard_snapshot_timestamp_seconds > {_SILENT_SECONDS}")
_NO_GPUS = f"{EXPECTED} == 0"
"""Known to have none. Not knowing is no reason to be quiet."""
_TARGETS = f"(up and on (cluster, job) {EXPORTERS})"
"""Whether or not they can be scraped."""
_DAY = 86400
_WEEK = 7 * _DAY
_ASIDE = "Off|HostPIDOff|NotServed"
"""Reasons of a source that is not meant to be there: switched off, or not in this cluster."""
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
            when="Prometheus has an exporter as target and cannot scrape it.",
            expr=of(NODE, f"up == 0 and on (cluster, job) {EXPORTERS}", "count"),
            wait="10m",
            wait_why="A node that reboots and a DaemonSet that rolls out take minutes.",
            keep="5m",
            keep_why="A container that crashes in a loop answers now and then.",
            summary="The metrics of a node's GPUs cannot be read.",
            description="Prometheus has not been able to scrape the exporter of node "
            "{{ $labels.node }}: nothing is known of its GPUs here.",
            next="Look at the exporter's pod on node {{ $labels.node }}: `kubectl -n "
            "draguard-system get pods --field-selector spec.nodeName={{ $labels.node }}`.",
        ),
        Alert(
            name="DraguardExporterGone",
            severity="warning",
            of=OF_PAGE,
            when="A node showed GPUs within the week, Prometheus has no exporter as target there "
            "any more, and the node is there. Not when no exporter of the cluster is left.",
            expr=f"time() - {SHOWN} < {_WEEK}\nunless {on(NODE)} {_TARGETS}\n"
            f"and on (cluster) {_TARGETS}",
            wait="15m",
            wait_why="A DaemonSet that is installed anew pulls images; a node that is removed is "
            "listed for minutes.",
            keep="10m",
            keep_why="Who tells that the node is there may restart.",
            summary="A node with GPUs has no exporter any more.",
            description="Node {{ $labels.node }} is there and its exporter is not, for "
            "{{ $value | humanizeDuration }}: nothing is known of its GPUs. It had: "
            + templates.LAST_SHOWN
            + ".",
            next="Look whether node {{ $labels.node }} still sees its GPUs (`lspci -d 10de:`): the "
            "labels by which exporters are placed go with the last one.",
        ),
        Alert(
            name="DraguardNoExporter",
            severity="warning",
            of=OF_FLEET,
            when="Nodes of a cluster showed GPUs within the day and are there, and Prometheus has "
            "no exporter as target in that cluster any more.",
            expr=f"count by (cluster) (time() - {SHOWN} < {_DAY})\n"
            f"unless on (cluster) {_TARGETS}\nunless on (cluster) draguard_exporter_build_info",
            wait="15m",
            wait_why="A DaemonSet that is installed anew pulls images.",
            keep="10m",
            keep_why="Who tells that the nodes are there may restart.",
            summary="A cluster with GPUs has no exporter any more.",
            description="Nodes that had GPUs and are there: {{ $value }}. None of them has an "
            "exporter: nothing is known of any GPU.",
            next="`kubectl -n draguard-system get daemonsets,pods`, and the labels of the nodes. "
            "After an uninstall this ends within a day by itself.",
        ),
        Alert(
            name="DraguardSourceDown",
            severity="warning",
            of=OF_SOURCE,
            when="A source of an exporter's page (nvml, kmsg, podresources, resourceslices, "
            "report, ...) sees nothing, on a node that is not known to have no GPU. Not what is "
            "switched off, nor an API that the cluster does not have.",
            expr=of((*NODE, "source"), f'draguard_source_up{{reason!~"{_ASIDE}"}} == 0')
            + f" == 0\nunless {on(NODE)} {_NO_GPUS}\nunless {on(NODE)} {_SILENT}",
            wait="10m",
            wait_why="A driver that is loaded again and a kubelet that restarts take minutes.",
            keep="5m",
            keep_why="A source that comes and goes is down.",
            summary="An exporter cannot see through one of its sources.",
            description="Source {{ $labels.source }} of node {{ $labels.node }} is down, "
            + templates.SOURCE
            + ": what it would tell is unknown.",
            next="`draguard exporter --check` on node {{ $labels.node }} says what is missing and "
            "how to give it.",
        ),
        Alert(
            name="DraguardSensorSilent",
            severity="warning",
            of=OF_PAGE,
            when="What an exporter's page shows is older than five minutes.",
            expr=f"{_SILENT}\nunless {on(NODE)} {_NO_GPUS}",
            wait="5m",
            wait_why="The container restarts within minutes when that is all it needs.",
            keep="5m",
            keep_why="A sensor that crashes in a loop speaks now and then.",
            summary="A node's sensor says nothing.",
            description="The sensor of node {{ $labels.node }} last spoke "
            "{{ $value | humanizeDuration }} ago: its GPUs are unknown.",
            next="Look at the log of the container `sensor` of the exporter's pod on node "
            "{{ $labels.node }}; a process in uninterruptible sleep takes a reboot.",
        ),
        Alert(
            name="DraguardAgentStale",
            severity="warning",
            of=OF_PAGE,
            when="A node's report is stored and its agent renews neither it nor its Lease.",
            expr=f"max by ({', '.join(NODE)}) (draguard_agent_stale) == 1",
            wait="10m",
            wait_why="A node that reboots takes minutes.",
            keep="5m",
            keep_why="An agent that crashes in a loop renews its Lease now and then.",
            summary="The remediator hears nothing of a node.",
            description="The agent of node {{ $labels.node }} is stale: its GPUs are Unknown to "
            "the remediator, which neither taints nor untaints there.",
            next="Look at the log of the container `agent` of the exporter's pod on node "
            "{{ $labels.node }}, and at its rights (`draguard doctor`).",
        ),
        Alert(
            name="DraguardCountersFileBad",
            severity="warning",
            of=OF_FLEET,
            when="Exporters of a cluster leave out rows of their counters file, or refuse the file "
            "as it is now.",
            expr=f"count by (cluster) (\n{_ROWS_LEFT_OUT}\nor {_FILE_REFUSED}\n) > 0",
            wait="15m",
            wait_why="A file that is being edited is put right within minutes, and a ConfigMap "
            "takes a minute or two to reach all nodes.",
            keep="5m",
            keep_why="An exporter that restarts shows nothing for a moment.",
            summary="A counters file has rows that cannot be shown.",
            description="Nodes on which rows of the counters file are missing, or the last good "
            "file is still in force: {{ $value }}.",
            next="`draguard exporter --check --collectors=FILE` names each row with its line and "
            "what to do, as the log of the container `agent` does.",
        ),
    ),
)
