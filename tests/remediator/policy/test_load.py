"""What a policy file may say, and the error for each mistake: its line, its place, a remedy."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from remediator.diagnose.fault import SEVERITY
from remediator.policy.duration import duration
from remediator.policy.error import PolicyError
from remediator.policy.limits import Cap, Limits
from remediator.policy.load import read
from remediator.policy.place import Area, Match
from remediator.policy.table import AT_ONCE, Evict, Policy, Repeat
from remediator.policy.windows import Once
from remediator.policy.yaml_document import LARGEST, compose
from tests.remediator.builders import with_fields
from tests.remediator.policy.budgets import limits_of
from tests.remediator.policy.policy_examples import EXAMPLE


@pytest.mark.parametrize(
    ("stated", "field", "value"),
    [
        ("mode: off", "mode", "off"),
        ("mode: dry-run", "mode", "dry-run"),
        ("ceiling: observe", "ceiling", "observe"),
        ("ceiling: None", "ceiling", "None"),
        ("settle: 500ms", "settle", timedelta(milliseconds=500)),
        ("soak: 1.5h", "soak", timedelta(minutes=90)),
        ("patient: true", "patient", True),
        ("sticky: true", "sticky", True),
        ("repeat: {count: 5, within: 10d}", "repeat", Repeat(5, timedelta(days=10))),
        ("repeat: {count: 1}", "repeat", Repeat(1, timedelta(days=30))),
        ("probation: 2d", "probation", timedelta(days=2)),
        ("evict: {within: 5m}", "evict", Evict(within=timedelta(minutes=5))),
        ("evict: {then: wait}", "evict", Evict(then="wait")),
        ("evict: {within: 0s}", "evict", AT_ONCE),
        ("evict: {extendedResources: delete}", "evict", Evict(extended_resources="delete")),
    ],
)
def test_each_key_of_a_class_changes_its_own_field_and_nothing_else(
    stated: str, field: str, value: object
) -> None:
    policy = read(f"classes: {{gpu: {{{stated}}}}}")

    expected = with_fields(Policy().row("gpu"), **{field: value, "name": "classes.gpu"})
    assert policy.row("gpu") == expected
    assert policy.row("lost") == Policy().row("lost")


@pytest.mark.parametrize("key", ["mode: dry-run", "settle: 1s", "soak: 1h", "probation: 1h"])
def test_each_key_of_the_defaults_holds_for_every_class(key: str) -> None:
    name, _, text = key.partition(": ")
    policy = read(f"defaults: {{{key}}}")

    value = text if name == "mode" else duration(text)
    assert {getattr(policy.row(fault), name) for fault in SEVERITY} == {value}
    assert policy.row("gpu").name == "defaults"


def test_the_example_of_the_documents_says_what_it_says() -> None:
    policy = read(EXAMPLE)

    assert policy.row("contained").mode == "enforce"
    assert policy.row("gpu").ceiling == "NoSchedule"
    assert policy.row("gpu").repeat == Repeat(2, timedelta(days=14))
    assert policy.overrides[0].match == Match(nodes=("rack7-*", "canary-1"))
    assert policy.overrides[1].match.device_classes == ("interactive.example.com",)
    swap, patch = policy.maintenance
    assert swap.when == Once(
        datetime(2026, 3, 2, 18, tzinfo=UTC), datetime(2026, 3, 6, 6, tzinfo=UTC)
    )
    assert (swap.area, patch.name) == (Area(nodes=("rack7-*",)), "sunday-patching")
    assert policy.exempt[0].why == "burn-in after a board swap"
    assert policy.limits == limits_of({"evict": {"node": 1, "cluster": 8}})
    assert policy.stopped == ""


@pytest.mark.parametrize(
    ("text", "stopped"),
    [
        ("emergency_stop: true", "the policy file"),
        ("emergency_stop: false", ""),
        ("emergency_stop: {by: ann, why: fire}", "ann, in the policy file: fire"),
    ],
)
def test_the_emergency_stop_says_who_and_why(text: str, stopped: str) -> None:
    assert read(text).stopped == stopped


def test_bombs_and_giants_are_refused_without_being_unfolded() -> None:
    laughs = "a: &a [lol]\n" + "".join(f"{x}: &{x} [*a, *a]\n" for x in "bcdefgh")
    for text in (laughs, "[" * 100_000, "x" * (LARGEST + 1), "- " * 50 + "a"):
        with pytest.raises(PolicyError):
            read(text)


def test_a_file_for_an_older_version_means_the_same_as_ever() -> None:
    """The keys of the first release, none of which may ever change its meaning."""
    policy = read(
        """
        defaults: {mode: incident-only, settle: 3s, soak: 10m}
        classes:
          contained: {mode: enforce}
          gpu: {mode: enforce, ceiling: NoSchedule}
        budget: {evict_gpus_per_node: 2, evict_gpus_per_cluster: 16, taint_gpus_per_cluster: 128}
        """
    )

    assert policy.row("gpu").mode == "enforce"
    assert policy.row("gpu").ceiling == "NoSchedule"
    assert policy.row("lost").mode == "incident-only"
    assert policy.limits.evict == msgspec.structs.replace(Limits().evict, cluster=Cap(16))
    assert policy.limits.taint == msgspec.structs.replace(Limits().taint, cluster=Cap(128))
    assert (policy.overrides, policy.exempt, policy.stopped) == ((), (), "")


@pytest.mark.parametrize(
    "newer",
    [
        "reset: {after: 10m}",
        "classes: {gpu: {mode: enforce, reset: true}}",
        "classes: {vgpu: {mode: enforce}}",
        "overrides: [{match: {node: a, cluster: b}, defaults: {mode: enforce}}]",
    ],
)
def test_a_file_for_a_newer_version_is_refused_whole(newer: str) -> None:
    with pytest.raises(PolicyError, match="a file with keys of a newer one"):
        read(newer)


def test_words_are_words_as_in_yaml_1_2() -> None:
    value = compose("[off, no, 22:30, 2026-01-05, 0o17, 0x1F, 1e3, ~, None, True]").value

    assert value == ["off", "no", "22:30", "2026-01-05", 15, 31, 1000.0, None, "None", True]


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm() -> None:
    text = "\N{ZERO WIDTH NO-BREAK SPACE}defaults:\r\n  mode: enforce\r\n".encode()

    assert read(text).row("gpu").mode == "enforce"
