"""What a request consumes of a device that claims share, and what is refused."""

from fractions import Fraction
from typing import Any

import pytest

from allocation.capacity import NANO, CapacityError, consumption_of, too_little
from tests.allocation.builders import published

GI = 2**30
STEPS = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "512Mi", "max": "4Gi"}}
VALUES = {"default": "2Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}
PARTS = {"default": "500m", "validRange": {"min": "100m", "step": "300m"}}


def consumed(requested: str | None, policy: dict[str, Any] | None = None) -> Fraction:
    capacity = {"value": "10Gi"} | ({"requestPolicy": policy} if policy else {})
    one = published(capacity={"memory": capacity})
    taken = consumption_of({} if requested is None else {"memory": requested}, one)["memory"]
    return Fraction(taken, NANO)


@pytest.mark.parametrize(
    ("requested", "policy", "taken"),
    [
        (None, None, 10 * GI),
        ("3Gi", None, 3 * GI),
        (None, STEPS, GI),
        ("1", STEPS, GI),
        ("1Gi", STEPS, GI),
        ("1025Mi", STEPS, GI * 3 // 2),
        (None, VALUES, 2 * GI),
        ("3Gi", VALUES, 4 * GI),
        ("5Gi", VALUES, 5 * GI),
        (None, PARTS, Fraction(1, 2)),
        ("1", PARTS, 1),
        ("1001m", PARTS, Fraction(13, 10)),
    ],
)
def test_a_request_is_rounded_up_as_the_policy_of_the_device_says(
    requested: str | None, policy: dict[str, Any] | None, taken: Fraction
) -> None:
    assert consumed(requested, policy) == taken


@pytest.mark.parametrize(
    ("requested", "policy"),
    [("-1", None), ("1n", PARTS | {"validRange": {"min": "0", "step": "1m"}}), ("9Ei", STEPS)],
)
def test_what_cannot_be_counted_ends_the_attempt_on_the_node(
    requested: str, policy: dict[str, Any] | None
) -> None:
    with pytest.raises(CapacityError):
        consumed(requested, policy)


@pytest.mark.parametrize(
    ("requested", "policy", "taken", "left"),
    [
        ({"memory": "4Gi"}, None, 6, []),
        ({"memory": "4Gi"}, None, 7, [("memory", 3 * GI)]),
        ({}, None, 1, [("memory", 9 * GI)]),
        ({"memory": "5Gi"}, STEPS, 0, [("memory", None)]),
        ({"memory": "5Gi"}, VALUES, 0, [("memory", None)]),
        ({"lanes": "1"}, None, 0, [("lanes", None)]),
    ],
)
def test_a_device_serves_what_it_has_left_and_its_policy_allows(
    requested: dict[str, str],
    policy: dict[str, Any] | None,
    taken: int,
    left: list[tuple[str, int | None]],
) -> None:
    one = published(capacity={"memory": {"value": "10Gi", "requestPolicy": policy}})

    lacking = too_little(requested, one, {"memory": taken * GI * NANO})

    found = [(each.name, each.left and each.left // NANO) for each in lacking]
    assert found == left
