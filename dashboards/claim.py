"""Claims: what each was given, what it uses, how its devices are, and who waits. Pure."""

from dashboards import annotations, health, held, incidents, links, stats, variables
from dashboards.catalogue import CLAIM as BOARD
from dashboards.panel import (
    ORANGE,
    PLAIN,
    RED,
    Column,
    Dashboard,
    Meaning,
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

_CHOSEN = 'dra_claim_namespace=~"$namespace", dra_claim_name=~"$claim"'
_CLAIM = "dra_claim_namespace, dra_claim_name"
_HELD = numbered(holders(FLEET, _CHOSEN), HELD)
_DEVICE = "GPU {{GPU}} {{GPU_I_PROFILE}} {{GPU_I_ID}}"
_ONE = f"{{{{dra_claim_name}}}} {_DEVICE}"
_NONE_HELD = "no claim of these holds a device"
_IF_HEARD = "none, if exporters are heard of"
_NOT_TOLD = f"{_NONE_HELD}, or nobody can tell its memory"


def _sum(family: str) -> str:
    """Return bytes per claim and device; several shares of one device add up."""
    key = f"UUID, GPU_I_PROFILE, GPU_I_ID, {_CLAIM}"
    each = once(f"{key}, dra_share_id", of_cluster(family, _CHOSEN))
    return f"sum by (cluster, {key}) ({each})"


_DECLARED = _sum("draguard_claim_memory_declared_bytes")
_USED = _sum("draguard_claim_memory_used_bytes")
_BUSY = of_holders(once("Hostname, UUID, GPU_I_ID", f"({busy(HELD)})"), _HELD)
_HEALTH = of_holders_gpus(f"max by (cluster, Hostname, UUID) ({health.state(HELD)})", _HELD)
_PENDING = once(
    f"{_CLAIM}, reason", of_cluster("draguard_claim_pending_since_timestamp_seconds", _CHOSEN)
)


_NOW: tuple[Panel, ...] = (
    stats.number(
        "Claims with devices",
        "ResourceClaims that hold a device, each counted once however many pods share it.",
        f"count(count by (cluster, {_CLAIM}) ({_HELD}))",
        (Step(0, PLAIN),),
        empty=_NONE_HELD,
        none=_IF_HEARD,
    ),
    stats.worst(
        "Worst device",
        "The worst state among the GPUs that these claims hold, or hold a slice of.",
        _HEALTH,
        empty=_NONE_HELD,
    ),
    stats.number(
        "Memory given",
        "What these claims were given: of a share its part, of a device all that it has.",
        f"sum({_DECLARED})",
        (Step(0, PLAIN),),
        empty=_NOT_TOLD,
        unit="bytes",
        none=_IF_HEARD,
    ),
    stats.number(
        "Memory used",
        "What their pods use of it. A share is known by the processes of its pods alone.",
        f"sum({_USED})",
        (Step(0, PLAIN),),
        empty=_NOT_TOLD,
        unit="bytes",
    ),
    stats.number(
        "Claims that wait",
        "Claims without a device that a pod waits for; why is in the table below. Unknown where "
        "no remediator counts them.",
        f"count({_PENDING}) or 0 * max({of_cluster('draguard_claims')})",
        stats.NOTABLE,
        empty="no remediator is heard of",
    ),
    stats.number(
        "Longest wait",
        "How long the oldest of them has waited for a device.",
        f"max(time() - {_PENDING})",
        (Step(-3600, PLAIN), Step(600, ORANGE), Step(3600, RED)),
        empty="no claim of these waits",
        unit="s",
        none="none waits, if a leader is there",
    ),
)


def _devices() -> Table:
    return Table(
        title="Claims and their devices",
        says="One line per claim and device, GPUs and slices alike; a device that claims share "
        "has a line for each. Used above given: the claim takes what others may need. "
        f"Computing is of the whole device. {health.LEGEND}",
        queries=(
            Query(expr=_whole(_HEALTH), value="state", empty=_NONE_HELD),
            Query(expr=_whole(_DECLARED), value="given", empty=_NOT_TOLD),
            Query(expr=_whole(_USED), value="used", empty=_NOT_TOLD),
            Query(expr=_whole(_share()), value="share", empty=_NOT_TOLD),
            Query(expr=_whole(_BUSY), value="busy", empty=f"{_NONE_HELD}, or none tells its use"),
        ),
        none="none, if exporters are heard of",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="dra_claim_namespace", title="Namespace"),
            Column(source="dra_claim_name", title="Claim", links=(links.TO_CLAIM,)),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            *links.GPU,
            Column(source="GPU_I_PROFILE", title="Profile", none="-"),
            Column(source="GPU_I_ID", title="Slice", width=90),
            Column(source="state", title="State", meanings=health.MEANINGS, width=90),
            Column(source="given", title="Given", unit="bytes", width=100),
            Column(source="used", title="Used", unit="bytes", width=100),
            Column(
                source="share",
                title="Used of given",
                unit="percentunit",
                decimals=0,
                steps=(Step(0, PLAIN), Step(1.001, RED)),
                width=120,
            ),
            Column(source="busy", title="Computing", unit="percentunit", decimals=0, width=110),
        ),
        sort="State",
        width=24,
        height=7,
    )


