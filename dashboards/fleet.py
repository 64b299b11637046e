"""The fleet: what works, what does not, what is unknown, what is free. Pure."""

from dashboards import (
    annotations,
    capacity,
    controller,
    health,
    idle,
    incidents,
    links,
    stats,
    variables,
    waiting,
)
from dashboards.catalogue import FLEET as BOARD
from dashboards.panel import (
    PLAIN,
    UNKNOWN,
    Column,
    Dashboard,
    Panel,
    Query,
    Row,
    Stat,
    Step,
    Table,
    TimeSeries,
)
from dashboards.promql import (
    FLEET,
    NUMBER,
    at_nodes,
    known_long_ago,
    known_recently,
    of_cluster,
    once,
    once_at_nodes,
    or_none_open,
)

_NO_GPU = "no GPU, or no exporter data for an hour"
_NO_LEADER = "no remediator leads"
_NO_DATA = "no exporter data"


def _gpus() -> Stat:
    return Stat(
        title="GPUs by state",
        says="Number of GPUs in each state, the rarest first. States without a GPU are not shown. "
        f"Each GPU counts once, whole or partitioned into slices. {health.LEGEND}",
        queries=(Query(expr=health.counted(FLEET), legend="{{state}}", empty=_NO_GPU),),
        unit="short",
        decimals=0,
        steps=(Step(0, PLAIN),),
        filled=True,
        named=True,
        colours={state.word: state.colour for state in health.STATES},
        none=f"Unknown: {_NO_GPU}",
        width=12,
        height=stats.SIZE,
    )


def _incidents(title: str, says: str, matchers: str, steps: tuple[Step, ...]) -> Stat:
    each = once("incident", of_cluster("draguard_incident_phase", matchers))
    return stats.number(title, says, or_none_open(f"count({each})"), steps, empty=_NO_LEADER)


_VERDICT: tuple[Panel, ...] = (
    _gpus(),
    _incidents(
        "Incidents",
        "Open incidents. Unknown while no remediator leads, because new incidents are not opened "
        "then.",
        "",
        stats.NOTABLE,
    ),
    _incidents(
        "Manual action needed",
        "Incidents in phase NeedsHuman: a replacement, a repeated fault, a sticky class. See "
        "column Next of the incident table for what to do.",
        'phase="NeedsHuman"',
        stats.BAD,
    ),
    controller.leader(),
)


def _exporters_down() -> Stat:
    exporters = of_cluster("draguard_exporter_build_info")
    was_ours = f"({known_recently(exporters)} or {known_long_ago(exporters)})"
    down = f"{of_cluster('up')} == 0 and on (cluster, job, instance) {was_ours}"
    return stats.number(
        "Exporters down",
        "Exporters that Prometheus still scrapes without success, and reached within the last "
        "hour or day. Their GPUs have no current data and do not count as healthy.",
        f"count({once('instance', down)}) or 0 * count({exporters})",
        stats.UNSEEN,
        empty="no exporter data for an hour",
    )


def _sources_down() -> str:
    return f"({at_nodes('draguard_source_up', _CONFIGURED)}) == 0"


_CONFIGURED = 'reason!~"Off|HostPIDOff"'

_BLIND_SPOTS: tuple[Panel, ...] = (
    _exporters_down(),
    stats.number(
        "Stale agents",
        "Nodes whose agent has not renewed its Lease. The remediator ignores their reports and "
        "neither taints nor untaints GPUs there.",
        f"sum({once('node', of_cluster('draguard_agent_stale'))})",
        stats.UNSEEN,
        empty="no remediator data, or no node reports",
    ),
    stats.number(
        "Sources down",
        "Sources that an exporter needs and cannot read: NVML, the kernel log, the kubelet, the "
        "API server. docs/exporter.md lists what is missing without each.",
        f"count({once_at_nodes('source', _sources_down())})"
        f" or 0 * count({of_cluster('draguard_source_up')})",
        stats.UNSEEN,
        empty=_NO_DATA,
    ),
    stats.number(
        "GPUs missing",
        "GPUs that are on the PCI bus or published, but not listed by NVML. The node dashboard "
        "lists them by bus ID or UUID.",
        f"sum({once_at_nodes('device', at_nodes('draguard_gpu_missing'))})"
        f" or 0 * sum({of_cluster('draguard_gpus_seen')})",
        stats.BAD,
        empty=f"NVML is down everywhere, or {_NO_DATA}",
    ),
    waiting.pending(),
    idle.count(),
)


