"""Every DeviceTaintRule: which are ours, which concern a node, which are left over."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model.device import Device
from exporter.model.resource_slices import ResourceSlice
from kubeapi.types import ObjectMeta
from remediator.controller.cache import Cache
from remediator.controller.rule_index import RuleIndex
from remediator.model import taint_rule
from remediator.model.taint_rule import RawRule, RawRuleSpec, RawTaint, Selector
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import ChangeRule, CreateRule, DeleteEdited
from tests.remediator.builders import DRIVER, RESET, at, gpu, policy, report, uuid, with_fields
from tests.remediator.controller.test_cache import Marks, believed, health, raw_rule, slice_of


@pytest.fixture
def marks() -> Marks:
    return Marks()


@pytest.fixture
def cache(marks: Marks) -> Cache:
    one = Cache(marks)
    one.put_slice("s1", None, slice_of("node-a", 0))
    one.put_slice("s2", None, slice_of("node-b", 0))
    marks.clear()
    return one


def put(cache: Cache, raw: RawRule) -> None:
    cache.put_rule(raw.metadata.name, raw)


def changed(raw: RawRule, **meta: Any) -> RawRule:
    return msgspec.structs.replace(raw, metadata=with_fields(raw.metadata, **meta))


def in_pool(pool: str, node: str) -> ResourceSlice:
    """A slice of a node, of a driver that does not name its pools after nodes."""
    made = slice_of(node, 0)
    named = msgspec.structs.replace(made.spec.pool, name=pool)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, pool=named))


def unmarked(pool: str) -> RawRule:
    """A rule of ours from which a person took labels and annotations."""
    raw = raw_rule()
    selector = Selector(DRIVER, pool, "gpu-0")
    spec = msgspec.structs.replace(raw.spec, device_selector=selector)
    name = taint_rule.rule_name(Device(DRIVER, pool, "gpu-0"))
    unnamed = changed(raw, name=name, labels={}, annotations={})
    return msgspec.structs.replace(unnamed, spec=spec)


def pointed_at(device: str) -> RawRule:
    """A rule for gpu-0 whose selector a person has changed."""
    raw = raw_rule(effect="NoExecute")
    selector = Selector(DRIVER, "node-a", device)
    return with_fields(raw, spec=with_fields(raw.spec, device_selector=selector))


def theirs(name: str, selector: Selector | None) -> RawRule:
    return RawRule(
        ObjectMeta(name=name), RawRuleSpec(RawTaint("example.com/bad", "NoSchedule"), selector)
    )


class TestOtherPeople:
    def test_their_rules_are_shown_to_the_nodes_whose_devices_they_may_select(
        self, cache: Cache
    ) -> None:
        put(cache, theirs("one-device", Selector(DRIVER, "node-a", "gpu-0")))
        put(cache, theirs("one-pool", Selector(DRIVER, "node-b")))
        put(cache, theirs("a-driver", Selector(DRIVER)))
        put(cache, theirs("a-name", Selector(device="gpu-0")))
        put(cache, theirs("all", Selector()))
        put(cache, theirs("none-said", None))
        put(cache, theirs("other-driver", Selector("nic.example.com", "node-a")))
        put(cache, theirs("other-device", Selector(DRIVER, "node-a", "gpu-7")))
        everywhere = ["a-driver", "a-name", "all", "none-said"]

        def shown(node: str) -> list[str]:
            return [rule.name for rule in cache.view(node, believed).stored.foreign]

        assert shown("node-a") == sorted([*everywhere, "one-device"])
        assert shown("node-b") == sorted([*everywhere, "one-pool"])
        assert cache.rules() == ()

    def test_a_rule_that_is_deleted_is_shown_no_more(self, cache: Cache) -> None:
        put(cache, theirs("all", Selector()))

        cache.put_rule("all", None)

        assert cache.view("node-a", believed).stored.foreign == ()

    def test_our_taint_on_a_wide_selector_is_not_ours_and_is_shown(self, cache: Cache) -> None:
        raw = raw_rule()
        spec = msgspec.structs.replace(raw.spec, device_selector=Selector(DRIVER))
        put(cache, msgspec.structs.replace(raw, spec=spec))

        assert cache.rules() == ()
        (shown,) = cache.view("node-b", believed).stored.foreign
        assert shown.key == "draguard.dev/gpu"


class TestAPersonsHand:
    def test_a_rule_without_its_labels_is_still_ours(self, cache: Cache, marks: Marks) -> None:
        put(cache, raw_rule())
        marks.clear()

        put(cache, changed(raw_rule(version="6"), labels={}))

        assert marks.taken() == {"node-a"}
        (rule,) = cache.view("node-a", believed).stored.rules
        assert (rule.gpu, rule.stripped) == (uuid(0), True)
        assert cache.view("node-a", believed).stored.foreign == ()

    @pytest.mark.parametrize("other", ["gpu-1", "gpu-9", ""], ids=["published", "not", "all"])
    def test_a_rule_whose_selector_was_edited_is_deleted_and_its_own_device_tainted(
        self, cache: Cache, other: str
    ) -> None:
        """Both have one name: the sick GPU could not be tainted while the edited rule was there."""
        edited = pointed_at(other)
        put(cache, edited)
        cache.put_report("node-a", health("node-a", report(gpu(0, recovery_action=RESET), gpu(1))))

        steps = decide_node(cache.view("node-a", believed), cache.fleet(), policy(), at(2)).steps

        first, *later = steps
        assert isinstance(first, DeleteEdited)
        assert first.stored.name == edited.metadata.name
        (made,) = (step.rule for step in later if isinstance(step, CreateRule))
        assert (made.device.device, made.name) == ("gpu-0", edited.metadata.name)

    def test_a_rule_whose_key_was_edited_is_deleted_and_made_again(self, cache: Cache) -> None:
        raw = raw_rule()
        taint = with_fields(raw.spec.taint, key="example.com/mine")
        put(cache, with_fields(raw, spec=with_fields(raw.spec, taint=taint)))
        cache.put_report("node-a", health("node-a", report(gpu(0, recovery_action=RESET))))

        steps = decide_node(cache.view("node-a", believed), cache.fleet(), policy(), at(2)).steps

        assert isinstance(steps[0], DeleteEdited)
        (made,) = (step.rule for step in steps if isinstance(step, CreateRule))
        assert (made.device.device, made.name) == ("gpu-0", raw.metadata.name)

    def test_an_edited_rule_is_never_made_into_that_of_the_device_that_it_selects(
        self, cache: Cache
    ) -> None:
        """The other GPU fails, too: the name belongs to the first one's device."""
        put(cache, pointed_at("gpu-1"))
        both = report(gpu(0, recovery_action=RESET), gpu(1, recovery_action=RESET))
        cache.put_slice("s1", slice_of("node-a", 0), slice_of("node-a", 0, 1))
        cache.put_report("node-a", health("node-a", both))

        steps = decide_node(cache.view("node-a", believed), cache.fleet(), policy(), at(2)).steps

        assert isinstance(steps[0], DeleteEdited)
        assert not [step for step in steps if isinstance(step, ChangeRule)]
        made = {step.rule.device.device for step in steps if isinstance(step, CreateRule)}
        assert made == {"gpu-0", "gpu-1"}

    def test_an_edited_rule_goes_also_once_the_gpu_is_healthy(self, cache: Cache) -> None:
        put(cache, pointed_at("gpu-9"))
        cache.put_report("node-a", health("node-a", report(gpu(0))))

        steps = decide_node(cache.view("node-a", believed), cache.fleet(), policy(), at(2)).steps

        assert [type(step) for step in steps] == [DeleteEdited]

    def test_an_edited_rule_goes_also_while_nothing_is_decided_about_its_gpu(
        self, cache: Cache
    ) -> None:
        put(cache, pointed_at("gpu-9"))
        cache.put_report("node-a", health("node-a", report(gpu(0))))
        seen = cache.view("node-a", believed)
        seen = with_fields(seen, unread=frozenset({f"{uuid(0).lower()}-1"}))

        steps = decide_node(seen, cache.fleet(), policy(), at(2)).steps

        assert [type(step) for step in steps] == [DeleteEdited]

    def test_a_node_of_which_only_an_edited_rule_is_left_is_looked_at(
        self, cache: Cache, marks: Marks
    ) -> None:
        put(cache, pointed_at("gpu-9"))
        assert marks.taken() == {"node-a"}

        assert "node-a" in cache.choose_nodes()
        cache.put_rule(pointed_at("gpu-9").metadata.name, None)

        assert marks.taken() == {"node-a"}

    def test_a_rule_whose_cause_was_emptied_is_still_ours_and_gets_its_words_back(
        self, cache: Cache
    ) -> None:
        raw = raw_rule(version="6")
        taint = msgspec.structs.replace(raw.spec.taint, value="")
        spec = msgspec.structs.replace(raw.spec, taint=taint)
        put(cache, msgspec.structs.replace(raw, spec=spec))

        seen = cache.view("node-a", believed)
        assert seen.stored.foreign == ()
        assert [rule.gpu for rule in seen.stored.rules] == [uuid(0)]

        cache.put_report("node-a", health("node-a", report(gpu(0, recovery_action=RESET))))
        steps = decide_node(cache.view("node-a", believed), cache.fleet(), policy(), at(2)).steps
        changes = [step.rule for step in steps if isinstance(step, ChangeRule)]
        assert [(rule.cause, rule.gpu) for rule in changes] == [("recovery-action-1", uuid(0))]

    def test_a_rule_without_any_mark_is_for_what_stands_under_its_name(self, cache: Cache) -> None:
        put(cache, changed(raw_rule(), labels={}, annotations={}))

        (rule,) = cache.view("node-a", believed).stored.rules
        assert (rule.gpu, rule.node, rule.stripped) == (uuid(0), "node-a", True)

    def test_a_rule_without_any_mark_waits_until_its_device_is_published(
        self, marks: Marks
    ) -> None:
        cache = Cache(marks)
        put(cache, changed(raw_rule(), labels={}, annotations={}))
        assert cache.rules() == ()

        cache.put_slice("s1", None, slice_of("node-a", 0))

        assert marks.taken() == {"node-a"}
        assert [rule.gpu for rule in cache.rules()] == [uuid(0)]

    def test_a_rule_without_any_mark_is_for_what_the_one_publisher_of_its_pool_has(
        self, cache: Cache
    ) -> None:
        cache.put_slice("s3", None, in_pool("pool-7", "node-a"))

        put(cache, unmarked("pool-7"))

        (rule,) = cache.view("node-a", believed).stored.rules
        assert (rule.device.pool, rule.gpu, rule.node) == ("pool-7", uuid(0), "node-a")

    def test_a_rule_without_any_mark_is_for_nothing_in_a_pool_of_two_publishers(
        self, cache: Cache
    ) -> None:
        cache.put_slice("s3", None, in_pool("pool-7", "node-a"))
        cache.put_slice("s4", None, in_pool("pool-7", "node-b"))

        put(cache, unmarked("pool-7"))

        assert cache.rules() == ()

    def test_a_copy_of_a_rule_is_left_over(self, cache: Cache) -> None:
        put(cache, raw_rule())
        put(cache, changed(raw_rule(), name="a-copy", uid="u2"))

        seen = cache.view("node-a", believed)

        name = taint_rule.rule_name(Device(DRIVER, "node-a", "gpu-0"))
        assert [rule.name for rule in seen.stored.rules] == [name]
        assert [rule.name for rule in seen.stored.leftovers] == ["a-copy"]
        assert len(cache.rules()) == 1
        assert len(cache.fleet().rules) == 1

    def test_a_copy_alone_is_the_rule_until_the_proper_one_is_there(self, cache: Cache) -> None:
        put(cache, changed(raw_rule(), name="a-copy", uid="u2"))
        assert [rule.name for rule in cache.view("node-a", believed).stored.rules] == ["a-copy"]

        put(cache, raw_rule())

        assert [rule.name for rule in cache.view("node-a", believed).stored.leftovers] == ["a-copy"]


def test_a_rule_of_a_board_that_moved_is_seen_by_both_nodes(cache: Cache) -> None:
    put(cache, raw_rule("node-a"))

    cache.put_report("node-b", health("node-b", report(gpu(0))))

    for node in ("node-a", "node-b"):
        assert [rule.gpu for rule in cache.view(node, believed).stored.rules] == [uuid(0)]


def test_a_rule_of_a_node_that_is_gone_keeps_the_node_in_mind(marks: Marks) -> None:
    cache = Cache(marks)

    put(cache, raw_rule("node-z"))

    assert cache.nodes() == {"node-z"}
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
    book, stored = RuleIndex(lambda _: None), dict[str, taint_rule.Rule]()
    for number, device in changes:
        # The first three by the names that we give, the others copies under any name.
        proper = taint_rule.rule_name(Device(DRIVER, "node-a", f"gpu-{number}"))
        name, at = (proper, number) if number < 3 else (f"copy-{number}", device)
        new = of_device(name, at) if device is not None and at is not None else None
        book.put(name, new)
        stored.pop(name, None)
        if new is not None and (rule := taint_rule.parse(new)) is not None:
            stored[name] = rule

        assert book.standing_rules() == taint_rule.split_duplicates(stored.values())[0]
