"""Every DeviceTaintRule: which are ours, which concern a node, which are left over."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model.device import Device
from exporter.model.node_health import ObjectMeta
from remediator.controller.cache import World
from remediator.controller.rule_index import Rulebook
from remediator.model import taint_rule
from remediator.model.taint_rule import RawRule, RawRuleSpec, RawTaint, Selector
from remediator.plan.reconcile import decide_node
from remediator.plan.steps import ChangeRule
from tests.remediator.builders import DRIVER, RESET, at, gpu, policy, report, uuid
from tests.remediator.controller.test_cache import Marks, believed, health, raw_rule, slice_of


@pytest.fixture
def marks() -> Marks:
    return Marks()


@pytest.fixture
def world(marks: Marks) -> World:
    one = World(marks)
    one.slice("s1", None, slice_of("node-a", 0))
    one.slice("s2", None, slice_of("node-b", 0))
    marks.clear()
    return one


def put(world: World, raw: RawRule) -> None:
    world.rule(raw.metadata.name, raw)


def changed(raw: RawRule, **meta: Any) -> RawRule:
    return msgspec.structs.replace(raw, metadata=msgspec.structs.replace(raw.metadata, **meta))


def theirs(name: str, selector: Selector | None) -> RawRule:
    return RawRule(
        ObjectMeta(name=name), RawRuleSpec(RawTaint("example.com/bad", "NoSchedule"), selector)
    )


class TestOtherPeople:
    def test_their_rules_are_shown_to_the_nodes_whose_devices_they_may_select(
        self, world: World
    ) -> None:
        put(world, theirs("one-device", Selector(DRIVER, "node-a", "gpu-0")))
        put(world, theirs("one-pool", Selector(DRIVER, "node-b")))
        put(world, theirs("a-driver", Selector(DRIVER)))
        put(world, theirs("a-name", Selector(device="gpu-0")))
        put(world, theirs("all", Selector()))
        put(world, theirs("none-said", None))
        put(world, theirs("other-driver", Selector("nic.example.com", "node-a")))
        put(world, theirs("other-device", Selector(DRIVER, "node-a", "gpu-7")))
        everywhere = ["a-driver", "a-name", "all", "none-said"]

        def shown(node: str) -> list[str]:
            return [one.name for one in world.view(node, believed).foreign]

        assert shown("node-a") == sorted([*everywhere, "one-device"])
        assert shown("node-b") == sorted([*everywhere, "one-pool"])
        assert world.rules() == ()

    def test_a_rule_that_is_deleted_is_shown_no_more(self, world: World) -> None:
        put(world, theirs("all", Selector()))

        world.rule("all", None)

        assert world.view("node-a", believed).foreign == ()

    def test_our_taint_on_a_wide_selector_is_not_ours_and_is_shown(self, world: World) -> None:
        raw = raw_rule()
        spec = msgspec.structs.replace(raw.spec, device_selector=Selector(DRIVER))
        put(world, msgspec.structs.replace(raw, spec=spec))

        assert world.rules() == ()
        (shown,) = world.view("node-b", believed).foreign
        assert shown.key == "draguard.dev/gpu"


class TestAPersonsHand:
    def test_a_rule_without_its_labels_is_still_ours(self, world: World, marks: Marks) -> None:
        put(world, raw_rule())
        marks.clear()

        put(world, changed(raw_rule(version="6"), labels={}))

        assert marks.taken() == {"node-a"}
        (rule,) = world.view("node-a", believed).rules
        assert (rule.gpu, rule.stripped) == (uuid(0), True)
        assert world.view("node-a", believed).foreign == ()

    def test_a_rule_whose_cause_was_emptied_is_still_ours_and_gets_its_words_back(
        self, world: World
    ) -> None:
        raw = raw_rule(version="6")
        taint = msgspec.structs.replace(raw.spec.taint, value="")
        spec = msgspec.structs.replace(raw.spec, taint=taint)
        put(world, msgspec.structs.replace(raw, spec=spec))

        seen = world.view("node-a", believed)
        assert seen.foreign == ()
        assert [rule.gpu for rule in seen.rules] == [uuid(0)]

        world.report("node-a", health("node-a", report(gpu(0, recovery_action=RESET))))
        steps = decide_node(world.view("node-a", believed), world.fleet(), policy(), at(2)).steps
        changes = [step.rule for step in steps if isinstance(step, ChangeRule)]
        assert [(one.cause, one.gpu) for one in changes] == [("recovery-action-1", uuid(0))]

    def test_a_rule_without_any_mark_is_for_what_stands_under_its_name(self, world: World) -> None:
        put(world, changed(raw_rule(), labels={}, annotations={}))

        (rule,) = world.view("node-a", believed).rules
        assert (rule.gpu, rule.node, rule.stripped) == (uuid(0), "node-a", True)

    def test_a_rule_without_any_mark_waits_until_its_device_is_published(
        self, marks: Marks
    ) -> None:
        world = World(marks)
        put(world, changed(raw_rule(), labels={}, annotations={}))
        assert world.rules() == ()

        world.slice("s1", None, slice_of("node-a", 0))

        assert marks.taken() == {"node-a"}
        assert [rule.gpu for rule in world.rules()] == [uuid(0)]

    def test_a_copy_of_a_rule_is_left_over(self, world: World) -> None:
        put(world, raw_rule())
        put(world, changed(raw_rule(), name="a-copy", uid="u2"))

        seen = world.view("node-a", believed)

        name = taint_rule.rule_name(Device(DRIVER, "node-a", "gpu-0"))
        assert [rule.name for rule in seen.rules] == [name]
        assert [rule.name for rule in seen.leftovers] == ["a-copy"]
        assert len(world.rules()) == 1
        assert len(world.fleet().rules) == 1

    def test_a_copy_alone_is_the_rule_until_the_proper_one_is_there(self, world: World) -> None:
        put(world, changed(raw_rule(), name="a-copy", uid="u2"))
        assert [rule.name for rule in world.view("node-a", believed).rules] == ["a-copy"]

        put(world, raw_rule())

        assert [one.name for one in world.view("node-a", believed).leftovers] == ["a-copy"]


def test_a_rule_of_a_board_that_moved_is_seen_by_both_nodes(world: World) -> None:
    put(world, raw_rule("node-a"))

    world.report("node-b", health("node-b", report(gpu(0))))

    for node in ("node-a", "node-b"):
        assert [rule.gpu for rule in world.view(node, believed).rules] == [uuid(0)]


def test_a_rule_of_a_node_that_is_gone_keeps_the_node_in_mind(marks: Marks) -> None:
    world = World(marks)

    put(world, raw_rule("node-z"))

    assert world.nodes() == {"node-z"}
    assert marks.taken() == {"node-z"}


def of_device(name: str, number: int) -> RawRule:
    raw = raw_rule()
    spec = msgspec.structs.replace(
        raw.spec, device_selector=Selector(DRIVER, "node-a", f"gpu-{number}")
    )
    meta = msgspec.structs.replace(raw.metadata, name=name, uid=f"{name}-{number}")
    return msgspec.structs.replace(raw, spec=spec, metadata=meta)


@settings(deadline=None)  # a busy machine is no defect
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 2))),
        max_size=30,
    )
)
def test_what_stands_is_as_if_it_were_settled_anew(
    changes: list[tuple[int, int | None]],
) -> None:
    book, stored = Rulebook(lambda _: None), dict[str, taint_rule.Rule]()
    for number, device in changes:
        # The first three by the names that we give, the others copies under any name.
        proper = taint_rule.rule_name(Device(DRIVER, "node-a", f"gpu-{number}"))
        name, at = (proper, number) if number < 3 else (f"copy-{number}", device)
        new = of_device(name, at) if device is not None and at is not None else None
        book.put(name, new)
        stored.pop(name, None)
        if new is not None and (rule := taint_rule.parse(new)) is not None:
            stored[name] = rule

        assert book.standing() == taint_rule.settled(stored.values())[0]
