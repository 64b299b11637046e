"""Of all that keeps devices away, what is said first: what no waiting cures, or what most have."""

from typing import Any

import pytest

from allocation.layers.allocation import decisive, lines, message
from allocation.reasons import Why
from allocation.summary import Group, RequestSummary, Summary, Verdict
from exporter.model.device import Device
from tests.allocation.builders import DRIVER


def group(why: Why, number: int, what: str = "", *by: str, **more: Any) -> Group:
    devices = tuple(Device(DRIVER, "node-a", f"{why}-{n}") for n in range(number))
    return Group(why, what, number, devices, by, **more)


def request(
    *groups: Group, count: int = 1, free: int = 0, alternative: str = "", name: str = "r"
) -> RequestSummary:
    return RequestSummary(
        claim="team/mine",
        request=name,
        alternative=alternative,
        resource="",
        device_class="gpu",
        count=count,
        free=free,
        most_on_a_node=free,
        lacks=max(max(count, 1) - free, 0),
        whole=False,
        groups=groups,
    )


def summary(*requests: RequestSummary, verdict: Verdict = "TooFew", why: str = "") -> Summary:
    return Summary(verdict, why, {}, requests, "")


def reason_of(given: Summary) -> str:
    return decisive(given)[0]


def test_most_devices_decide() -> None:
    """Four tainted GPUs that are empty are not why twenty-one claims wait for sixty that work."""
    given = summary(request(group("Tainted", 4, "x"), group("Allocated", 60)))

    assert reason_of(given) == "Allocated"
    assert reason_of(summary(request(group("Tainted", 4), group("Allocated", 3)))) == "Tainted"


def test_devices_that_do_not_match_are_the_reason_only_where_those_that_do_are_too_few() -> None:
    misses = group("RequestSelector", 90, "x")

    assert reason_of(summary(request(misses, group("Allocated", 8), count=8))) == "Allocated"
    assert reason_of(summary(request(misses, group("Allocated", 7), count=8))) == (
        "RequestSelector"
    )


def test_a_device_that_is_too_small_does_not_grow() -> None:
    small, full = group("Capacity", 8, "memory"), group("Capacity", 1, "memory", "team/other")

    assert reason_of(summary(request(small, group("Allocated", 1), count=2))) == "Capacity"
    assert reason_of(summary(request(small, full))) == "Capacity"
    assert reason_of(summary(request(small, group("Allocated", 1)))) == "Allocated"


def test_an_alternative_that_could_be_had_clears_its_request() -> None:
    first = request(group("Allocated", 1), alternative="large")
    second = request(free=1, alternative="small")
    other = request(group("Tainted", 2), name="other")

    assert reason_of(summary(first, second, other)) == "Tainted"


@pytest.mark.parametrize("verdict", ["ClassMissing", "NoDevices", "NotEvaluated", "TooFewTogether"])
def test_a_verdict_without_lacking_devices_is_the_reason(verdict: Verdict) -> None:
    assert reason_of(summary(request(free=2), verdict=verdict)) == verdict


def test_a_selector_that_fails_is_no_error_of_the_scheduler() -> None:
    fails = group("SelectorFails", 2, "device.x", "no such key")

    assert reason_of(summary(request(fails), verdict="SelectorFails", why="x")) == "SelectorFails"
    assert reason_of(summary(request(fails), verdict="Fails", why="x")) == "Fails"


def test_the_sentence_has_the_number_and_the_largest_group() -> None:
    given = summary(
        request(group("Allocated", 61, "", *(f"team/{n}" for n in "abcde")), group("Tainted", 12))
    )

    assert message(given, *decisive(given)) == (
        "request r needs 1: of 73 devices of class gpu, 0 can be had, "
        "61 allocated (team/a, team/b, team/c, 2 more)"
    )


def test_fewer_devices_than_are_requested_are_no_shortage_of_several_requests() -> None:
    given = summary(request(count=3, free=2))

    assert message(given, *decisive(given)) == (
        "request r needs 3: of 2 devices of class gpu, 2 can be had"
    )


def test_all_of_a_node_is_no_number() -> None:
    given = summary(request(group("Tainted", 1), count=0, free=7), verdict="TooFewTogether")

    assert message(given, *decisive(given)) == (
        "request r needs all of a node: of 8 devices of class gpu, 7 can be had, 1 tainted with "
    )


def test_a_selector_shows_what_the_devices_have_instead() -> None:
    seen = (("productName", "A100", 61), ("productName", "", 3))
    shown = summary(request(group("RequestSelector", 64, "x == 'H100'", seen=seen)))
    nothing = summary(request(group("RequestSelector", 2, "y", has=("type", "uuid"))))

    assert list(lines(shown))[1] == (
        "  64 do not match x == 'H100'; they have productName A100 (61), productName absent (3)"
    )
    assert list(lines(nothing))[1] == (
        "  2 do not match y; they have none of what it reads, but type, uuid"
    )