def _not_well() -> Table:
    return Table(
        title="GPUs that are not healthy",
        says=f"All GPUs whose state is not Healthy, the worst first. {health.LEGEND}",
        queries=(
            Query(
                expr=health.not_well(FLEET),
                value="state",
                empty="every GPU is healthy",
            ),
        ),
        none="None, if GPUs by state shows healthy GPUs",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            Column(source=NUMBER, title="GPU", none="?", links=(links.TO_DEVICE,)),
            Column(source="UUID", title="UUID", links=(links.TO_DEVICE,)),
            Column(source="state", title="State", meanings=health.MEANINGS),
        ),
        sort="State",
        height=7,
    )


def _nodes() -> Table:
    return Table(
        title="Nodes",
        says="One line per node: the worst GPU state, the number of GPUs, their power, and the age "
        f"of the exporter's data. {health.LEGEND}",
        queries=_of_nodes(),
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            Column(source="worst", title="Worst GPU", meanings=health.MEANINGS, width=100),
            Column(source="gpus", title="GPUs", unit="short", decimals=0, width=70),
            Column(source="power", title="Power", unit="watt", width=100),
            Column(
                source="age",
                title="Data age",
                unit="s",
                none="no data",
                steps=(Step(-3600, PLAIN), Step(health.STALE_SECONDS, UNKNOWN)),
            ),
        ),
        none="No exporter data",
        sort="Worst GPU",
        height=7,
    )


def _of_nodes() -> tuple[Query, ...]:
    by_node = "cluster, Hostname"
    power = once("Hostname, UUID", of_cluster("DCGM_FI_DEV_POWER_USAGE"))
    looked = at_nodes("draguard_snapshot_timestamp_seconds")
    return (
        Query(expr=health.worst_of_nodes(FLEET), value="worst", empty=_NO_GPU),
        Query(expr=f"count by ({by_node}) ({health.known(FLEET)})", value="gpus", empty=_NO_GPU),
        Query(
            expr=f"sum by ({by_node}) ({power})", value="power", empty="no GPU reports its power"
        ),
        Query(expr=f"time() - min by ({by_node}) ({looked})", value="age", empty=_NO_DATA),
    )


def _sources_table() -> Table:
    return Table(
        title="Sources down and reasons",
        says="Sources that an exporter cannot read, and the reason. An exporter that shows no GPU "
        "is identified by its address.",
        queries=(
            Query(
                expr=once("Hostname, source, reason, instance", _sources_down()),
                value="up",
                empty="every source is up",
            ),
        ),
        none="None (unknown without exporter data)",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="Hostname", title="Node", none="no GPU shown", links=(links.TO_NODE,)),
            Column(source="source", title="Source"),
            Column(source="reason", title="Reason", none="-"),
            Column(source="instance", title="Exporter", width=150),
        ),
        width=10,
        height=6,
    )


def _phases() -> TimeSeries:
    phases = incidents.latest("phase", of_cluster("draguard_incident_phase"))
    return TimeSeries(
        title="Open incidents by phase",
        says="Open incidents by phase. A gap: no incident was open, or there was no remediator "
        "data.",
        queries=(
            Query(
                expr=f"count by (phase) ({phases})",
                legend="{{phase}}",
                empty=incidents.NO_INCIDENT,
            ),
        ),
        unit="short",
        decimals=0,
        stacked=True,
        stepped=True,
        width=12,
        height=7,
        none=incidents.NONE_OPEN,
        colours={word: colour for word, (_, colour) in incidents.PHASES.items()},
    )


DASHBOARD = Dashboard(
    board=BOARD,
    variables=variables.of(BOARD),
    annotations=annotations.of(FLEET),
    rows=(
        Row(title="Overview", panels=_VERDICT),
        Row(
            title="Incidents, affected pods, GPUs and nodes",
            panels=(incidents.table(FLEET), incidents.hit_table(FLEET), _not_well(), _nodes()),
        ),
        Row(title="Monitoring gaps, pending claims and idle devices", panels=_BLIND_SPOTS),
        Row(title="Capacity", panels=capacity.panels()),
        Row(title="Over time", panels=(controller.verdicts(width=12), _phases())),
        Row(title="Idle devices and failed sources", panels=(idle.table(), _sources_table())),
    ),
)
