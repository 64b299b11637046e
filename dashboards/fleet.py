"""The fleet: what works, what does not, what nobody knows, what is free. Pure."""

from dashboards import annotations, capacity, controller, health, incidents, links, variables
from dashboards.catalogue import FLEET as BOARD
from dashboards.panel import (
    BLUE,
    GREEN,
    ORANGE,
    PLAIN,
    RED,
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
    DEVICE_KEY,
    FLEET,
    at_nodes,
    busy,
    holders,
    of_cluster,
    of_holders,
    once,
    or_none_open,
)

_STATE = health.state(FLEET)
_IDLE_WINDOW = "1h"
_IDLE_BELOW = 0.01
GOOD_AT_ZERO = (Step(0, GREEN), Step(1, RED))
_OWN = "Counts every GPU, whole or cut into slices, once."


def _count(title: str, says: str, expr: str, steps: tuple[Step, ...], empty: str = "") -> Stat:
    return Stat(
        title=title,
        says=says,
        queries=(Query(expr=expr, empty=empty),),
        unit="short",
        decimals=0,
        width=4,
        height=4,
        steps=steps,
    )


_NO_GPU = "there is no GPU, or no exporter was heard of for an hour"
_NO_LEADER = "no remediator leads"


def _health_counts() -> tuple[Panel, ...]:
    return (
        _count(
            "Healthy GPUs",
            f"{_OWN} {health.HEALTHY.word}: {health.HEALTHY.says}. Not among them: GPUs that are "
            "watched, unknown, stale or silent.",
            f"sum(({_STATE}) == bool {health.HEALTHY.number})",
            (Step(0, PLAIN), Step(1, GREEN)),
            _NO_GPU,
        ),
        _count(
            "Sick or lost GPUs",
            f"{_OWN} {health.LEGEND}",
            f"sum(({_STATE}) >= bool {health.SICK.number})",
            GOOD_AT_ZERO,
            _NO_GPU,
        ),
        _count(
            "Unknown GPUs",
            f"{_OWN} Unknown, stale or silent: nobody can say how they are. {health.LEGEND}",
            f"sum(abs(({_STATE}) - {health.OLD.number}) <= bool 1)",
            (Step(0, GREEN), Step(1, UNKNOWN)),
            _NO_GPU,
        ),
        _count(
            "Watched GPUs",
            f"{_OWN} {health.WATCHED.word}: {health.WATCHED.says}.",
            f"sum(({_STATE}) == bool {health.WATCHED.number})",
            (Step(0, GREEN), Step(1, BLUE)),
            _NO_GPU,
        ),
        _count(
            "Incidents",
            "Episodes of failed GPUs that are not over. Unknown where no remediator leads: then "
            "nobody would have opened one.",
            or_none_open(f"count({once('incident', of_cluster('draguard_incident_phase'))})"),
            (Step(0, GREEN), Step(1, ORANGE)),
            _NO_LEADER,
        ),
        _count(
            "Wait for a person",
            "Incidents that go on only when somebody acts: a replacement, a repeat, a sticky "
            "class. What to do is in the table of incidents, column Next.",
            or_none_open(_phase_count("NeedsHuman")),
            GOOD_AT_ZERO,
            _NO_LEADER,
        ),
    )


def _phase_count(phase: str) -> str:
    selector = of_cluster("draguard_incident_phase", f'phase="{phase}"')
    return f"count({once('incident', selector)})"


def _blind_spots() -> tuple[Panel, ...]:
    exporters = of_cluster("draguard_exporter_build_info")
    was_ours = f"present_over_time({exporters}[{health.REMEMBERED}])"
    down = f"{of_cluster('up')} == 0 and on (cluster, instance) {was_ours}"
    return (
        _count(
            "Exporters down",
            "Node exporters that Prometheus still looks for and does not reach, of those that it "
            "reached within the last hour. Their GPUs are silent, and not healthy.",
            f"count({down}) or 0 * count({exporters})",
            (Step(0, GREEN), Step(1, UNKNOWN)),
            "no exporter was heard of for an hour",
        ),
        _count(
            "Stale agents",
            "Nodes whose agent has not renewed its Lease: the remediator believes nothing of what "
            "they said, fences nothing there and releases nothing.",
            f"sum({once('node', of_cluster('draguard_agent_stale'))})",
            (Step(0, GREEN), Step(1, UNKNOWN)),
            "no remediator is heard of, or no node reports",
        ),
        _count(
            "Sources down",
            "Sources that an exporter wants and does not have: NVML, the kernel log, the kubelet, "
            "the API server. What is missing without each is in docs/exporter.md.",
            f"count({_sources_down()}) or 0 * count({of_cluster('draguard_source_up')})",
            (Step(0, GREEN), Step(1, UNKNOWN)),
            "no exporter is heard of",
        ),
        controller.leader(),
        _count(
            "Idle devices",
            f"Devices that a claim has held for {_IDLE_WINDOW} and that computed less than "
            f"{_IDLE_BELOW:.0%} of it. Which, and whose, is in the table below.",
            f"count({_idle()}) or 0 * count({of_cluster('draguard_gpu_info')})",
            (Step(0, GREEN), Step(1, ORANGE)),
            "no exporter is heard of",
        ),
        _count(
            "GPUs missing",
            "GPUs that are on the bus or published and that NVML does not list. The exporters know "
            "them by bus id or UUID: see the node.",
            f"sum({of_cluster('draguard_gpu_missing')})"
            f" or 0 * sum({of_cluster('draguard_gpus_seen')})",
            GOOD_AT_ZERO,
            "NVML is down everywhere, or no exporter is heard of",
        ),
    )


def _sources_down() -> str:
    return f"{of_cluster('draguard_source_up', _WANTED)} == 0"


_WANTED = 'reason!="Off"'


def _idle() -> str:
    """Claims on devices that did nothing for the window, and that they held at its start."""
    share = once("Hostname, UUID, GPU_I_ID", f"({busy(FLEET, _IDLE_WINDOW)})")
    idle = of_holders(f"{share} < {_IDLE_BELOW}", holders(), "Hostname")
    same = f"{DEVICE_KEY}, dra_claim_namespace, dra_claim_name"
    return f"({idle}) and on ({same}) {holders(ago=_IDLE_WINDOW)}"


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


def _idle_table() -> Table:
    return Table(
        title="Allocated, not used",
        says=f"Claims that have held a device for {_IDLE_WINDOW} while it computed less than "
        f"{_IDLE_BELOW:.0%} of the time. A shared device is listed once for each claim. Devices "
        "that tell no use are not judged.",
        queries=(Query(expr=_idle(), value="busy", empty="every held device is used"),),
        none="none",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="dra_claim_namespace", title="Namespace"),
            Column(source="dra_claim_name", title="Claim", links=(links.TO_CLAIM,)),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            Column(source="UUID", title="GPU", links=(links.TO_DEVICE,)),
            Column(source="GPU_I_ID", title="Slice", none="whole GPU"),
            Column(source="busy", title="Computing", unit="percentunit", decimals=2),
        ),
        sort="Computing",
        height=6,
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
        Row(title="GPUs and incidents", panels=_health_counts()),
        Row(title="What nobody can see, and what nobody uses", panels=_blind_spots()),
        Row(title="Look here first", panels=(incidents.table(FLEET), _not_well(), _nodes())),
        Row(title="Capacity", panels=capacity.panels()),
        Row(title="Over time", panels=(controller.verdicts(), _phases())),
        Row(title="Waste and blind spots, by name", panels=(_idle_table(), _sources_table())),
    ),
)
