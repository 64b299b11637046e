"""One GPU with its slices: state, history, load, wear, holders. Pure."""

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
from dashboards.catalogue import DEVICE as BOARD
from dashboards.panel import (
    BLUE,
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
    Table,
)
from dashboards.promql import DEVICE, NUMBER, numbered, of_cluster, once

_NOT_KNOWN = "this GPU is not known"
_UUID = "UUID"


def _now() -> tuple[Panel, ...]:
    shown = once("instance, UUID", DEVICE.seen("draguard_gpu_info"))
    looked = of_cluster("draguard_snapshot_timestamp_seconds")
    return (
        stats.worst(
            "State",
            "The worst known state of this GPU.",
            health.state(DEVICE),
            empty=_NOT_KNOWN,
        ),
        stats.last_look(
            "Age of the values on this page. Above three minutes they are stale. Without a value, "
            "no exporter shows this GPU now.",
            f"time() - {looked} and on (cluster, instance) {shown}",
            empty="no exporter shows this GPU now",
            none="No exporter shows it",
        ),
        *wear.signs(DEVICE),
    )


_WHICH = "Hostname, UUID, model_name, pci_bus_id, minor, serial, driver_version, mig, presence"


def _identity() -> Table:
    rows = once(_WHICH, DEVICE.seen("draguard_gpu_info"))
    return Table(
        title="GPU identity",
        says="Location and names of the GPU. GPU: the index in nvidia-smi; for a lost GPU, its "
        "last one. Bus ID: the PCI address. Minor: the number in /dev/nvidiaN, which the DRA "
        "driver uses in the device name. Serial: the serial number, for the replacement.",
        queries=(
            Query(expr=numbered(rows, DEVICE), value="one", empty="no exporter shows this GPU now"),
        ),
        none="No exporter shows this GPU now",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            Column(source=NUMBER, title="GPU", none="?"),
            Column(source="UUID", title="UUID"),
            Column(source="model_name", title="Model", none="-"),
            Column(source="pci_bus_id", title="Bus ID", none="-", width=150),
            Column(source="minor", title="Minor", none="-", width=70),
            Column(source="serial", title="Serial", none="-", width=130),
            Column(source="driver_version", title="Driver", none="-", width=100),
            Column(source="mig", title="MIG", none="-", width=80, meanings=_MIG),
            Column(source="presence", title="Presence", none="-", width=90),
        ),
        width=24,
        height=4,
    )


_MIG = (Meaning("true", "on", PLAIN), Meaning("false", "off", PLAIN))
_EFFECTS = {"None": (1, BLUE), "NoSchedule": (2, ORANGE), "NoExecute": (3, RED)}


def _stored(effect: str = "") -> str:
    matcher = f'effect="{effect}"' if effect else ""
    rules = once(_UUID, DEVICE.done("draguard_incident_rules", matcher))
    return f"({rules} > 0)" if effect else rules


_TAINT = " or ".join(
    [
        *(
            f"(0 * {_stored(effect)} + {number})"
            for effect, (number, _) in reversed(_EFFECTS.items())
        ),
        f"0 * {_stored()}",
    ]
)
"""The number of Draguard's strongest taint, 0 for none; `or` takes the first match."""

_STORY: tuple[Panel, ...] = (
    incidents.table(DEVICE, height=4),
    States(
        title="State over time",
        says="The worst known state of this GPU. A long gap: there was no data, and the state is "
        f"unknown. {health.LEGEND}",
        queries=(
            Query(
                expr=f"max by (UUID) ({health.state(DEVICE)})",
                legend="state",
                empty=_NOT_KNOWN,
            ),
        ),
        meanings=health.MEANINGS,
        width=24,
        height=4,
    ),
    States(
        title="Incident phase over time",
        says="The phase of the incident of this GPU. A gap: none was open, or there was no "
        "remediator data.",
        queries=(
            Query(
                expr=f"max by (cluster) ({incidents.phase_number(DEVICE)})",
                legend="phase",
                empty=incidents.NO_INCIDENT,
            ),
        ),
        meanings=incidents.PHASE_MEANINGS,
        none=incidents.NONE_OPEN,
        width=12,
        height=4,
    ),
    States(
        title="Taint over time",
        says="The strongest taint rule of Draguard on this GPU or one of its slices, as stored in "
        "the cluster. None: no effect on pods. NoSchedule: keeps new pods away. NoExecute: "
        "Kubernetes deletes its pods. A gap: no incident was open, or no remediator data.",
        queries=(Query(expr=_TAINT, legend="taint", empty=incidents.NO_INCIDENT),),
        meanings=(
            Meaning(0, "no taint rule", BLUE),
            *(Meaning(number, word, colour) for word, (number, colour) in _EFFECTS.items()),
        ),
        none="No taint (unknown while no remediator leads)",
        width=12,
        height=4,
    ),
)


DASHBOARD = Dashboard(
    board=BOARD,
    variables=variables.of(BOARD),
    annotations=annotations.of(DEVICE),
    rows=(
        Row(title="Current state", panels=(*_now(), _identity())),
        Row(title="Incidents and state history", panels=_STORY),
        Row(
            title="Allocations and affected pods",
            panels=(held.holders_table(DEVICE, height=5), incidents.hit_table(DEVICE)),
        ),
        Row(title="XID errors", panels=(xids.table(DEVICE), xids.by_class(DEVICE))),
        Row(title="Utilization, power and temperature", panels=load.panels(DEVICE)),
        Row(
            title="Memory errors, throttling, NVLink and slices",
            panels=(
                *wear.memory(DEVICE),
                wear.clock_events(DEVICE),
                *wear.links_of(DEVICE),
                held.slices_table(DEVICE),
            ),
        ),
    ),
)
