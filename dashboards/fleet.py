"""The fleet: what works, what does not, what nobody knows, what is free. Pure."""

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
)
from dashboards.catalogue import FLEET as BOARD
from dashboards.panel import (
    BLUE,
    GREEN,
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
    at_nodes,
    of_cluster,
    once,
    or_none_open,
)

_STATE = health.state(FLEET)
_OWN = "Counts every GPU, whole or cut into slices, once."
_NO_GPU = "there is no GPU, or no exporter was heard of for an hour"
_NO_LEADER = "no remediator leads"
_NOT_HEARD = "no exporter is heard of"


def _gpus(title: str, says: str, those: str, steps: tuple[Step, ...]) -> Stat:
    return stats.number(title, f"{_OWN} {says}", f"sum({those})", steps, empty=_NO_GPU)


def _incidents(title: str, says: str, matchers: str, steps: tuple[Step, ...]) -> Stat:
    each = once("incident", of_cluster("draguard_incident_phase", matchers))
    return stats.number(title, says, or_none_open(f"count({each})"), steps, empty=_NO_LEADER)


_COUNTS: tuple[Panel, ...] = (
    _gpus(
        "Healthy GPUs",
        f"{health.HEALTHY.word}: {health.HEALTHY.says}. Not among them: GPUs that are watched, "
        "unknown, stale or silent.",
        f"({_STATE}) == bool {health.HEALTHY.number}",
        (Step(0, PLAIN), Step(1, GREEN)),
    ),
    _gpus(
        "Sick or lost GPUs", health.LEGEND, f"({_STATE}) >= bool {health.SICK.number}", stats.BAD
    ),
    _gpus(
        "Unknown GPUs",
        f"Unknown, stale or silent: nobody can say how they are. {health.LEGEND}",
        f"abs(({_STATE}) - {health.OLD.number}) <= bool 1",
        stats.UNSEEN,
    ),
    _gpus(
        "Watched GPUs",
        f"{health.WATCHED.word}: {health.WATCHED.says}.",
        f"({_STATE}) == bool {health.WATCHED.number}",
        (Step(0, GREEN), Step(1, BLUE)),
    ),
    _incidents(
        "Incidents",
        "Episodes of failed GPUs that are not over. Unknown where no remediator leads: then "
        "nobody would have opened one.",
        "",
        stats.NOTABLE,
    ),
    _incidents(
        "Wait for a person",
        "Incidents that go on only when somebody acts: a replacement, a repeat, a sticky class. "
        "What to do is in the table of incidents, column Next.",
        'phase="NeedsHuman"',
        stats.BAD,
    ),
)


def _exporters_down() -> Stat:
    exporters = of_cluster("draguard_exporter_build_info")
    was_ours = f"present_over_time({exporters}[{health.REMEMBERED}])"
    down = f"{of_cluster('up')} == 0 and on (cluster, instance) {was_ours}"
    return stats.number(
        "Exporters down",
        "Node exporters that Prometheus still looks for and does not reach, of those that it "
        "reached within the last hour. Their GPUs are silent, and not healthy.",
        f"count({down}) or 0 * count({exporters})",
        stats.UNSEEN,
        empty="no exporter was heard of for an hour",
    )


def _sources_down() -> str:
    return f"{of_cluster('draguard_source_up', _WANTED)} == 0"


_WANTED = 'reason!="Off"'

_BLIND_SPOTS: tuple[Panel, ...] = (
    _exporters_down(),
    stats.number(
        "Stale agents",
        "Nodes whose agent has not renewed its Lease: the remediator believes nothing of what "
        "they said, fences nothing there and releases nothing.",
        f"sum({once('node', of_cluster('draguard_agent_stale'))})",
        stats.UNSEEN,
        empty="no remediator is heard of, or no node reports",
    ),
    stats.number(
        "Sources down",
        "Sources that an exporter wants and does not have: NVML, the kernel log, the kubelet, "
        "the API server. What is missing without each is in docs/exporter.md.",
        f"count({_sources_down()}) or 0 * count({of_cluster('draguard_source_up')})",
        stats.UNSEEN,
        empty=_NOT_HEARD,
    ),
    controller.leader(),
    idle.count(),
    stats.number(
        "GPUs missing",
        "GPUs that are on the bus or published and that NVML does not list. The exporters know "
        "them by bus id or UUID: see the node.",
        f"sum({of_cluster('draguard_gpu_missing')}) or 0 * sum({of_cluster('draguard_gpus_seen')})",
        stats.BAD,
        empty=f"NVML is down everywhere, or {_NOT_HEARD}",
    ),
)


