"""Foreign slices change nothing but their own rows; a list that shrinks proves no recovery."""

from collections.abc import Generator, Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from exporter.model.device import NVIDIAS, GpuDrivers
from exporter.model.node_health import GpuHealth, Inventory, NodeDeviceHealth, NodeHealth
from exporter.model.resource_slices import ResourceSlice
from kubeapi.types import ObjectMeta
from remediator.controller.cache import Cache
from remediator.controller.final_check import FinalCheck
from remediator.metrics.devices import device_rows
from remediator.model.node import NodeFacts
from remediator.plan.boards import bind_boards
from remediator.plan.node_pods import neighbours
from remediator.plan.steps import Disruption
from remediator.plan.view import NodeView
from tests.chain.scene import resource_slice
from tests.lab.foreign import DRIVERS, SHARED, TYPES, Board, decoded, foreign_slices
from tests.remediator.builders import (
    NODE,
    Stored,
    at,
    dead,
    gpu,
    mig_gpu,
    published,
    report,
    uuid,
    with_fields,
    xid,
)
from tests.remediator.controller.api import CLAIMS, SLICES, serving
from tests.remediator.controller.test_blind_watches import (
    SETTLED,
    Room,
    leader,
    presence,
)
from tests.remediator.histories.frozen import Kind, Truth
from tests.remediator.playing import claim, settle

NODES = (NODE, "node-b")
GPUS = (gpu(0), gpu(1))
MISSED = with_fields(report(gpu(0)), inventory=Inventory(seen=1, on_bus=2, missing=(uuid(1),)))
SLICED = mig_gpu(0, xid(94, gi=3))
HEALTHY = report(*GPUS)
WORLDS: dict[str, tuple[NodeHealth | None, tuple[GpuHealth, ...]]] = {
    "healthy": (HEALTHY, GPUS),
    "one lost": (report(dead(), gpu(1)), GPUS),
    "one lost and not published": (report(dead(), gpu(1)), (gpu(1),)),
    "one missed": (MISSED, GPUS),
    "one missed and not published": (MISSED, (gpu(0),)),
    "one slice": (report(SLICED, gpu(1)), (SLICED, gpu(1))),
    "an error of the driver": (report(gpu(0, xid(79)), gpu(1)), GPUS),
    "nothing published": (report(dead(), gpu(1)), ()),
    "no report": (None, GPUS),
}


def boards(*gpus: GpuHealth) -> list[Board]:
    return [Board(one.uuid, one.pci_bus_id) for one in gpus]


def foreign(node: str, types: Iterable[str] = TYPES) -> list[ResourceSlice]:
    return decoded(foreign_slices(node, boards(*GPUS), tuple(types)))


def cached(
    status: NodeHealth | None,
    own: tuple[GpuHealth, ...],
    types: tuple[str, ...] = (),
    drivers: GpuDrivers = NVIDIAS,
) -> Cache:
    """Return two nodes' cache; both have foreign devices that name the first one's boards."""
    cache = Cache(lambda _: None, drivers=drivers)
    if status is not None:
        cache.put_report(NODE, NodeDeviceHealth(ObjectMeta(name=NODE), status))
    devices = [device for health in own for device in published(health)]
    slices = [msgspec.convert(resource_slice(NODE, devices), ResourceSlice)] if devices else []
    if types:
        slices += [part for node in NODES for part in foreign(node, types)]
    for part in slices:
        cache.put_slice(part.metadata.name, None, part)
    return cache


def seen_of(cache: Cache) -> NodeView:
    return with_fields(cache.view(NODE, lambda _: ""), pods=(), renewals=(), nodes_known=False)


def gpus_of(view: NodeView) -> NodeView:
    """Return a view without the names of foreign devices and pools."""
    own = tuple(part for part in view.slices.inventory if not part.foreign)
    contested = frozenset(pool for pool in view.slices.contested if pool[0] not in DRIVERS)
    return with_fields(view, inventory=own, contested=contested)


def boards_of(view: NodeView) -> list[object]:
    return [
        (board.uuid, board.verdict, board.place, board.presence.unbound)
        for board in bind_boards(view, at(0))
    ]


@pytest.mark.parametrize("types", [TYPES, *((kind,) for kind in TYPES)], ids=" ".join)
@pytest.mark.parametrize("world", WORLDS)
def test_foreign_slices_change_no_view_no_verdict_and_no_step(
    world: str, types: tuple[str, ...]
) -> None:
    with_, without = (cached(*WORLDS[world], found) for found in (types, ()))
    here, plain = seen_of(with_), seen_of(without)

    assert gpus_of(here) == plain
    assert boards_of(here) == boards_of(plain)
    stored, expected = Stored(), Stored()
    for seconds in (1, 5, 30, 900):
        settle(stored, here, seconds)
        settle(expected, plain, seconds)
    assert stored.taken == expected.taken
    assert stored.incidents == expected.incidents


