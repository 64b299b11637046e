"""Published devices on the page: state and taint, counted again only where something changed."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exporter.model.device import Device
from exporter.model.resource_slices import ResourceSlice, SliceDevice, Taint
from remediator.controller.cache import Cache
from remediator.metrics.devices import (
    Group,
    admit_unknown,
    device_rows,
    pool_count,
)
from remediator.model.claim import Claim
from remediator.model.taint_rule import (
    EFFECTS,
    MAINTENANCE,
    TAINT_EFFECTS,
    ForeignRule,
    RawRule,
    Rule,
    manifest,
)
from tests.chain.scene import resource_slice
from tests.lab.examples import examples
from tests.remediator.builders import DRIVER, gpu, published, rule
from tests.remediator.playing import claim

(ONE,) = published(gpu(0))
RULE = rule()
OTHERS = ForeignRule("theirs", DRIVER, "node-a", "", "example.com/broken", "NoExecute")
NARROWED = msgspec.structs.replace(OTHERS, narrowed=True)
TAINTED = msgspec.structs.replace(ONE, taints=(Taint("gpu.nvidia.com/xid", "79", "NoSchedule"),))
MARKED = msgspec.structs.replace(ONE, taints=(Taint("gpu.nvidia.com/xid", "31", "None"),))
HELD = claim("gpu-0")


@pytest.mark.parametrize(
    ("device", "ours", "theirs", "by"),
    [
        (ONE, [], [], "none"),
        (ONE, [rule(effect="None")], [], "none"),
        (ONE, [RULE], [], "draguard"),
        (ONE, [rule(effect="Evict")], [], "draguard"),
        (ONE, [rule(effect="NoExecute")], [], "draguard"),
        (TAINTED, [], [], "driver"),
        (MARKED, [], [], "none"),
        (ONE, [], [OTHERS], "other"),
        (ONE, [], [msgspec.structs.replace(OTHERS, effect="None")], "none"),
        (ONE, [], [msgspec.structs.replace(OTHERS, effect="PreferNoSchedule")], "none"),
        (ONE, [], [msgspec.structs.replace(OTHERS, pool="node-b")], "none"),
        (ONE, [], [NARROWED], "unknown"),
        (ONE, [], [NARROWED, OTHERS], "other"),
        (ONE, [RULE], [NARROWED], "draguard"),
        (TAINTED, [RULE], [OTHERS], "draguard"),
        (TAINTED, [rule(effect="None")], [OTHERS], "driver"),
        (MARKED, [], [OTHERS], "other"),
    ],
)
def test_a_taint_is_who_keeps_pods_away_and_says_nothing_of_the_state(
    device: SliceDevice, ours: list[Rule], theirs: list[ForeignRule], by: str
) -> None:
    for claims, state in (([], "free"), ([HELD], "allocated")):
        ((group, number),) = pool_count([device], ours, theirs, claims)

        assert (*group[1:], number) == (state, by, 1)


def test_an_administrators_look_allocates_nothing() -> None:
    body = msgspec.to_builtins(HELD)
    body["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    ((group, _),) = pool_count([ONE], [], [], [msgspec.convert(body, Claim)])

    assert group[1] == "free"


def test_what_is_no_gpu_is_not_counted() -> None:
    channel = SliceDevice(device=Device("compute-domain.nvidia.com", "node-a", "channel-0"))

    assert pool_count([channel], [], [], []) == ()


def test_of_too_many_models_the_rarest_are_counted_together() -> None:
    def free(name: str) -> Group:
        return (DRIVER, "gpu", name, ""), "free", "none"

    totals = {free(f"board-{n}"): 1 for n in range(5)} | {free("H100"): 9}
    rows = device_rows(totals, most=2)["devices"]

    assert sum(rows.values()) == 14
    assert rows[DRIVER, "gpu", "H100", "", "free", "none"] == 9
    assert rows["other", "gpu", "other", "other", "free", "none"] == 4


H100 = (DRIVER, "gpu", "H100", "")
READ: dict[Group, int] = {
    (H100, "allocated", "none"): 1,
    (H100, "allocated", "driver"): 2,
    (H100, "free", "none"): 4,
    (H100, "free", "draguard"): 8,
}


@pytest.mark.parametrize(
    ("unread", "known"),
    [
        (set[str](), READ),
        (
            {"claims"},
            {
                (H100, "allocated", "none"): 1,
                (H100, "allocated", "driver"): 2,
                (H100, "unknown", "none"): 4,
                (H100, "unknown", "draguard"): 8,
            },
        ),
        (
            {"claims", "rules"},
            {
                (H100, "allocated", "unknown"): 3,
                (H100, "unknown", "unknown"): 4,
                (H100, "unknown", "draguard"): 8,
            },
        ),
    ],
    ids=["all is read", "not all claims", "neither all claims nor all rules"],
)
def test_free_and_untainted_need_everything_to_be_read(
    unread: set[str], known: dict[Group, int]
) -> None:
    assert admit_unknown(READ, unread) == known


NODES = ("node-a", "node-b", "node-c")
TYPES = ("gpu", "mig", "vfio")
INDEXES = tuple(range(len(TYPES)))
_publish = st.tuples(
    st.just("publish"),
    st.sampled_from(NODES),
    st.dictionaries(st.sampled_from(INDEXES), st.sampled_from((*TAINT_EFFECTS, ""))),
)
_ours = st.tuples(
    st.just("rule"),
    st.sampled_from(NODES),
    st.sampled_from(INDEXES),
    st.sampled_from((*EFFECTS, "")),
)
_theirs = st.tuples(
    st.just("foreign"),
    st.sampled_from(("example.com/broken", MAINTENANCE)),
    st.sampled_from((*NODES, "")),
    st.sampled_from((*TAINT_EFFECTS, "")),
)
_claims = st.tuples(
    st.just("claim"),
    st.sampled_from("xy"),
    st.none() | st.tuples(st.sampled_from(NODES), st.sampled_from(INDEXES)),
    st.booleans(),
)
_step = st.one_of(_publish, _ours, _theirs, _claims)
STEPS = st.lists(st.tuples(_step, st.booleans()), max_size=25)
"""What changes, and whether somebody looks then."""


class Model:
    """The cluster as plain sets, beside the world that receives it change by change."""

    def __init__(self) -> None:
        self.cache = Cache(lambda _: None)
        self.slices: dict[str, ResourceSlice] = {}
        self.published: dict[str, dict[int, str]] = {}
        """By node and index, the effect of the driver's own taint, "" without one."""
        self.ours: dict[tuple[str, int], str] = {}
        self.theirs: dict[str, tuple[str, str]] = {}
        self.claims: dict[str, Claim] = {}
        self.held: dict[str, tuple[str, int]] = {}
        self._version = 0

    def take(self, step: tuple[Any, ...]) -> None:
        getattr(self, f"_{step[0]}")(*step[1:])

    def reported(self) -> Counter[tuple[str, str, str]]:
        reported = Counter[tuple[str, str, str]]()
        for (model, state, by), number in self.cache.stock().items():
            reported[model[1], state, by] += number
        return reported

    def _publish(self, node: str, effects: dict[int, str]) -> None:
        old = self.slices.pop(node, None)
        self.published.pop(node, None)
        if effects:
            devices = [published(gpu(index, node=node), node)[0] for index in effects]
            body = resource_slice(node, devices)
            for device, (index, effect) in zip(
                body["spec"]["devices"], effects.items(), strict=True
            ):
                device["attributes"]["type"] = {"string": TYPES[index]}
                if effect:
                    device["taints"] = [{"key": "gpu.nvidia.com/xid", "effect": effect}]
            self.slices[node], self.published[node] = msgspec.convert(body, ResourceSlice), effects
        self.cache.put_slice(node, old, self.slices.get(node))

    def _rule(self, node: str, index: int, effect: str) -> None:
        self._version += 1
        one = rule(index, node=node)
        self.ours.pop((node, index), None)
        if not effect:
            self.cache.put_rule(one.name, None)
            return
        self.ours[node, index] = effect
        body = manifest(msgspec.structs.replace(one, effect=effect), "v1")
        raw = msgspec.convert(body, RawRule)
        meta = msgspec.structs.replace(raw.metadata, uid="u", resource_version=str(self._version))
        self.cache.put_rule(one.name, msgspec.structs.replace(raw, metadata=meta))

    def _foreign(self, key: str, pool: str, effect: str) -> None:
        self.theirs.pop("theirs", None)
        if not effect:
            self.cache.put_rule("theirs", None)
            return
        self.theirs["theirs"] = (pool, effect)
        selector = {"driver": DRIVER, "pool": pool} if pool else {}
        taint = {"key": key, "effect": effect}
        spec = {"deviceSelector": selector, "taint": taint}
        body = {"metadata": {"name": "theirs"}, "spec": spec}
        self.cache.put_rule("theirs", msgspec.convert(body, RawRule))

    def _claim(self, name: str, on: tuple[str, int] | None, admin: bool) -> None:
        old = self.claims.pop(name, None)
        self.held.pop(name, None)
        if on is not None:
            result = {"driver": DRIVER, "pool": on[0], "device": f"gpu-{on[1]}"}
            result |= {"adminAccess": True} if admin else {}
            status = {"allocation": {"devices": {"results": [result]}}}
            body = {"metadata": {"name": name}, "status": status}
            self.claims[name] = msgspec.convert(body, Claim)
            self.held |= {} if admin else {name: on}
        self.cache.put_claim(name, old, self.claims.get(name))

    def groups(self) -> Counter[tuple[str, str, str]]:
        return Counter(
            (
                TYPES[index],
                "allocated" if (node, index) in self.held.values() else "free",
                self._tainted_by(node, index),
            )
            for node, indexes in self.published.items()
            for index in indexes
        )

    def _tainted_by(self, node: str, index: int) -> str:
        away = {"NoSchedule", "Evict", "NoExecute"}
        if self.ours.get((node, index)) in away:
            return "draguard"
        if self.published[node][index] in away:
            return "driver"
        theirs = any(effect in away and pool in {"", node} for pool, effect in self.theirs.values())
        return "other" if theirs else "none"


