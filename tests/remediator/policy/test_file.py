"""The policy file: what it may say, what it is told when it is wrong, and that bad never wins."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from remediator.policy.file import PolicyFile, in_words, read
from remediator.policy.table import SHIPPED, Limits, Policy, PolicyError, Row, without_rules


def test_an_empty_file_is_the_shipped_policy_and_that_is_incident_only() -> None:
    assert read("") == Policy()
    assert {row.mode for row in Policy().rows} == {"incident-only"}


def test_a_class_takes_the_defaults_and_then_its_own_words() -> None:
    policy = read(
        """
        defaults: {mode: enforce, settle: 5s, soak: 1h}
        classes:
          contained: {mode: dry-run, settle: 500ms}
          gpu: {ceiling: NoSchedule}
        budget: {evict_gpus_per_node: 1}
        """
    )

    assert policy.row("contained").mode == "dry-run"
    assert policy.row("contained").settle == timedelta(seconds=0.5)
    assert policy.row("gpu").ceiling == "NoSchedule"
    assert policy.row("lost").soak == timedelta(hours=1)
    assert policy.limits == Limits(evict_gpus_per_node=1)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("classes: {gpu: {mode: enforced}}", r"enforced.*\$\.classes\[\.\.\.\]\.mode"),
        ("classes: {cpu: {mode: enforce}}", r"cpu.*classes"),
        ("clases: {}", "clases"),
        ("classes: {gpu: {ceiling: PreferNoSchedule}}", "PreferNoSchedule"),
        ("defaults: {soak: 10}", r"soak"),
        ("defaults: {soak: ten minutes}", "write 500ms, 3s, 10m or 1h"),
        ("defaults: {soak: 2s, settle: 3s}", "must be longer than settle"),
        ("defaults: {ceiling: NoExecute}", "set per class"),
        ("budget: {evict_gpus_per_node: -1}", "below 0"),
        ("[1, 2]", "object"),
        ("{", "no YAML"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, place: str) -> None:
    with pytest.raises(PolicyError, match=place):
        read(text)


def test_a_file_that_turns_bad_keeps_the_last_good_policy_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("defaults: {mode: enforce}")
    file = PolicyFile(path)
    assert file.load()
    good = file.policy

    path.write_text("defaults: {mode: everything}")
    assert not file.load()
    assert file.policy is good
    assert "everything" in file.error

    path.unlink()
    assert not file.load()
    assert file.policy is good

    path.write_text("defaults: {mode: dry-run}")
    assert file.load()
    assert not file.error
    assert file.policy.row("gpu").mode == "dry-run"


def test_an_unchanged_file_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("defaults: {mode: enforce}")
    file = PolicyFile(path)

    assert [file.load(), file.load()] == [True, False]


def test_without_rules_no_class_does_more_than_incidents() -> None:
    policy = without_rules(read("{defaults: {mode: enforce}, classes: {gpu: {mode: 'off'}}}"))

    assert policy.row("contained").mode == "incident-only"
    assert policy.row("gpu").mode == "off"


def test_a_policy_has_one_row_for_each_class() -> None:
    with pytest.raises(PolicyError, match="one row for each"):
        Policy(rows=SHIPPED[1:])
    twice: tuple[Row, ...] = (*SHIPPED, SHIPPED[0])
    with pytest.raises(PolicyError, match="one row for each"):
        Policy(rows=twice)


def test_the_policy_in_words_names_each_class_and_limit() -> None:
    words = in_words(Policy())

    for name in (*(row.fault_class for row in SHIPPED), *msgspec.structs.asdict(Limits())):
        assert name in words


@pytest.mark.parametrize("text", [None, "defaults: {mode: everything}"])
def test_a_file_that_was_never_good_gives_no_policy_at_all(
    tmp_path: Path, text: str | None
) -> None:
    """The shipped policy instead would take down every rule of a better day."""
    path = tmp_path / "policy.yaml"
    if text is not None:
        path.write_text(text)
    file = PolicyFile(path)

    assert not file.load()
    assert not file.ready

    path.write_text("defaults: {mode: enforce}")
    assert file.load()
    assert file.ready


def test_without_a_file_the_shipped_policy_is_in_force() -> None:
    assert PolicyFile(None).ready


def test_a_time_beyond_reason_is_refused() -> None:
    with pytest.raises(PolicyError, match="longer than 90 days"):
        read("defaults: {soak: 99999999999999h}")
