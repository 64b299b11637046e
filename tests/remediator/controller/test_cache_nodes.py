"""Nodes that come and go, devices in many slices, peers on other nodes."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.resource_slices import ResourceSlice
from kubeapi.types import ObjectMeta
from remediator.controller.cache import Cache
from remediator.model.claim import (
    Allocation,
    Claim,
    ClaimMeta,
    ClaimStatus,
    Configuration,
    ConsumerReference,
    DeviceAllocation,
    DeviceResult,
    Opaque,
    Parameters,
)
from remediator.model.incident import Incident
from remediator.model.node import NodeFacts
from remediator.plan.boards import bind_boards
from tests.remediator.builders import DRIVER, T0, gpu, report, uuid
from tests.remediator.controller.test_cache import (
    Marks,
    believed,
    health,
    incident,
    raw_rule,
    slice_of,
)
from tests.remediator.playing import claim

TraceFunction = Callable[[FrameType, str, object], Any]
IMEX = "compute-domain.nvidia.com"
SHELF = ("gpu.example.com", "rack-7")


@pytest.fixture
def marks() -> Marks:
    return Marks()


@pytest.fixture
def cache(marks: Marks) -> Cache:
    return Cache(marks)


def facts(name: str, uid: str = "n1", **fields: Any) -> NodeFacts:
    return NodeFacts(name=name, uid=uid, **fields)


def on_the_shelf(node: str) -> ResourceSlice:
    """A slice of a driver that names its pools as it likes."""
    spec = slice_of("node-a", 0).spec
    pool = msgspec.structs.replace(spec.pool, name=SHELF[1])
    spec = msgspec.structs.replace(spec, driver=SHELF[0], pool=pool, node_name=node)
    return ResourceSlice(ObjectMeta(), spec)


class TestNodes:
    def test_one_that_goes_or_comes_back_is_looked_at(self, cache: Cache, marks: Marks) -> None:
        cache.put_node("node-a", facts("node-a"))
        assert marks.taken() == {"node-a"}
        cache.put_node("node-a", facts("node-a"))
        assert marks.taken() == set()
        cache.put_node("node-a", facts("node-a", uid="n2"))
        assert marks.taken() == {"node-a"}
        cache.put_node("node-a", None)
        assert marks.taken() == {"node-a"}

    def test_the_state_of_one_matters_where_an_incident_is_open(
        self, cache: Cache, marks: Marks
    ) -> None:
        cache.put_node("node-a", facts("node-a"))
        cache.put_node("node-b", facts("node-b"))
        cache.put_incident("node-a-1", incident())
        marks.clear()

        for name in ("node-a", "node-b"):
            cache.put_node(name, facts(name, cordons=("cordoned by a person",)))

        assert marks.taken() == {"node-a"}

    def test_one_is_gone_only_when_nodes_are_known(self, cache: Cache) -> None:
        cache.put_incident("node-a-1", incident())
        assert not cache.view("node-a", believed).nodes_known

        cache.nodes_known = True

        seen = cache.view("node-a", believed)
        assert seen.nodes_known
        assert seen.facts is None
        assert cache.nodes() == {"node-a"}


class TestSlices:
    def test_a_pool_of_many_devices_comes_in_several_slices_and_only_whole(
        self, cache: Cache
    ) -> None:
        parts = [range(64), range(64, 128), range(128, 150)]
        for number, indexes in enumerate(parts):
            assert cache.view("node-a", believed).slices.inventory == ()
            cache.put_slice(f"s{number}", None, slice_of("node-a", *indexes, count=3))

        assert len(cache.view("node-a", believed).slices.inventory) == 150

    def test_a_pool_is_contested_while_others_publish_into_it_as_well(
        self, cache: Cache, marks: Marks
    ) -> None:
        mine, theirs, nobodys = (on_the_shelf(node) for node in ("node-a", "node-b", ""))
        cache.put_slice("s0", None, mine)
        assert cache.view("node-a", believed).slices.contested == frozenset()
        marks.clear()

        for other in (theirs, nobodys):
            cache.put_slice("s1", None, other)
            assert cache.view("node-a", believed).slices.contested == {SHELF}
            assert "node-a" in marks.taken()
            cache.put_slice("s1", other, None)
            assert cache.view("node-a", believed).slices.contested == frozenset()
            assert "node-a" in marks.taken()

    def test_a_pool_is_contested_for_a_rule_that_another_node_begins_to_publish_into(
        self, cache: Cache, marks: Marks
    ) -> None:
        cache.put_slice("s0", None, on_the_shelf("node-a"))
        ruled = raw_rule(device=Device(*SHELF, "gpu-0"))
        cache.put_rule(ruled.metadata.name, ruled)
        cache.put_slice("s0", on_the_shelf("node-a"), None)
        marks.clear()

        cache.put_slice("s1", None, on_the_shelf("node-b"))

        assert cache.view("node-a", believed).slices.contested == {SHELF}
        assert "node-a" in marks.taken()

    def test_a_pool_between_two_generations_has_the_devices_of_one(self, cache: Cache) -> None:
        old = [slice_of("node-a", 0, count=2), slice_of("node-a", 1, count=2)]
        new = [
            slice_of("node-a", 0, generation=2, count=2),
            slice_of("node-a", 2, generation=2, count=2),
        ]
        for number, resource_slice in enumerate(old):
            cache.put_slice(f"s{number}", None, resource_slice)
        seen: list[list[str]] = []
        for number in (0, 1):
            cache.put_slice(f"s{number}", old[number], new[number])
            devices = cache.view("node-a", believed).slices.inventory
            seen.append([device.device.device for device in devices])

        assert seen == [["gpu-0", "gpu-1"], ["gpu-0", "gpu-2"]]

    def test_vfio_devices_in_equal_slots_make_no_rivals_of_nodes(
        self, cache: Cache, marks: Marks
    ) -> None:
        for node in ("node-a", "node-b"):
            cache.put_slice(f"s-{node}", None, _vfio(node))
        marks.clear()

        cache.put_slice("s-node-b", _vfio("node-b"), None)

        assert marks.taken() == {"node-b"}

    def test_the_twin_of_a_reported_gpu_is_held_by_whoever_holds_it(self, cache: Cache) -> None:
        cache.put_report("node-a", health("node-a", report(gpu(0))))
        cache.put_slice("s", None, _vfio("node-a"))
        cache.put_claim("team/c", None, claim("gpu-vfio-0"))

        (board,) = bind_boards(cache.view("node-a", believed), T0)

        assert [pod.device for pod in board.users.holders] == [f"{DRIVER}/node-a/gpu-vfio-0"]


def _vfio(node: str) -> ResourceSlice:
    """The one GPU of a node as a VFIO device: its UUID is that of the PCI address."""
    body = msgspec.to_builtins(slice_of(node, 0))
    (device,) = body["spec"]["devices"]
    device["name"] = "gpu-vfio-0"
    device["attributes"] |= {
        "type": {"string": "vfio"},
        "uuid": {"string": "0e5fffd1-0000-5000-8000-000000000000"},
    }
    return msgspec.convert(body, ResourceSlice)


def channel(node: str, pod: str, domain: str = "cd-1") -> Claim:
    devices = DeviceAllocation(
        (DeviceResult(IMEX, node, "channel-0"),),
        (Configuration(Opaque(IMEX, Parameters(domain))),),
    )
    reserved = (ConsumerReference(pod, "pods", f"u-{pod}"),)
    return Claim(
        ClaimMeta(name=f"channel-of-{pod}", namespace="team"),
        ClaimStatus(Allocation(devices), reserved),
    )


class TestPeers:
    def fill(self, cache: Cache) -> None:
        cache.put_report("node-a", health("node-a", report(gpu(0))))
        body = msgspec.to_builtins(slice_of("node-a", 0))
        body["spec"] |= {"driver": IMEX, "devices": [{"name": "channel-0"}]}
        cache.put_slice("s1", None, slice_of("node-a", 0))
        cache.put_slice("s2", None, msgspec.convert(body, ResourceSlice))
        cache.put_claim("team/c", None, claim("gpu-0", "w-0"))
        for node, pod, domain in (
            ("node-a", "w-0", "cd-1"),
            ("node-b", "w-1", "cd-1"),
            ("node-c", "x-0", "cd-2"),
        ):
            cache.put_claim(f"team/{pod}", None, channel(node, pod, domain))

    def test_those_of_a_compute_domain_on_other_nodes_are_reported(self, cache: Cache) -> None:
        self.fill(cache)
        cache.put_incident("node-a-1", incident())

        (board,) = bind_boards(cache.view("node-a", believed), T0)

        assert [(pod.pod, pod.via) for pod in board.users.gang] == [("w-1", "Gang")]
        assert [pod.pod for pod in board.users.holders] == ["w-0"]

    def test_nothing_of_other_nodes_is_looked_up_without_an_incident(self, cache: Cache) -> None:
        self.fill(cache)

        names = {claim.metadata.name for claim in cache.view("node-a", believed).usage.claims}

        assert names == {"claim-of-w-0", "channel-of-w-0"}

    def test_a_claim_that_is_gone_is_nobodys_peer(self, cache: Cache) -> None:
        self.fill(cache)
        cache.put_incident("node-a-1", incident())
        cache.put_claim("team/w-1", channel("node-b", "w-1"), None)

        (board,) = bind_boards(cache.view("node-a", believed), T0)

        assert board.users.gang == ()


def test_one_nodes_view_costs_the_same_in_a_cluster_ten_times_as_large() -> None:
    def steps(size: int) -> int:
        cache = Cache(lambda _: None)
        for number in range(size):
            node = f"node-{number}"
            cache.put_slice(f"s-{node}", None, slice_of(node, 0))
            cache.put_claim(f"team/{node}", None, channel(node, f"w-{number}", f"cd-{number}"))
            meta = ObjectMeta(name=f"i-{number}", uid="u", resource_version="1")
            spec = msgspec.structs.replace(incident(node).spec, uuid=uuid(number))
            cache.put_incident(meta.name, Incident(meta, spec, incident(node).status))
        counted = _Steps()
        with counted:
            cache.view("node-7", believed)
        return counted.total

    assert steps(400) == steps(40)


class _Steps:
    """Counts the interpreter's steps in a `with` block: the same on a slow and on a fast day."""

    def __init__(self) -> None:
        self.total = 0

    def __enter__(self) -> None:
        self._before = sys.gettrace(), gc.isenabled()
        # What others have the collector report are steps as well.
        gc.disable()
        sys.settrace(self._seen)

    def __exit__(self, *_: object) -> None:
        trace, collects = self._before
        sys.settrace(trace)
        if collects:
            gc.enable()

    def _seen(self, frame: FrameType, _event: str, _argument: object) -> TraceFunction:
        frame.f_trace_opcodes = True
        self.total += 1
        return self._seen
