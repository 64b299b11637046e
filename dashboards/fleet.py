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

_NO_GPU = "there is no GPU, or no exporter was heard of for an hour"
_NO_LEADER = "no remediator leads"
_NOT_HEARD = "no exporter is heard of"


def _gpus() -> Stat:
    return Stat(
        title="GPUs by state",
        says="How many GPUs are in each state, the rarest first; a state that no GPU is in is not "
        f"shown. Every GPU, whole or cut into slices, counts once. {health.LEGEND}",
        queries=(Query(expr=health.counted(FLEET), legend="{{state}}", empty=_NO_GPU),),
        unit="short",
        decimals=0,
        steps=(Step(0, PLAIN),),
        filled=True,
        named=True,
        colours={one.word: one.colour for one in health.STATES},
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
    controller.leader(),
)


def _exporters_down() -> Stat:
    exporters = of_cluster("draguard_exporter_build_info")
    was_ours = f"({known_recently(exporters)} or {known_long_ago(exporters)})"
    down = f"{of_cluster('up')} == 0 and on (cluster, job, instance) {was_ours}"
    return stats.number(
        "Exporters down",
        "Node exporters that Prometheus still looks for and does not reach, of those that it "
        "reached within the last hour or day. Their GPUs are silent, and not healthy.",
        f"count({once('instance', down)}) or 0 * count({exporters})",
        stats.UNSEEN,
        empty="no exporter was heard of for an hour",
    )


def _waiting() -> Stat:
    claims = once(
        "dra_claim_namespace, dra_claim_name",
        of_cluster("draguard_claim_pending_since_timestamp_seconds"),
    )
    return stats.number(
        "Claims that wait",
        "ResourceClaims without a device that a pod waits for; which and why is on the claim "
        "dashboard. Unknown where no remediator counts them.",
        f"count({claims}) or 0 * max({of_cluster('draguard_claims')})",
        stats.NOTABLE,
        empty="no remediator is heard of",
    )


def _sources_down() -> str:
    return f"({at_nodes('draguard_source_up', _WANTED)}) == 0"


_WANTED = 'reason!~"Off|HostPIDOff"'

_BLIND_SPOTS: tuple[Panel, ...] = (
    _exporters_down(),
    stats.number(
        "Stale agents",
        "Nodes whose agent has not renewed its Lease: the remediator believes nothing of what "
        "they said, taints and untaints nothing there.",
        f"sum({once('node', of_cluster('draguard_agent_stale'))})",
        stats.UNSEEN,
        empty="no remediator is heard of, or no node reports",
    ),
    stats.number(
        "Sources down",
        "Sources that an exporter wants and does not have: NVML, the kernel log, the kubelet, "
        "the API server. What is missing without each is in docs/exporter.md.",
        f"count({once_at_nodes('source', _sources_down())})"
        f" or 0 * count({of_cluster('draguard_source_up')})",
        stats.UNSEEN,
        empty=_NOT_HEARD,
    ),
    stats.number(
        "GPUs missing",
        "GPUs that are on the bus or published and that NVML does not list. The exporters know "
        "them by bus id or UUID: see the node.",
        f"sum({once_at_nodes('device', at_nodes('draguard_gpu_missing'))})"
        f" or 0 * sum({of_cluster('draguard_gpus_seen')})",
        stats.BAD,
        empty=f"NVML is down everywhere, or {_NOT_HEARD}",
    ),
    _waiting(),
    idle.count(),
)


def _not_well() -> Table:
    return Table(
        title="GPUs that are not healthy",
        says=f"Every GPU whose state is not Healthy, the worst first. {health.LEGEND}",
        queries=(
            Query(
                expr=health.not_well(FLEET),
                value="state",
                empty="every GPU is healthy",
            ),
        ),
        none="none, if GPUs are healthy above",
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
        says="One line per node: the worst state among its GPUs, how many there are, their power, "
        f"and how old the last look at them is. {health.LEGEND}",
        queries=_of_nodes(),
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
        none=_NOT_HEARD,
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
        Query(expr=f"sum by ({by_node}) ({power})", value="power", empty="no GPU tells its power"),
        Query(expr=f"time() - min by ({by_node}) ({looked})", value="age", empty=_NOT_HEARD),
    )


def _sources_table() -> Table:
    return Table(
        title="Sources down, and why",
        says="What an exporter cannot see, and its reason. Pages that show no GPU are named by "
        "their address.",
        queries=(
            Query(
                expr=once("Hostname, source, reason, instance", _sources_down()),
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
            Column(source="instance", title="Page", width=150),
        ),
        width=10,
        height=6,
    )


def _phases() -> TimeSeries:
    phases = incidents.latest("phase", of_cluster("draguard_incident_phase"))
    return TimeSeries(
        title="Open incidents by phase",
        says="Incidents that were open, each once, by the phase they were in. A gap: none was "
        "open, or no remediator was heard of.",
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
        none="none open, if a leader is there",
        colours={word: colour for word, (_, colour) in incidents.PHASES.items()},
    )


DASHBOARD = Dashboard(
    board=BOARD,
    variables=variables.of(BOARD),
    annotations=annotations.of(FLEET),
    rows=(
        Row(title="Is anything wrong?", panels=_VERDICT),
        Row(
            title="Where, affected pods, and what is done",
            panels=(incidents.table(FLEET), incidents.hit_table(FLEET), _not_well(), _nodes()),
        ),
        Row(title="What nobody can see, and what is not used", panels=_BLIND_SPOTS),
        Row(title="Capacity", panels=capacity.panels()),
        Row(title="Over time", panels=(controller.verdicts(width=12), _phases())),
        Row(title="Waste and blind spots, by name", panels=(idle.table(), _sources_table())),
    ),
)