@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
@example([(("publish", "node-a", {0: ""}), True), (("claim", "x", ("node-a", 0), False), True)])
@example([(("publish", "node-a", {0: ""}), True), (("foreign", MAINTENANCE, "", "None"), True)])
def test_states_and_taints_add_up_to_the_published_devices_after_every_change(
    steps: list[tuple[tuple[Any, ...], bool]],
) -> None:
    model = Model()
    for step, looks in steps:
        model.take(step)
        assert not looks or model.reported() == model.groups()
    assert model.reported() == model.groups()
    assert model.reported().total() == sum(map(len, model.published.values()))


def test_a_node_that_publishes_in_anothers_pool_counts_nothing_there() -> None:
    cache = Cache(lambda _: None)
    for name, node, indexes in (("forged", "node-b", (0, 1)), ("true", "node-a", (0,))):
        devices = [device for index in indexes for device in published(gpu(index))]
        body = resource_slice("node-a", devices)
        body["spec"]["nodeName"] = node
        cache.put_slice(name, None, msgspec.convert(body, ResourceSlice))

    assert sum(cache.stock().values()) == 1


def test_another_drivers_pool_is_counted_once_and_by_who_is_left() -> None:
    cache = Cache(lambda _: None)
    bodies: dict[str, ResourceSlice] = {}
    for node in ("node-a", "node-b"):
        body = resource_slice("shared", list(published(gpu(0))))
        body["spec"] |= {"nodeName": node, "driver": "gpu.example.com"}
        body["spec"]["devices"][0]["attributes"]["gpu.example.com/type"] = {"string": "gpu"}
        bodies[node] = msgspec.convert(body, ResourceSlice)
        cache.put_slice(node, None, bodies[node])
    assert sum(cache.stock().values()) == 1
    cache.put_slice("node-a", bodies["node-a"], None)

    assert sum(cache.stock().values()) == 1


def test_product_and_profile_are_reported_as_published() -> None:
    body = resource_slice("node-a", list(published(gpu(0))))
    body["spec"]["devices"][0]["attributes"]["productName"] = {"string": 'NVIDIA "H100"\n80GB'}
    cache = Cache(lambda _: None)
    cache.put_slice("s", None, msgspec.convert(body, ResourceSlice))

    assert device_rows(cache.stock())["devices"] == {
        (DRIVER, "gpu", 'NVIDIA "H100"\n80GB', "", "free", "none"): 1
    }