@pytest.mark.parametrize("world", WORLDS)
def test_foreign_slices_change_no_count_but_their_own(world: str) -> None:
    with_, without = (cached(*WORLDS[world], found) for found in (TYPES, ()))
    rows, expected = (device_rows(cache.stock()) for cache in (with_, without))

    assert rows["devices"] == expected["devices"]
    assert with_.fleet() == without.fleet()
    assert expected["foreign_devices"] == {}
    assert set(rows["foreign_devices"]) == {
        (driver, "H100", "free", "driver") for driver in DRIVERS
    }


def test_foreign_products_do_not_fold_the_products_of_gpus() -> None:
    cache = cached(HEALTHY, GPUS, TYPES)

    rows = device_rows(cache.stock(), most=2)

    assert set(rows["devices"]) == set(device_rows(cached(HEALTHY, GPUS).stock())["devices"])
    assert sum(rows["foreign_devices"].values()) == sum(
        device_rows(cache.stock())["foreign_devices"].values()
    )


def test_a_device_plugins_node_is_not_taken_for_one_without_gpus_because_of_foreign_slices() -> (
    None
):
    facts = NodeFacts(name=NODE, uid="u", plugin_resources=("nvidia.com/gpu",))

    def found(types: tuple[str, ...]) -> Any:
        return neighbours(
            msgspec.structs.replace(seen_of(cached(HEALTHY, (), types)), facts=facts), ()
        )

    assert found(TYPES) == found(())
    assert found(TYPES).unknown == ""


def test_foreign_slices_that_come_and_go_defer_no_disruption_and_no_repair() -> None:
    """The last look finds other ones than the watch reported, some of them half published."""
    view = seen_of(cached(report(dead(), gpu(1)), GPUS, TYPES))
    (device, *_) = published(dead())
    items = [
        body
        | {
            "spec": body["spec"]
            | {"pool": {"name": NODE, "generation": 2, "resourceSliceCount": 2}}
        }
        for body in foreign_slices(NODE, boards(*GPUS), ("gpu",)).values()
    ]
    check = check_of(view, items)

    assert check.differs(view, Disruption(devices=frozenset({device.device}))) == ""
    assert check.differs(view, Disruption(repair=True)) == ""


def unreadable(body: dict[str, Any]) -> dict[str, Any]:
    """Return a slice in a form that this version does not know."""
    devices = [device | {"taints": [{"key": 1}]} for device in body["spec"]["devices"]]
    return body | {"spec": body["spec"] | {"devices": devices}}


def test_a_foreign_slice_that_cannot_be_read_defers_no_disruption_and_no_repair() -> None:
    view = seen_of(cached(report(dead(), gpu(1)), GPUS, TYPES))
    (device, *_) = published(dead())
    (body, *_) = foreign_slices(NODE, boards(*GPUS), ("gpu",)).values()

    def differs(body: dict[str, Any]) -> list[str]:
        check = check_of(view, [unreadable(body)])
        begun = (Disruption(devices=frozenset({device.device})), Disruption(repair=True))
        return [check.differs(view, each) for each in begun]

    assert differs(body) == ["", ""]
    (one, other) = differs(body | {"spec": body["spec"] | {"driver": "gpu.nvidia.com"}})
    assert one == other == "what it rests on could not be decoded before the disruption"


def check_of(view: NodeView, more: list[dict[str, Any]]) -> FinalCheck:
    """Return a last look that finds more slices beside those of both GPUs."""

    class Now(Truth):
        def get(self, path: str, params: Any = None) -> bytes:
            raw = super().get(path, params)
            if not path.endswith("resourceslices"):
                return raw
            return msgspec.json.encode({"items": msgspec.json.decode(raw)["items"] + more})

    devices = tuple(part for health in GPUS for part in published(health))
    truth = Now(devices, (), (), report=view.agent.report)
    return FinalCheck(truth, Kind("resourceslices"), Kind("resourceclaims"), truth, truth)


def test_a_claim_on_a_foreign_device_that_has_changed_defers_no_repair() -> None:
    """A tenant may change its own claim as often as it likes; its pod is waited for."""
    view = seen_of(cached(HEALTHY, GPUS, TYPES))
    one = claim("gpu-0", driver=DRIVERS[0])

    changed = with_fields(view, claims=(one,))

    assert check_of(view, []).differs(changed, Disruption(repair=True)) == ""


@pytest.fixture
def room() -> Generator[Room]:
    with serving() as served, leader(*served) as one:
        yield one