def _not_well() -> Table:
    return Table(
        title="GPUs that are not healthy",
        says=f"Every GPU whose state is not Healthy, the worst first. {health.LEGEND}",
        queries=(
            Query(
                expr=f"({_STATE}) > {health.HEALTHY.number}",
                value="state",
                empty="every GPU is healthy",
            ),
        ),
        none="none, if any GPU is healthy above",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            Column(source="UUID", title="GPU", links=(links.TO_DEVICE,)),
            Column(source="state", title="State", meanings=health.MEANINGS),
        ),
        sort="State",
    )


def _nodes() -> Table:
    by_node = "cluster, Hostname"
    looked = at_nodes("draguard_snapshot_timestamp_seconds")
    return Table(
        title="Nodes",
        says="One line per node: the worst state among its GPUs, how many there are, their power, "
        f"and how old the last look at them is. {health.LEGEND}",
        queries=(
            Query(expr=health.worst_of_nodes(FLEET), value="worst", empty=_NO_GPU),
            Query(expr=f"count by ({by_node}) ({_STATE})", value="gpus", empty=_NO_GPU),
            Query(
                expr=f"sum by ({by_node}) ({of_cluster('DCGM_FI_DEV_POWER_USAGE')})",
                value="power",
                empty="no GPU tells its power",
            ),
            Query(
                expr=f"time() - min by ({by_node}) ({looked})",
                value="age",
                empty="no exporter is heard of",
            ),
        ),
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            Column(source="worst", title="Worst GPU", meanings=health.MEANINGS, width=100),
            Column(source="gpus", title="GPUs", unit="short", decimals=0, width=70),
            Column(source="power", title="Power", unit="watt", width=100),
            Column(
                source="age",
                title="Last look",
                unit="s",
                none="none",
                steps=(Step(-3600, PLAIN), Step(health.STALE_SECONDS, UNKNOWN)),
            ),
        ),
        sort="Worst GPU",
    )


def _sources_table() -> Table:
    return Table(
        title="Sources down, and why",
        says="What an exporter cannot see, and its reason. Pages that show no GPU are named by "
        "their address.",
        queries=(
            Query(
                expr=f"({at_nodes('draguard_source_up', _WANTED)}) == 0",
                value="up",
                empty="every source sees something",
            ),
        ),
        none="none, if exporters are heard of",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="Hostname", title="Node", none="no GPU shown", links=(links.TO_NODE,)),
            Column(source="source", title="Source"),
            Column(source="reason", title="Reason", none="-"),
            Column(source="instance", title="Page"),
        ),
        height=6,
    )


def _phases() -> TimeSeries:
    phases = once("incident, phase", of_cluster("draguard_incident_phase"))
    return TimeSeries(
        title="Open incidents by phase",
        says="Incidents that were open, by the phase they were in. A gap: none was open, or no "
        "remediator was heard of.",
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
        width=16,
        none="none open, if a leader is there",
        colours={word: colour for word, (_, colour) in incidents.PHASES.items()},
    )


DASHBOARD = Dashboard(
    board=BOARD,
    variables=variables.of(BOARD),
    annotations=annotations.of(FLEET),
    rows=(
        Row(title="GPUs and incidents", panels=_COUNTS),
        Row(title="What nobody can see, and what nobody uses", panels=_BLIND_SPOTS),
        Row(title="Look here first", panels=(incidents.table(FLEET), _not_well(), _nodes())),
        Row(title="Capacity", panels=capacity.panels()),
        Row(title="Over time", panels=(controller.verdicts(), _phases())),
        Row(title="Waste and blind spots, by name", panels=(idle.table(), _sources_table())),
    ),
)
