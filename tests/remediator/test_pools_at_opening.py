"""Pools count as of an incident's opening: a driver that publishes later chooses no policy."""

from collections.abc import Collection
from datetime import timedelta

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.resource_slices import SliceDevice
from remediator.plan.view import NodeView
from remediator.policy.place import Match
from remediator.policy.table import SHIPPED, Change, Override, Policy
from tests.remediator.builders import NODE, Stored, dead, published, view
from tests.remediator.playing import settle

ENFORCED = msgspec.convert({"mode": "enforce"}, Change)
ROWS = Policy(
    rows=tuple(
        msgspec.structs.replace(row, mode="incident-only", settle=timedelta(seconds=3))
        for row in SHIPPED
    ),
    overrides=(
        Override(
            name="overrides[0]",
            match=Match(pools=(NODE, "lab")),
            changes={row.fault_class: ENFORCED for row in SHIPPED},
        ),
    ),
)
"""Only what is published in a pool of its node is tainted, as the documents recommend."""


def of_driver(driver: str, pool: str) -> SliceDevice:
    (ours,) = published(dead())
    return msgspec.structs.replace(ours, device=Device(driver, pool, "gpu-0"))


NVIDIAS, ANOTHERS = of_driver("gpu.nvidia.com", NODE), of_driver("gpu.example.com", "rack")
LAB = of_driver("gpu.example.com", "lab")


def seen(*devices: SliceDevice) -> NodeView:
    one = view(dead())
    return msgspec.structs.replace(
        one, slices=msgspec.structs.replace(one.slices, inventory=devices)
    )


def tainted(stored: Stored) -> dict[str, str]:
    return {rule.device.driver: rule.effect for rule in stored.rules.values()}


@pytest.mark.parametrize("first", [NVIDIAS, LAB], ids=["another driver", "the same driver"])
def test_who_publishes_a_sick_gpu_in_a_second_pool_removes_none_of_its_taints(
    first: SliceDevice,
) -> None:
    stored = Stored()
    for second in (1, 5):
        settle(stored, seen(first), second, ROWS)
    before = stored.effects()

    for second in (100, 200, 300):
        settle(stored, seen(first, ANOTHERS), second, ROWS)

    assert set(before.values()) == {"NoExecute"}
    assert {rule.effect for rule in stored.rules.values() if rule.device == first.device} == {
        "NoExecute"
    }


@pytest.mark.parametrize("meanwhile", [(), (ANOTHERS,)])
def test_nor_while_nvidias_driver_starts_anew(meanwhile: Collection[SliceDevice]) -> None:
    stored = Stored()
    for second in (1, 5):
        settle(stored, seen(NVIDIAS), second, ROWS)

    settle(stored, seen(*meanwhile), 100, ROWS)
    assert tainted(stored)["gpu.nvidia.com"] == "NoExecute"
    settle(stored, seen(NVIDIAS, ANOTHERS), 200, ROWS)
    assert tainted(stored)["gpu.nvidia.com"] == "NoExecute"


def test_a_driver_that_publishes_in_another_pool_moves_the_gpu_there() -> None:
    stored = Stored()
    settle(stored, seen(LAB), 1, ROWS)
    assert tainted(stored) == {"gpu.example.com": "NoSchedule"}

    settle(stored, seen(ANOTHERS), 100, ROWS)

    assert tainted(stored) == {}


@pytest.mark.parametrize("then", [(ANOTHERS,), (NVIDIAS, ANOTHERS)])
def test_a_gpu_that_was_published_by_both_is_under_the_milder_policy(
    then: Collection[SliceDevice],
) -> None:
    stored = Stored()
    for second in (1, 5):
        settle(stored, seen(NVIDIAS, ANOTHERS), second, ROWS)

    settle(stored, seen(*then), 100, ROWS)

    assert tainted(stored) == {}