def test_a_lost_gpu_is_evicted_from_beside_foreign_slices_that_change_meanwhile(
    room: Room,
) -> None:
    for name, body in foreign_slices(NODE, boards(*GPUS)).items():
        room.api.put(SLICES, name, spec=body["spec"])
    room.publish(*GPUS)
    room.report(*GPUS)
    room.hold("gpu-0")
    room.seen("the claim", lambda: room.cluster.peek(NODE).usage.claims)
    room.seen(
        "the slices",
        lambda: len({p.device.driver for p in room.cluster.peek(NODE).slices.inventory}) == 5,
    )
    room.api.frozen.add(SLICES)
    room.api.drop(SLICES, f"{DRIVERS[0]}-{NODE}-{NODE}")
    room.report(dead(0), gpu(1))
    room.seen("the report", lambda: presence(room) == "Lost")
    room.decide()
    room.ahead = SETTLED

    assert not room.decide().unconfirmed
    assert room.api.effects() == {"gpu-0": "NoExecute"}


def test_a_foreign_object_that_cannot_be_read_blinds_no_node(room: Room) -> None:
    (name, body), *_ = foreign_slices(NODE, boards(*GPUS)).items()
    room.api.put(SLICES, name, spec=body["spec"])
    room.publish(*GPUS)
    room.report(*GPUS)
    results = [{"driver": DRIVERS[0], "pool": NODE, "device": "gpu-0", "request": "r"}]
    status = {"allocation": {"devices": {"results": results}}}
    room.api.put(CLAIMS, "nic", status=status)
    room.hold("gpu-0")
    room.seen("the claims", lambda: len(room.cluster.peek(NODE).usage.claims) == 2)
    room.seen(
        "the slices", lambda: any(p.foreign for p in room.cluster.peek(NODE).slices.inventory)
    )

    room.api.put(SLICES, name, spec=unreadable(body)["spec"])
    results[0]["device"] = 5  # type: ignore[assignment]
    room.api.put(CLAIMS, "nic", status=status)
    watched = room.cluster.informers
    for kind in (watched.slices, watched.claims):
        room.seen("the change", lambda kind=kind: kind.reflector and kind.reflector.unreadable)

    assert not room.cluster.peek(NODE).blind
    room.report(dead(0), gpu(1))
    room.seen("the report", lambda: presence(room) == "Lost")
    room.decide()
    room.ahead = SETTLED
    assert not room.decide().unconfirmed
    assert room.api.effects() == {"gpu-0": "NoExecute"}


RACK = frozenset({*NVIDIAS, DRIVERS[0]})
"""A list with a driver that publishes GPUs of NVIDIA's under names of its own."""


def racked(status: NodeHealth | None, drivers: GpuDrivers) -> NodeView:
    cache = Cache(lambda _: None, drivers=drivers)
    if status is not None:
        cache.put_report(NODE, NodeDeviceHealth(ObjectMeta(name=NODE), status))
    devices = [device for health in GPUS for device in published(health)]
    body = resource_slice(NODE, devices)
    body["spec"] |= {"driver": DRIVERS[0]}
    cache.put_slice("rack", None, msgspec.convert(body, ResourceSlice))
    return seen_of(cache)


LOST = report(dead(), gpu(1))
LATER: dict[str, NodeHealth | None] = {
    "still lost": LOST,
    "unknown": report(
        msgspec.structs.replace(gpu(0), presence="Unknown", presence_reason="SetAside"), gpu(1)
    ),
    "not reported": report(gpu(1)),
    "no report": None,
}


@pytest.mark.parametrize("later", LATER)
def test_a_driver_that_leaves_the_list_proves_no_recovery_and_ends_no_incident(later: str) -> None:
    stored = Stored()
    for seconds in (1, 5, 9):
        settle(stored, racked(LOST, RACK), seconds)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    for seconds in (10, 700, 7000, timedelta(days=3).total_seconds()):
        settle(stored, racked(LATER[later], NVIDIAS), seconds)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert stored.incident.open


def test_a_taint_of_a_driver_that_leaves_the_list_does_not_rise() -> None:
    """A device that is no GPU to us any more is not emptied."""
    stored = Stored()
    settle(stored, racked(LOST, RACK), 1)
    for seconds in (2, 5, 100):
        settle(stored, racked(LOST, NVIDIAS), seconds)

    assert stored.effects() == {"gpu-0": "NoSchedule"}


def test_a_driver_has_nothing_tainted_before_it_is_in_the_list() -> None:
    stored = Stored()
    for seconds in (1, 5, 9):
        settle(stored, racked(LOST, NVIDIAS), seconds)
    assert stored.effects() == {}

    for seconds in (10, 15, 20):
        settle(stored, racked(LOST, RACK), seconds)
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_a_shared_pool_of_a_foreign_driver_makes_no_pool_of_gpus_contested() -> None:
    view = seen_of(cached(HEALTHY, GPUS, TYPES))

    assert {pool for driver, pool in view.slices.contested if driver in DRIVERS} == {SHARED}
    assert {driver for driver, _ in view.slices.contested} <= set(DRIVERS)