def _whole(expr: str) -> str:
    return filled(expr, "GPU_I_ID", "whole GPU")


def _share() -> str:
    return f"{_USED} / ({_DECLARED} > 0)"


def _pending() -> Table:
    return Table(
        title="Claims that wait, and why",
        says="Claims that a pod waits for. Tainted: devices of its kind would be free but for our "
        "taints. NoneFree: all are taken. Other: there are some, and the scheduler has another "
        "reason, or the DeviceClass is none of NVIDIA's own. The 200 oldest.",
        queries=(Query(expr=f"time() - {_PENDING}", value="age", empty="no claim of these waits"),),
        none="none waits, if a leader is there",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="dra_claim_namespace", title="Namespace"),
            Column(source="dra_claim_name", title="Claim"),
            Column(source="reason", title="Why", meanings=_WHY, width=180),
            Column(source="age", title="For", unit="s"),
        ),
        sort="For",
        width=24,
        height=4,
    )


_WHY = (
    Meaning("Tainted", "devices are tainted", ORANGE),
    Meaning("NoneFree", "none is free", PLAIN),
    Meaning("Other", "another reason", PLAIN),
)


def _graph(
    title: str, says: str, unit: str, *queries: Query, none: str = "nothing held, or not told"
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
            "Memory, given and used",
            "What each claim was given of each device, and what its pods use.",
            "bytes",
            Query(expr=numbered(_USED, HELD), legend=f"{_ONE} used", empty=_NOT_TOLD),
            Query(expr=numbered(_DECLARED, HELD), legend=f"{_ONE} given", empty=_NOT_TOLD),
        ),
        _graph(
            "Computing, of the device",
            "How busy each held device was, whoever of its holders did it.",
            "percentunit",
            Query(expr=_BUSY, legend=_ONE, empty=f"{_NONE_HELD}, or none tells its use"),
        ),
        _graph(
            "Memory by pod",
            "What the processes of each pod use of each device that the claim holds.",
            "bytes",
            Query(
                expr=_of_pods("draguard_pod_memory_used_bytes"),
                legend=f"{{{{pod}}}} {_DEVICE}",
                empty=f"{_NONE_HELD}, or the exporter does not see processes",
            ),
        ),
        _graph(
            "Computing by pod",
            "Share of SM time of each pod's processes. NVML has none for slices.",
            "percentunit",
            Query(
                expr=_of_pods("draguard_pod_sm_utilization_ratio"),
                legend="{{pod}} GPU {{GPU}}",
                empty=f"{_NONE_HELD}, they hold slices, or the exporter does not see processes",
            ),
            none="nothing held, slices (of which it is not told), or processes not seen",
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
        title="Health of the devices",
        says="The state of the GPU behind each held device. A gap: the claim held nothing, or "
        f"nobody could tell who held what. {health.LEGEND}",
        queries=(Query(expr=_HEALTH, legend=f"{_ONE} on {{{{Hostname}}}}", empty=_NONE_HELD),),
        meanings=health.MEANINGS,
        links=(links.TO_DEVICE,),
        none="nothing held, or not told",
        width=24,
        height=10,
    )


DASHBOARD = Dashboard(
    board=BOARD,
    variables=variables.of(BOARD),
    annotations=annotations.of(HELD, holders(FLEET, _CHOSEN, within=RECENTLY)),
    rows=(
        Row(title="Now", panels=_NOW),
        Row(title="What they hold", panels=(_devices(), _states())),
        Row(
            title="Affected pods and pending claims",
            panels=(incidents.hit_table(FLEET, matchers=_CHOSEN), _pending()),
        ),
        Row(title="What they use", panels=_over_time()),
        Row(title="Pods", panels=(held.holders_table(HELD, matchers=_CHOSEN),)),
    ),
)
