"""What a rule of ours looks like, and what is never built."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.device import Device
from exporter.report import ObjectMeta
from remediator.objects import taints
from remediator.objects.taints import IncompleteSelectorError, RawRule, Rule


def rule(device: Device, **fields: object) -> Rule:
    values: dict[str, object] = {
        "device": device,
        "effect": "NoSchedule",
        "fault": "gpu",
        "cause": "xid-95",
        "incident": "gpu-1-1",
        "uuid": "GPU-1",
        "gpu": "GPU-1",
        "node": "node-a",
    }
    return Rule(**(values | fields))  # pyright: ignore[reportArgumentType] - fields by name


@given(st.tuples(*[st.sampled_from(["", " ", "x"])] * 3).filter(lambda parts: set(parts) != {"x"}))
def test_a_rule_without_a_full_selector_cannot_be_built(parts: tuple[str, str, str]) -> None:
    with pytest.raises(IncompleteSelectorError, match="give driver, pool and device"):
        rule(Device(*parts))


def test_a_rule_with_a_cause_that_is_no_label_value_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="no label value"):
        rule(Device("d", "p", "g"), cause="no, spaces")


def test_what_is_written_is_read_back_as_the_same_rule() -> None:
    wanted = rule(Device("gpu.nvidia.com", "node-a", "gpu-3"), effect="NoExecute")
    stored = msgspec.json.encode(taints.manifest(wanted, "v1"))

    read = taints.parse(msgspec.json.decode(stored, type=RawRule))

    assert wanted == read


def test_the_manifest_names_driver_pool_and_device_and_has_no_owner() -> None:
    body = msgspec.to_builtins(
        taints.manifest(rule(Device("gpu.nvidia.com", "node-a", "gpu-3")), "v1")
    )

    assert body["spec"]["deviceSelector"] == {
        "driver": "gpu.nvidia.com",
        "pool": "node-a",
        "device": "gpu-3",
    }
    assert "ownerReferences" not in body["metadata"]


def test_one_device_always_has_one_name_and_two_devices_have_two() -> None:
    one, other = Device("d", "p", "gpu-1"), Device("d", "p-gpu", "1")

    assert taints.rule_name(one) == taints.rule_name(Device("d", "p", "gpu-1"))
    assert taints.rule_name(one) != taints.rule_name(other)


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": ObjectMeta(name="somebody-else")},
        {"spec": taints.RawRuleSpec(taints.RawTaint("gpu.nvidia.com/xid", "NoSchedule"))},
    ],
)
def test_other_peoples_rules_are_not_ours(change: dict[str, object]) -> None:
    mine = msgspec.convert(taints.manifest(rule(Device("d", "p", "g")), "v1"), type=RawRule)

    assert taints.parse(mine) is not None
    assert taints.parse(msgspec.structs.replace(mine, **change)) is None
