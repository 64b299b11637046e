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
_NO_DATA = "no exporter data of this node"


_CONFIGURED = 'reason!~"Off|HostPIDOff"'

_NOW: tuple[Panel, ...] = (
    stats.worst(
        "Worst GPU",
        "The worst state among the GPUs of this node.",
        health.state(NODE),
        empty=_NO_GPU,
    ),
    stats.last_look(
        "Age of the data from this node's exporter. Above three minutes it is stale, and the GPUs "
        "are stale too, whatever the values.",
        f"time() - {at_node('draguard_snapshot_timestamp_seconds')}",
        empty=_NO_DATA,
        none="No exporter data",
    ),
    stats.state(
        "Agent",
        "Whether the agent renews its Lease. While it is stale, the remediator neither taints nor "
        "untaints GPUs here.",
        f"max({NODE.done('draguard_agent_stale')})",
        (Meaning(0, "alive", GREEN), Meaning(1, "stale", UNKNOWN)),
        empty="no remediator data, or this node never reported",
    ),
    stats.number(
        "GPUs missing",
        "GPUs expected from the PCI bus or from published devices, minus those that NVML lists. "
        "Unknown while NVML is down.",
        f"max({at_node('draguard_gpus_expected')}) - max({at_node('draguard_gpus_seen')})",
        (Step(-100, GREEN), Step(1, RED)),
        empty=f"{_NO_DATA}, or its NVML is down",
    ),
    stats.number(
        "Sources down",
        "Sources that this exporter needs and cannot read. The table below has the reasons.",
        f"count({once('source', at_node('draguard_source_up', _CONFIGURED) + ' == 0')})"
        f" or 0 * count({at_node('draguard_source_up')})",
        stats.UNSEEN,
        empty=_NO_DATA,
    ),
    stats.number(
        "Incidents",
        "Open incidents of GPUs of this node. Unknown while no remediator leads.",
        or_none_open(f"count({once('incident', NODE.done('draguard_incident_phase'))})"),
        stats.NOTABLE,
        empty="no remediator leads",
    ),
)


def _grid() -> Stat:
    return Stat(
        title="GPUs",
        says="Each GPU of this node, whole or partitioned, by its NVML index. `?`: no index is "
        f"known. {health.LEGEND}",
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
        none="No GPU of this node is known",
        width=24,
        height=4,
    )


def _timeline() -> States:
    return States(
        title="State of GPUs over time",
        says="The state of each GPU. A long gap: there was no data, and the state is unknown. "
        f"{health.LEGEND}",
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
        says="Sources of this node's exporter, whether each can be read, and when it last was. "
        "docs/exporter.md describes each.",
        queries=(
            Query(expr=up, value="up", empty=_NO_DATA),
            Query(
                expr=f"time() - max by (cluster, source) ({last})",
                value="age",
                empty=f"{_NO_DATA}, or no source was ever read",
            ),
        ),
        none="No exporter data",
        columns=(
            Column(source="source", title="Source"),
            Column(
                source="up",
                title="State",
                meanings=(Meaning(1, "up", GREEN), Meaning(0, "down", UNKNOWN)),
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
        title="Missing GPUs and hanging calls",
        says="GPUs on the PCI bus or published that NVML does not list, by bus ID or UUID. NVML "
        "and DCGM calls that did not return.",
        queries=(
            Query(
                expr=f"max by (cluster, device, UUID, call) ({missing} or {hangs})",
                value="one",
                empty="every GPU is listed, and no call hangs",
            ),
        ),
        none="None (unknown without exporter data)",
        columns=(
            Column(source="device", title="Missing GPU", none="-"),
            Column(source="UUID", title="GPU of the call", none="-"),
            Column(source="call", title="Hanging call", none="-"),
        ),
        width=12,
        height=9,
    )


DASHBOARD = Dashboard(
    board=BOARD,
    variables=variables.of(BOARD),
    annotations=annotations.of(NODE),
    rows=(
        Row(title="Current state", panels=(*_NOW, _grid())),
        Row(title="Incidents and state history", panels=(incidents.table(NODE), _timeline())),
        Row(
            title="Allocations and affected pods",
            panels=(held.holders_table(NODE), incidents.hit_table(NODE)),
        ),
        Row(title="Utilization, power and temperature", panels=load.panels(NODE)),
        Row(title="XID errors", panels=(xids.table(NODE), xids.by_class(NODE))),
        Row(
            title="NVLink, throttling, memory errors and slices",
            panels=(
                *wear.links_of(NODE),
                wear.clock_events(NODE),
                *wear.memory(NODE),
                held.slices_table(NODE),
            ),
        ),
        Row(title="Exporter sources and missing GPUs", panels=(_sources(), _missing())),
    ),
)
