"""Published devices on the page: each in one state, counted again only where something changed."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exporter.model.device import Device
from exporter.model.resource_slices import ResourceSlice, SliceDevice, Taint
from remediator.controller.cache import Cache
from remediator.metrics.claims import Room
from remediator.metrics.devices import PoolCount, device_rows, pool_count, rooms
from remediator.model.claim import Claim
from remediator.model.taint_rule import (
    EFFECTS,
    TAINT_EFFECTS,
    Effect,
    ForeignRule,
    RawRule,
    Rule,
    manifest,
)
from tests.chain.scene import resource_slice
from tests.lab.examples import examples
from tests.remediator.builders import DRIVER, gpu, published, uuid
from tests.remediator.playing import claim

(ONE,) = published(gpu(0))
RULE = Rule(
    device=ONE.device,
    effect="NoSchedule",
    fault="gpu",
    cause="xid-95",
    incident="gpu-1",
    uuid=uuid(0),
    gpu=uuid(0),
    node="node-a",
)
OTHERS = ForeignRule("theirs", DRIVER, "node-a", "", "example.com/broken", "NoExecute")
TAINTED = msgspec.structs.replace(ONE, taints=(Taint("gpu.nvidia.com/xid", "79", "NoSchedule"),))
MARKED = msgspec.structs.replace(ONE, taints=(Taint("gpu.nvidia.com/xid", "31", "None"),))
HELD = claim("gpu-0")


def with_effect(effect: Effect) -> Rule:
    return msgspec.structs.replace(RULE, effect=effect)


@pytest.mark.parametrize(
    ("device", "rules", "foreign", "claims", "state"),
    [
        (ONE, [], [], [], "free"),
        (ONE, [], [], [HELD], "allocated"),
        (ONE, [with_effect("None")], [], [HELD], "allocated"),
        (ONE, [RULE], [], [HELD], "tainted"),
        (ONE, [with_effect("NoExecute")], [], [], "tainted"),
        (TAINTED, [], [], [HELD], "tainted_by_others"),
        (TAINTED, [RULE], [OTHERS], [HELD], "tainted"),
        (MARKED, [], [], [], "free"),
        (ONE, [], [OTHERS], [HELD], "tainted_by_others"),
        (ONE, [], [msgspec.structs.replace(OTHERS, effect="None")], [], "free"),
        (ONE, [], [msgspec.structs.replace(OTHERS, pool="node-b")], [], "free"),
    ],
)
def test_a_device_is_in_the_first_state_that_is_true_of_it(
    device: SliceDevice,
    rules: list[Rule],
    foreign: list[ForeignRule],
    claims: list[Claim],
    state: str,
) -> None:
    (counted,) = pool_count([device], rules, foreign, claims).states

    assert counted[1:] == (state, 1)


def test_an_administrators_look_allocates_nothing() -> None:
    body = msgspec.to_builtins(HELD)
    body["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    (counted,) = pool_count([ONE], [], [], [msgspec.convert(body, Claim)]).states

    assert counted[1] == "free"


def test_what_is_no_gpu_is_not_counted() -> None:
    channel = SliceDevice(device=Device("compute-domain.nvidia.com", "node-a", "channel-0"))

    assert pool_count([channel], [], [], []) == PoolCount()


def test_room_for_a_claim_is_the_best_of_one_pool_and_knows_what_taints_take() -> None:
    four = [published(gpu(index))[0] for index in range(4)]
    one_held = pool_count(four, [], [], [HELD])
    tainted_and_held = pool_count(four, [RULE], [], [HELD])
    tainted_and_idle = pool_count(four, [RULE], [], [])

    assert rooms([one_held]) == {(DRIVER, "gpu"): Room(3, 3)}
    assert rooms([tainted_and_held]) == {(DRIVER, "gpu"): Room(3, 3)}
    assert rooms([tainted_and_idle, one_held]) == {(DRIVER, "gpu"): Room(3, 4)}
    assert rooms([]) == {}


def test_of_too_many_models_the_rarest_are_counted_together() -> None:
    def model(name: str) -> tuple[str, str, str, str]:
        return DRIVER, "gpu", name, ""

    totals = {(model(f"board-{n}"), "free"): 1 for n in range(5)} | {(model("H100"), "free"): 9}
    rows = device_rows(totals, most=2)["devices"]  # pyright: ignore[reportArgumentType] - states

    assert sum(rows.values()) == 14
    assert rows[DRIVER, "gpu", "H100", "", "free"] == 9
    assert rows["other", "gpu", "other", "other", "free"] == 4


NODES = ("node-a", "node-b", "node-c")
INDEXES = (0, 1, 2)
_publish = st.tuples(
    st.just("publish"), st.sampled_from(NODES), st.sets(st.sampled_from(INDEXES)).map(sorted)
)
_ours = st.tuples(
    st.just("rule"),
    st.sampled_from(NODES),
    st.sampled_from(INDEXES),
    st.sampled_from((*EFFECTS, "")),
)
_theirs = st.tuples(
    st.just("foreign"), st.sampled_from((*NODES, "")), st.sampled_from((*TAINT_EFFECTS, ""))
)
_claims = st.tuples(
    st.just("claim"),
    st.sampled_from("xy"),
    st.none() | st.tuples(st.sampled_from(NODES), st.sampled_from(INDEXES)),
)
_step = st.one_of(_publish, _ours, _theirs, _claims)
STEPS = st.lists(st.tuples(_step, st.booleans()), max_size=25)
"""What changes, and whether somebody looks then."""


class Model:
    """The cluster as plain sets, beside the world that receives it change by change."""

    def __init__(self) -> None:
        self.cache = Cache(lambda _: None)
        self.slices: dict[str, ResourceSlice] = {}
        self.published: dict[str, list[int]] = {}
        self.ours: dict[tuple[str, int], str] = {}
        self.theirs: dict[str, tuple[str, str]] = {}
        self.claims: dict[str, Claim] = {}
        self.held: dict[str, tuple[str, int]] = {}
        self._version = 0

    def take(self, step: tuple[Any, ...]) -> None:
        getattr(self, f"_{step[0]}")(*step[1:])

    def reported(self) -> Counter[str]:
        totals, counts = self.cache.stock()
        reported = Counter[str]()
        for (_, state), number in totals.items():
            reported[state] += number
        assert sum(state[2] for count in counts for state in count.states) == reported.total()
        return reported

    def _publish(self, node: str, indexes: list[int]) -> None:
        old = self.slices.pop(node, None)
        self.published.pop(node, None)
        if indexes:
            devices = [published(gpu(index, node=node), node)[0] for index in indexes]
            new = msgspec.convert(resource_slice(node, devices), ResourceSlice)
            self.slices[node], self.published[node] = new, indexes
        self.cache.slice(node, old, self.slices.get(node))

    def _rule(self, node: str, index: int, effect: str) -> None:
        self._version += 1
        (device,) = published(gpu(index, node=node), node)
        rule = msgspec.structs.replace(RULE, device=device.device, node=node)
        self.ours.pop((node, index), None)
        if not effect:
            self.cache.rule(rule.name, None)
            return
        self.ours[node, index] = effect
        body = manifest(msgspec.structs.replace(rule, effect=effect), "v1")
        raw = msgspec.convert(body, RawRule)
        meta = msgspec.structs.replace(raw.metadata, uid="u", resource_version=str(self._version))
        self.cache.rule(rule.name, msgspec.structs.replace(raw, metadata=meta))

    def _foreign(self, pool: str, effect: str) -> None:
        self.theirs.pop("theirs", None)
        if not effect:
            self.cache.rule("theirs", None)
            return
        self.theirs["theirs"] = (pool, effect)
        selector = {"driver": DRIVER, "pool": pool} if pool else {}
        taint = {"key": "example.com/broken", "effect": effect}
        spec = {"deviceSelector": selector, "taint": taint}
        body = {"metadata": {"name": "theirs"}, "spec": spec}
        self.cache.rule("theirs", msgspec.convert(body, RawRule))

    def _claim(self, name: str, on: tuple[str, int] | None) -> None:
        old = self.claims.pop(name, None)
        self.held.pop(name, None)
        if on is not None:
            result = {"driver": DRIVER, "pool": on[0], "device": f"gpu-{on[1]}"}
            status = {"allocation": {"devices": {"results": [result]}}}
            body = {"metadata": {"name": name}, "status": status}
            self.claims[name], self.held[name] = msgspec.convert(body, Claim), on
        self.cache.claim(name, old, self.claims.get(name))

    def states(self) -> Counter[str]:
        return Counter(
            self._state(node, index)
            for node, indexes in self.published.items()
            for index in indexes
        )

    def _state(self, node: str, index: int) -> str:
        away = {"NoSchedule", "Evict", "NoExecute"}
        if self.ours.get((node, index)) in away:
            return "tainted"
        if any(effect in away and pool in {"", node} for pool, effect in self.theirs.values()):
            return "tainted_by_others"
        return "allocated" if (node, index) in self.held.values() else "free"


@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
@example([(("publish", "node-a", [0]), True), (("claim", "x", ("node-a", 0)), True)])
@example([(("publish", "node-a", [0]), True), (("foreign", "", "NoExecute"), True)])
def test_counting_what_changed_is_counting_everything(
    steps: list[tuple[tuple[Any, ...], bool]],
) -> None:
    model = Model()
    for step, looks in steps:
        model.take(step)
        assert not looks or model.reported() == model.states()
    assert model.reported() == model.states()


def test_a_node_that_publishes_in_anothers_pool_counts_nothing_there() -> None:
    cache = Cache(lambda _: None)
    for name, node, indexes in (("forged", "node-b", (0, 1)), ("true", "node-a", (0,))):
        devices = [device for index in indexes for device in published(gpu(index))]
        body = resource_slice("node-a", devices)
        body["spec"]["nodeName"] = node
        cache.slice(name, None, msgspec.convert(body, ResourceSlice))
    totals, _ = cache.stock()

    assert sum(totals.values()) == 1


def test_another_drivers_pool_is_counted_once_and_by_who_is_left() -> None:
    cache = Cache(lambda _: None)
    bodies: dict[str, ResourceSlice] = {}
    for node in ("node-a", "node-b"):
        body = resource_slice("shared", list(published(gpu(0))))
        body["spec"] |= {"nodeName": node, "driver": "gpu.example.com"}
        body["spec"]["devices"][0]["attributes"]["gpu.example.com/type"] = {"string": "gpu"}
        bodies[node] = msgspec.convert(body, ResourceSlice)
        cache.slice(node, None, bodies[node])
    assert sum(cache.stock()[0].values()) == 1
    cache.slice("node-a", bodies["node-a"], None)

    assert sum(cache.stock()[0].values()) == 1


def test_product_and_profile_are_reported_as_published() -> None:
    body = resource_slice("node-a", list(published(gpu(0))))
    body["spec"]["devices"][0]["attributes"]["productName"] = {"string": 'NVIDIA "H100"\n80GB'}
    cache = Cache(lambda _: None)
    cache.slice("s", None, msgspec.convert(body, ResourceSlice))

    assert device_rows(cache.stock()[0])["devices"] == {
        (DRIVER, "gpu", 'NVIDIA "H100"\n80GB', "", "free"): 1
    }
