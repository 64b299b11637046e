"""Claims: what each was given, what it uses, how its devices are, and which wait. Pure."""

from dashboards import annotations, health, held, incidents, links, stats, variables, waiting
from dashboards.catalogue import CLAIM as BOARD
from dashboards.panel import (
    PLAIN,
    RED,
    Column,
    Dashboard,
    Panel,
    Query,
    Row,
    States,
    Step,
    Table,
    TimeSeries,
)
from dashboards.promql import (
    DEVICE_KEY,
    FLEET,
    HELD,
    RECENTLY,
    busy,
    filled,
    holders,
    numbered,
    of_cluster,
    of_holders,
    of_holders_gpus,
    once,
)

_CHOSEN = 'dra_claim_namespace=~"$namespace", dra_claim_name=~"$claim", dra_claim_name!=""'
_CLAIM = "dra_claim_namespace, dra_claim_name"
_HELD = numbered(holders(FLEET, _CHOSEN), HELD)
_DEVICE = "GPU {{GPU}} {{GPU_I_PROFILE}} {{GPU_I_ID}}"
_ONE = f"{{{{dra_claim_name}}}} {_DEVICE}"
_NONE_HELD = "none of these claims holds a device"
_IF_DATA = "None, or no exporter data"
_NOT_REPORTED = f"{_NONE_HELD}, or its memory is not reported"


def _sum(family: str) -> str:
    """Return bytes per claim and device; several shares of one device add up."""
    key = f"UUID, GPU_I_PROFILE, GPU_I_ID, {_CLAIM}"
    each = once(f"{key}, dra_share_id", of_cluster(family, _CHOSEN))
    return f"sum by (cluster, {key}) ({each})"


_DECLARED = _sum("draguard_claim_memory_declared_bytes")
_USED = _sum("draguard_claim_memory_used_bytes")
_SHARE = f"{_USED} / ({_DECLARED} > 0)"
_BUSY = of_holders(once("Hostname, UUID, GPU_I_ID", f"({busy(HELD)})"), _HELD)
_HEALTH = of_holders_gpus(f"max by (cluster, Hostname, UUID) ({health.state(HELD)})", _HELD)


_NOW: tuple[Panel, ...] = (
    stats.number(
        "Allocated claims",
        "ResourceClaims that hold a device. A claim that several pods share counts once.",
        f"count(count by (cluster, {_CLAIM}) ({_HELD}))",
        (Step(0, PLAIN),),
        empty=_NONE_HELD,
        none=_IF_DATA,
    ),
    stats.worst(
        "Worst device",
        "The worst state among the GPUs that these claims hold, as a whole or as slices.",
        _HEALTH,
        empty=_NONE_HELD,
    ),
    stats.number(
        "Memory allocated",
        "Memory allocated to these claims: of a share its capacity, else all of the device.",
        f"sum({_DECLARED})",
        (Step(0, PLAIN),),
        empty=_NOT_REPORTED,
        unit="bytes",
        none=_IF_DATA,
    ),
    stats.number(
        "Memory used",
        "Memory that their pods use. For a share, it is the sum over the processes of its pods.",
        f"sum({_USED})",
        (Step(0, PLAIN),),
        empty=_NOT_REPORTED,
        unit="bytes",
    ),
    waiting.longest(),
    waiting.explainer(),
)


def _devices() -> Table:
    return Table(
        title="Devices by claim",
        says="One line per claim and device, for GPUs and slices. A shared device has one line for "
        "each claim. Used above allocated: the claim uses memory that others may need. "
        f"Utilization is that of the whole device. {health.LEGEND}",
        queries=(
            Query(expr=_whole(_HEALTH), value="state", empty=_NONE_HELD),
            Query(expr=_whole(_DECLARED), value="given", empty=_NOT_REPORTED),
            Query(expr=_whole(_USED), value="used", empty=_NOT_REPORTED),
            Query(expr=_whole(_SHARE), value="share", empty=_NOT_REPORTED),
            Query(
                expr=_whole(_BUSY),
                value="busy",
                empty=f"{_NONE_HELD}, or no utilization is reported",
            ),
        ),
        none="None (unknown without exporter data)",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="dra_claim_namespace", title="Namespace"),
            Column(source="dra_claim_name", title="Claim", links=(links.TO_CLAIM,)),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            *links.GPU,
            Column(source="GPU_I_PROFILE", title="Profile", none="-"),
            Column(source="GPU_I_ID", title="Slice", width=90),
            Column(source="state", title="State", meanings=health.MEANINGS, width=90),
            Column(source="given", title="Allocated", unit="bytes", width=100),
            Column(source="used", title="Used", unit="bytes", width=100),
            Column(
                source="share",
                title="Used share",
                unit="percentunit",
                decimals=0,
                steps=(Step(0, PLAIN), Step(1.001, RED)),
                width=120,
            ),
            Column(source="busy", title="Utilization", unit="percentunit", decimals=0, width=110),
        ),
        sort="State",
        width=24,
        height=7,
    )


