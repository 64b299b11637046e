"""What a rule of ours looks like, and what is never built."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.device import Device
from exporter.model.resource_slices import SliceDevice
from kubeapi.types import ObjectMeta
from remediator.model import taint_rule
from remediator.model.incident import incident_name
from remediator.model.taint_rule import IncompleteSelectorError, RawRule
from tests.remediator.builders import rule, uuid, with_fields


@given(st.tuples(*[st.sampled_from(["", " ", "x"])] * 3).filter(lambda parts: set(parts) != {"x"}))
def test_a_rule_without_a_full_selector_cannot_be_built(parts: tuple[str, str, str]) -> None:
    with pytest.raises(IncompleteSelectorError, match="give driver, pool and device"):
        rule(device=Device(*parts))


def test_a_rule_with_a_cause_that_is_no_label_value_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="not a label value"):
        rule(device=Device("d", "p", "g"), cause="no, spaces")


def test_what_is_written_is_read_back_as_the_same_rule() -> None:
    desired = rule(3, "NoExecute")
    stored = msgspec.json.encode(taint_rule.manifest(desired, "v1"))

    read = taint_rule.parse(msgspec.json.decode(stored, type=RawRule))

    assert desired == read


def test_evict_is_stored_as_noschedule_with_a_mark() -> None:
    one = rule(device=Device("d", "p", "x"), effect="Evict")
    body = taint_rule.manifest(one, "v1")

    raw = msgspec.convert(body, RawRule)
    assert raw.spec.taint.effect == "NoSchedule"
    assert raw.metadata.annotations[taint_rule.EVICT] == "true"
    assert taint_rule.parse(raw) == one


@pytest.mark.parametrize(
    ("effect", "mark", "read"),
    [
        ("NoSchedule", "true", "Evict"),
        ("NoSchedule", "yes", "NoSchedule"),
        ("NoExecute", "true", "NoExecute"),
        ("None", "true", "None"),
        ("Evict", "true", "None"),
    ],
)
def test_the_mark_means_something_beside_noschedule_only(effect: str, mark: str, read: str) -> None:
    body: Any = taint_rule.manifest(rule(device=Device("d", "p", "x")), "v1")
    body["spec"]["taint"]["effect"] = effect
    body["metadata"]["annotations"][taint_rule.EVICT] = mark

    found = taint_rule.parse(msgspec.convert(body, RawRule))

    assert found is not None
    assert found.effect == read


def test_the_manifest_names_driver_pool_and_device_and_has_no_owner() -> None:
    body = msgspec.to_builtins(taint_rule.manifest(rule(3), "v1"))

    assert body["spec"]["deviceSelector"] == {
        "driver": "gpu.nvidia.com",
        "pool": "node-a",
        "device": "gpu-3",
    }
    assert "ownerReferences" not in body["metadata"]


def test_one_device_always_has_one_name_and_two_devices_have_two() -> None:
    one, other = Device("d", "p", "gpu-1"), Device("d", "p-gpu", "1")

    assert taint_rule.rule_name(one) == taint_rule.rule_name(Device("d", "p", "gpu-1"))
    assert taint_rule.rule_name(one) != taint_rule.rule_name(other)


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": ObjectMeta(name="somebody-else")},
        {"spec": taint_rule.RawRuleSpec(taint_rule.RawTaint("gpu.nvidia.com/xid", "NoSchedule"))},
    ],
)
def test_other_peoples_rules_are_not_ours(change: dict[str, object]) -> None:
    mine = msgspec.convert(
        taint_rule.manifest(rule(device=Device("d", "p", "g")), "v1"), type=RawRule
    )

    assert taint_rule.parse(mine) is not None
    assert taint_rule.parse(with_fields(mine, **change)) is None


class TestMarksThatAPersonTookOff:
    DEVICE = Device("gpu.nvidia.com", "node-a", "gpu-3")
    THERE = SliceDevice(device=DEVICE, kind="gpu", uuid=uuid(3), node="node-a")

    def stored(self, **meta: Any) -> RawRule:
        raw = msgspec.convert(taint_rule.manifest(rule(3), "v1"), RawRule)
        changed = with_fields(raw.metadata, **meta)
        return msgspec.structs.replace(raw, metadata=changed)

    def test_leave_a_whole_rule_whole(self) -> None:
        read = taint_rule.parse(self.stored())

        assert read is not None
        assert not read.stripped

    def test_are_read_from_the_annotations(self) -> None:
        read = taint_rule.parse(self.stored(labels={}))

        assert read == rule(3, stripped=True)

    def test_are_not_missed_in_the_annotations_of_an_earlier_version(self) -> None:
        read = taint_rule.parse(self.stored(annotations={taint_rule.NODE: "node-a"}))

        assert read == rule(3)

    def test_leave_a_rule_that_says_nothing_to_the_device_under_its_name(self) -> None:
        bare = self.stored(labels={}, annotations={})

        assert taint_rule.parse(bare) is None
        assert taint_rule.is_ours(bare)
        read = taint_rule.parse(bare, self.THERE)
        assert read is not None
        assert (read.uuid, read.gpu, read.node, read.stripped) == (uuid(3), uuid(3), "node-a", True)

    def test_leave_a_rule_ours_whose_cause_was_emptied(self) -> None:
        whole = self.stored()
        taint = msgspec.structs.replace(whole.spec.taint, value="")
        spec = msgspec.structs.replace(whole.spec, taint=taint)
        read = taint_rule.parse(msgspec.structs.replace(whole, spec=spec))

        assert read == rule(3, cause="unknown", stripped=True)

    @pytest.mark.parametrize("edited", ["labels", "annotations"])
    def test_are_not_believed_against_the_name_of_the_incident(self, edited: str) -> None:
        whole = self.stored()
        stated = getattr(whole.metadata, edited)
        meant = {taint_rule.INCIDENT: incident_name(uuid(3), 7)}
        meta = {
            "labels": whole.metadata.labels | meant,
            "annotations": whole.metadata.annotations | meant,
            edited: stated | meant | {taint_rule.GPU: "GPU-4"},
        }
        read = taint_rule.parse(self.stored(**meta))

        assert read is not None
        assert (read.gpu, read.stripped) == (uuid(3), edited == "labels")

    def test_are_not_read_where_no_label_could_say_them(self) -> None:
        odd = dict.fromkeys((taint_rule.GPU, taint_rule.UUID, taint_rule.INCIDENT), "no label")
        read = taint_rule.parse(self.stored(labels={}, annotations=odd), self.THERE)

        assert read is not None
        assert (read.gpu, read.uuid, read.incident) == (uuid(3), uuid(3), "unknown")

    def test_do_not_make_a_rule_ours_without_our_taint_or_our_name(self) -> None:
        bare = self.stored(labels={}, annotations={})
        other_key = taint_rule.RawRuleSpec(
            taint_rule.RawTaint("gpu.nvidia.com/xid", "NoSchedule"), bare.spec.device_selector
        )

        assert not taint_rule.is_ours(msgspec.structs.replace(bare, spec=other_key))
        assert not taint_rule.is_ours(self.stored(labels={}, annotations={}, name="by-hand"))

    def test_make_no_rule_ours_that_taints_for_maintenance(self) -> None:
        stored = self.stored()
        by_hand = taint_rule.RawRuleSpec(
            taint_rule.RawTaint(taint_rule.MAINTENANCE, "NoExecute"), stored.spec.device_selector
        )

        assert not taint_rule.is_ours(msgspec.structs.replace(stored, spec=by_hand))
        assert taint_rule.parse(msgspec.structs.replace(stored, spec=by_hand)) is None

    def test_do_not_matter_where_the_selector_is_not_full(self) -> None:
        wide = taint_rule.RawRuleSpec(
            taint_rule.RawTaint("draguard.dev/gpu", "NoExecute"),
            taint_rule.Selector("gpu.nvidia.com"),
        )

        assert not taint_rule.is_ours(msgspec.structs.replace(self.stored(), spec=wide))

    @pytest.mark.parametrize(
        "selector",
        [
            taint_rule.Selector("gpu.nvidia.com", "node-a", "gpu-9"),
            taint_rule.Selector("gpu.nvidia.com", "node-a"),
            taint_rule.Selector(),
            None,
        ],
    )
    def test_know_a_rule_whose_selector_was_changed_and_whose_it_was(
        self, selector: taint_rule.Selector | None
    ) -> None:
        stored = self.stored()
        changed = msgspec.structs.replace(
            stored, spec=msgspec.structs.replace(stored.spec, device_selector=selector)
        )

        found = taint_rule.parse_edited(changed)

        assert found is not None
        assert (found.name, found.node, found.gpu) == (rule(3).name, "node-a", rule(3).gpu)
        assert taint_rule.parse(changed) is None
        assert taint_rule.parse_edited(stored) is None

    @pytest.mark.parametrize("selects", ["gpu-3", "gpu-9"])
    def test_know_a_rule_whose_key_was_changed_unless_a_user_cordons_by_it(
        self, selects: str
    ) -> None:
        stored = self.stored()
        selector = taint_rule.Selector("gpu.nvidia.com", "node-a", selects)

        def with_key(key: str) -> RawRule:
            taint = msgspec.structs.replace(stored.spec.taint, key=key)
            spec = msgspec.structs.replace(stored.spec, taint=taint, device_selector=selector)
            return msgspec.structs.replace(stored, spec=spec)

        found = taint_rule.parse_edited(with_key("example.com/mine"))

        assert found is not None
        assert (found.name, found.node, found.gpu) == (rule(3).name, "node-a", rule(3).gpu)
        assert taint_rule.parse(with_key("example.com/mine")) is None
        assert taint_rule.parse_edited(with_key(taint_rule.MAINTENANCE)) is None

    def test_take_no_rule_for_theirs_that_carries_their_name_form_alone(self) -> None:
        by_hand = self.stored(labels={}, annotations={}, name=rule(4).name)

        assert taint_rule.parse_edited(by_hand) is None


class TestTwoRulesForOneDevice:
    DEVICE = Device("gpu.nvidia.com", "node-a", "gpu-3")

    def test_the_one_by_its_proper_name_stands_and_the_copy_is_left_over(self) -> None:
        proper, copy = rule(3), rule(3, stored_as="a-copy")

        assert taint_rule.split_duplicates([copy, proper]) == ((proper,), (copy,))
        assert (proper.name, copy.name) == (taint_rule.rule_name(self.DEVICE), "a-copy")

    def test_a_copy_alone_is_taken_for_the_rule(self) -> None:
        copy = rule(3, stored_as="a-copy")

        assert taint_rule.split_duplicates([copy]) == ((copy,), ())


@pytest.mark.parametrize(
    ("selector", "narrowed"),
    [
        ({"driver": "gpu.nvidia.com"}, False),
        ({"driver": "gpu.nvidia.com", "selectors": None}, False),
        ({"driver": "gpu.nvidia.com", "selectors": []}, False),
        ({"deviceClassName": "gpu.nvidia.com"}, True),
        ({"selectors": [{"cel": {"expression": "false"}}]}, True),
    ],
)
def test_what_a_class_or_cel_of_a_foreign_rule_selects_is_not_known(
    selector: dict[str, object], narrowed: bool
) -> None:
    spec = {"deviceSelector": selector, "taint": {"key": "a/b", "effect": "NoSchedule"}}
    raw = msgspec.convert({"metadata": {"name": "x"}, "spec": spec}, taint_rule.RawRule)

    assert taint_rule.foreign_rule(raw).narrowed == narrowed


def test_a_foreign_rule_selects_what_it_does_not_exclude() -> None:
    device = Device("gpu.nvidia.com", "node-a", "gpu-3")
    wide = taint_rule.RawRule(
        ObjectMeta(name="x"), taint_rule.RawRuleSpec(taint_rule.RawTaint("a/b", "NoSchedule"))
    )

    assert taint_rule.foreign_rule(wide).selects(device)
    assert taint_rule.ForeignRule("x", "gpu.nvidia.com", "", "gpu-3", "a/b", "None").selects(device)
    assert not taint_rule.ForeignRule("x", "", "node-b", "", "a/b", "None").selects(device)
