"""One node: its GPUs side by side and over time, what its exporter sees and does not. Pure."""

from dashboards import (
    annotations,
    health,
    held,
    incidents,
    links,
    load,
    stats,
    variables,
    wear,
    xids,
)
from dashboards.catalogue import NODE as BOARD
from dashboards.panel import (
    GREEN,
    RED,
    UNKNOWN,
    Column,
    Dashboard,
    Meaning,
    Panel,
    Query,
    Row,
    Stat,
    States,
    Step,
    Table,
)
from dashboards.promql import NODE, at_node, numbered, once, or_none_open

_NO_GPU = "no GPU of this node is known"
_NOT_HEARD = "no exporter of this node is heard of"


_WANTED = 'reason!~"Off|HostPIDOff"'

_NOW: tuple[Panel, ...] = (
    stats.worst(
        "Worst GPU",
        "The worst state among the GPUs of this node.",
        health.state(NODE),
        empty=_NO_GPU,
    ),
    stats.last_look(
        "How old the values of this node's exporter are. Above three minutes they are stale; the "
        "GPUs are then stale too, whatever they read.",
        f"time() - {at_node('draguard_snapshot_timestamp_seconds')}",
        empty=_NOT_HEARD,
        none="exporter silent",
    ),
    stats.state(
        "Agent",
        "Whether the agent renews its Lease. While it is stale the remediator neither taints nor "
        "untaints anything here.",
        f"max({NODE.done('draguard_agent_stale')})",
        (Meaning(0, "alive", GREEN), Meaning(1, "stale", UNKNOWN)),
        empty="no remediator is heard of, or this node never reported",
    ),
    stats.number(
        "GPUs not seen",
        "GPUs that should be here, by the PCI bus or by what is published, less those that NVML "
        "lists. Unknown while NVML is down.",
        f"max({at_node('draguard_gpus_expected')}) - max({at_node('draguard_gpus_seen')})",
        (Step(-100, GREEN), Step(1, RED)),
        empty=f"{_NOT_HEARD}, or its NVML is down",
    ),
    stats.number(
        "Sources down",
        "Sources that this exporter wants and does not have; the table below says why.",
        f"count({once('source', at_node('draguard_source_up', _WANTED) + ' == 0')})"
        f" or 0 * count({at_node('draguard_source_up')})",
        stats.UNSEEN,
        empty=_NOT_HEARD,
    ),
    stats.number(
        "Incidents",
        "Open incidents of GPUs of this node. Unknown where no remediator leads.",
        or_none_open(f"count({once('incident', NODE.done('draguard_incident_phase'))})"),
        stats.NOTABLE,
        empty="no remediator leads",
    ),
)


def _grid() -> Stat:
    return Stat(
        title="GPUs",
        says="Each GPU of this node, whole or cut into slices, by NVML's index; `?` never had one. "
        f"{health.LEGEND}",
        queries=(
            Query(
                expr=numbered(health.state(NODE), NODE),
                legend="GPU {{GPU}}",
                empty=_NO_GPU,
            ),
        ),
        meanings=health.MEANINGS,
        filled=True,
        named=True,
        by="GPU",
        links=(links.TO_DEVICE,),
        none=_NO_GPU,
        width=24,
        height=4,
    )


def _timeline() -> States:
    return States(
        title="GPUs over time",
        says=f"The state of each GPU. A gap is a long silence, and no good news. {health.LEGEND}",
        queries=(
            Query(expr=numbered(health.state(NODE), NODE), legend="GPU {{GPU}}", empty=_NO_GPU),
        ),
        meanings=health.MEANINGS,
        links=(links.TO_DEVICE,),
        width=24,
        height=8,
    )


def _sources() -> Table:
    up = f"max by (cluster, source, reason) ({at_node('draguard_source_up')})"
    last = at_node("draguard_source_last_success_timestamp_seconds")
    return Table(
        title="Sources",
        says="What the exporter of this node is fed by, whether it sees anything there, and when "
        "it last did. What each is for is in docs/exporter.md.",
        queries=(
            Query(expr=up, value="up", empty=_NOT_HEARD),
            Query(
                expr=f"time() - max by (cluster, source) ({last})",
                value="age",
                empty=f"{_NOT_HEARD}, or no source ever saw anything",
            ),
        ),
        none="exporter silent",
        columns=(
            Column(source="source", title="Source"),
            Column(
                source="up",
                title="Sees",
                meanings=(Meaning(1, "yes", GREEN), Meaning(0, "nothing", UNKNOWN)),
                width=90,
            ),
            Column(source="reason", title="Reason", none="-"),
            Column(source="age", title="Last success", unit="s", none="never"),
        ),
        width=12,
        height=9,
    )


def _missing() -> Table:
    missing, hangs = at_node("draguard_gpu_missing"), at_node("draguard_source_hang_info")
    return Table(
        title="GPUs that should be here",
        says="GPUs that are on the bus or published and that NVML does not list, by bus id or "
        "UUID, and vendor calls that did not come back.",
        queries=(
            Query(
                expr=f"max by (cluster, device, UUID, call) ({missing} or {hangs})",
                value="one",
                empty="every GPU is listed, and no call hangs",
            ),
        ),
        none="none missing, if the exporter is heard of",
        columns=(
            Column(source="device", title="Missing", none="-"),
            Column(source="UUID", title="Hangs", none="-"),
            Column(source="call", title="In the call", none="-"),
        ),
        width=12,
        height=9,
    )


DASHBOARD = Dashboard(
    board=BOARD,
    variables=variables.of(BOARD),
    annotations=annotations.of(NODE),
    rows=(
        Row(title="Now", panels=(*_NOW, _grid())),
        Row(title="Story", panels=(incidents.table(NODE), _timeline())),
        Row(
            title="Who holds what",
            panels=(held.holders_table(NODE), incidents.hit_table(NODE)),
        ),
        Row(title="Load", panels=load.panels(NODE)),
        Row(title="Errors", panels=(xids.table(NODE), xids.by_class(NODE))),
        Row(
            title="Links, clocks and memory",
            panels=(
                *wear.links_of(NODE),
                wear.clock_events(NODE),
                *wear.memory(NODE),
                held.slices_table(NODE),
            ),
        ),
        Row(title="What the exporter sees", panels=(_sources(), _missing())),
    ),
)