def _whole(expr: str) -> str:
    return filled(expr, "GPU_I_ID", "whole GPU")


def _graph(
    title: str, says: str, unit: str, *queries: Query, none: str = "No device allocated, or no data"
) -> TimeSeries:
    return TimeSeries(
        title=title,
        says=says,
        unit=unit,
        queries=queries,
        none=none,
    )


def _over_time() -> tuple[Panel, ...]:
    return (
        _graph(
            "Memory allocated and used",
            "Memory of each device that is allocated to the claim, and that its pods use.",
            "bytes",
            Query(expr=numbered(_USED, HELD), legend=f"{_ONE} used", empty=_NOT_REPORTED),
            Query(expr=numbered(_DECLARED, HELD), legend=f"{_ONE} allocated", empty=_NOT_REPORTED),
        ),
        _graph(
            "GPU utilization by device",
            "Utilization of each allocated device, by all its holders together.",
            "percentunit",
            Query(expr=_BUSY, legend=_ONE, empty=f"{_NONE_HELD}, or no utilization is reported"),
        ),
        _graph(
            "Memory used by pod",
            "Memory that the processes of each pod use on each device of the claim.",
            "bytes",
            Query(
                expr=_of_pods("draguard_pod_memory_used_bytes"),
                legend=f"{{{{pod}}}} {_DEVICE}",
                empty=f"{_NONE_HELD}, or the exporter does not see processes",
            ),
        ),
        _graph(
            "SM utilization by pod",
            "Share of SM time that each pod's processes used. NVML does not report it for slices.",
            "percentunit",
            Query(
                expr=_of_pods("draguard_pod_sm_utilization_ratio"),
                legend="{{pod}} GPU {{GPU}}",
                empty=f"{_NONE_HELD}, they hold slices, or the exporter does not see processes",
            ),
            none="No device allocated, slices (not reported), or processes not visible",
        ),
    )


def _of_pods(family: str) -> str:
    """Return a pod's part of each device that one of the chosen claims gives it."""
    key = f"{DEVICE_KEY}, namespace, pod"
    rows = of_cluster("draguard_device_allocation_info", f'{_CHOSEN}, admin!="true"')
    value = f"max by ({key}, GPU_I_PROFILE) ({HELD.seen(family)})"
    return numbered(f"{value} and on ({key}) {rows}", HELD)


def _states() -> States:
    return States(
        title="Device health over time",
        says="The state of the GPU of each allocated device. A gap: no device was allocated, or "
        f"the holders were unknown. {health.LEGEND}",
        queries=(Query(expr=_HEALTH, legend=f"{_ONE} on {{{{Hostname}}}}", empty=_NONE_HELD),),
        meanings=health.MEANINGS,
        links=(links.TO_DEVICE,),
        none="No device allocated, or no data",
        width=24,
        height=10,
    )


DASHBOARD = Dashboard(
    board=BOARD,
    variables=variables.of(BOARD),
    annotations=annotations.of(HELD, holders(FLEET, _CHOSEN, within=RECENTLY)),
    rows=(
        Row(title="Current state", panels=_NOW),
        Row(title="Allocated devices", panels=(_devices(), _states())),
        Row(
            title="Waiting claims",
            panels=(
                waiting.states(),
                waiting.by_class(),
                *waiting.over_time(),
                waiting.oldest(),
            ),
        ),
        Row(title="Affected pods", panels=(incidents.hit_table(FLEET, matchers=_CHOSEN),)),
        Row(title="Usage over time", panels=_over_time()),
        Row(title="Pods", panels=(held.holders_table(HELD, matchers=_CHOSEN),)),
    ),
)
