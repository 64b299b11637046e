"""Rules that nobody acts on are noticed, and nothing is said where nothing can be known."""

import msgspec
import pytest

from kubeapi.store import Change
from remediator.controller.feature_gates import SILENT_AFTER, Gates, StatedRule, has_status
from remediator.model.taint_rule import Effect, manifest
from tests.remediator.builders import rule
from tests.remediator.clock import Clock


def stored(
    effect: Effect = "NoExecute",
    *conditions: str,
    key: str = "",
    generation: int = 2,
    observed: int | None = 2,
) -> StatedRule:
    body = msgspec.json.decode(msgspec.json.encode(manifest(rule(effect=effect), "v1")))
    body["metadata"]["generation"] = generation
    reported = [{"type": condition, "observedGeneration": observed} for condition in conditions]
    body["status"] = {"conditions": reported}
    body["spec"]["taint"]["key"] = key or body["spec"]["taint"]["key"]
    return msgspec.convert(body, StatedRule)


def received(gates: Gates, new: StatedRule | None) -> None:
    gates.on_rule(Change("rule", None, new))


def test_a_no_execute_without_a_word_for_a_minute_is_named() -> None:
    gates = Gates(clock := Clock())
    received(gates, stored())
    clock.seconds = SILENT_AFTER
    assert gates.ignored_rules() == ()
    received(gates, stored())
    clock.seconds += 1
    assert gates.ignored_rules() == ("rule",)


def test_a_word_about_its_no_schedule_is_none_about_its_no_execute() -> None:
    """The eviction controller says `OtherEffect` of each NoSchedule, and may end right after."""
    gates = Gates(clock := Clock())
    received(gates, stored("NoSchedule", "EvictionInProgress", generation=1, observed=1))
    received(gates, stored("NoExecute", "EvictionInProgress", generation=2, observed=1))
    clock.seconds = SILENT_AFTER + 1
    assert gates.ignored_rules() == ("rule",)


def test_a_rule_that_was_changed_is_waited_for_anew() -> None:
    gates = Gates(clock := Clock())
    received(gates, stored(generation=2))
    clock.seconds = SILENT_AFTER
    received(gates, stored(generation=3))
    clock.seconds += 1
    assert gates.ignored_rules() == ()


@pytest.mark.parametrize(
    "harmless",
    [
        stored("NoExecute", "EvictionInProgress"),
        stored("NoExecute", "EvictionInProgress", observed=None),
        stored("NoSchedule"),
        stored(key="example.com/theirs"),
        None,
    ],
    ids=["observed", "observed without a generation", "moves nobody", "not ours", "gone"],
)
def test_nothing_is_reported_of_a_rule_that(harmless: StatedRule | None) -> None:
    gates = Gates(clock := Clock())
    received(gates, stored())
    received(gates, harmless)
    clock.seconds = 2 * SILENT_AFTER
    assert gates.ignored_rules() == ()


@pytest.mark.parametrize(
    ("version", "minor", "known"),
    [
        ("v1", None, True),
        ("v1beta2", None, True),
        ("v1alpha3", 35, True),
        ("v1alpha3", 34, False),
        ("v1alpha3", None, False),
        (None, 37, False),
    ],
)
def test_rules_have_a_status_since_1_35(
    version: str | None, minor: int | None, known: bool
) -> None:
    assert has_status(version, minor) is known
