"""The policy file: what it may say, its errors, and that a bad one is never in force."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from remediator.policy.file import UNSETTLED, PolicyFile, describe_policy, read
from remediator.policy.place import Place
from remediator.policy.table import SHIPPED, Policy, PolicyError, Row
from tests.remediator.policy.budgets import limits_of

OVERRIDE = "match: {node: a}\n  defaults: {mode: enforce}"


def load(file: PolicyFile) -> bool:
    """Look twice, as a text must be found to count; return whether the policy changed."""
    assert not file.load() or not file.error
    return file.load()


def test_braces_alone_are_the_shipped_policy_and_that_is_incident_only() -> None:
    assert read("{}") == Policy()
    assert {row.mode for row in Policy().rows} == {"incident-only"}


@pytest.mark.parametrize("text", ["", "\n", "null", "~", "---\n", "# nothing\n", "---\n# x\n..."])
def test_a_file_that_says_nothing_is_no_policy(text: str) -> None:
    with pytest.raises(PolicyError, match=r"write {}"):
        read(text)


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("defaults:", 1, "defaults"),
        ("classes: ~", 1, "classes"),
        ("budget: {evict: null}", 1, "budget.evict"),
        ("defaults: {mode: enforce}\nclasses:\n  gpu:\n    mode:\n", 4, "classes.gpu.mode"),
        (f"overrides:\n- {OVERRIDE}\n  classes:\n", 4, "overrides[0].classes"),
        ("emergency_stop:", 1, "emergency_stop"),
    ],
)
def test_a_key_without_a_value_is_refused(text: str, line: int, key: str) -> None:
    """As in a file that was cut off, and where somebody wrote half of an emergency stop."""
    with pytest.raises(PolicyError, match=re.escape(f"line {line}: {key}: has no value")):
        read(text)


def test_a_file_that_is_emptied_keeps_the_last_good_policy_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("defaults: {mode: enforce}")
    file = PolicyFile(path)
    load(file)
    path.write_text("")
    load(file)
    assert file.policy.row("gpu").mode == "enforce"
    assert "write {}" in file.error


def test_a_text_counts_only_when_two_looks_in_a_row_found_it(tmp_path: Path) -> None:
    """A file that is being written may be cut off where it is a policy, and a milder one."""
    path = tmp_path / "policy.yaml"
    whole = "classes:\n  lost: {mode: enforce}\n  gpu: {mode: enforce}\n"
    path.write_text(whole)
    file = PolicyFile(path)
    load(file)
    for cut in (whole[:32], whole[:20], whole[:32]):
        path.write_text(cut)
        assert not file.load()
        assert (file.policy.row("gpu").mode, file.error) == ("enforce", "")
    path.write_text(whole)
    assert not load(file)

    path.write_text("{}")
    assert [file.load(), file.load(), file.load()] == [False, True, False]
    assert file.policy == Policy()


def test_a_file_that_changes_at_each_look_is_an_error_until_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    texts = ("defaults: {mode: enforce}", "{}")
    path.write_text(texts[1])
    file = PolicyFile(path)
    load(file)
    for turn in range(UNSETTLED):
        assert file.error == ""
        path.write_text(texts[turn % 2])
        assert not file.load()
    path.write_text(texts[UNSETTLED % 2])
    file.load()

    assert "it changes at each look" in file.error
    assert file.policy == Policy()
    path.write_text(texts[1])
    load(file)
    assert (file.ready, file.error) == (True, "")


def test_a_file_that_never_stays_the_same_says_why_there_is_no_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    file = PolicyFile(path)
    for turn in range(UNSETTLED):
        path.write_text(f"defaults: {{mode: enforce}}\n# {turn}\n")
        file.load()

    assert not file.ready
    assert "it changes at each look" in file.error


def test_a_fifo_in_place_of_the_file_is_an_error_and_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    os.mkfifo(path)
    code = "import sys; from pathlib import Path; from remediator.policy.file import PolicyFile\n"
    code += "file = PolicyFile(Path(sys.argv[1])); file.load(); print(file.error)"
    ended = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60, check=True
    )

    assert "no regular file" in ended.stdout


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
    assert policy.limits == limits_of({"evict_gpus_per_node": 1})


def test_a_file_that_turns_bad_keeps_the_last_good_policy_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("defaults: {mode: enforce}")
    file = PolicyFile(path)
    assert load(file)
    good = file.policy

    path.write_text("defaults: {mode: everything}")
    assert not load(file)
    assert file.policy is good
    assert "everything" in file.error

    path.unlink()
    assert not load(file)
    assert file.policy is good

    path.write_text("defaults: {mode: dry-run}")
    assert load(file)
    assert not file.error
    assert file.policy.row("gpu").mode == "dry-run"


def test_an_error_is_logged_once_and_another_one_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "policy.yaml"
    file = PolicyFile(path)
    for text in ("defaults: {mode: everything}", "defaults: {mode: nothing}"):
        path.write_text(text)
        for _ in range(3):
            load(file)

    logged = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert ["everything" in message for message in logged] == [True, False]


def test_an_unchanged_file_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("defaults: {mode: enforce}")
    file = PolicyFile(path)

    assert [load(file), load(file)] == [True, False]


def test_another_version_of_the_same_length_and_date_is_read(tmp_path: Path) -> None:
    """As two are that follow each other within one tick of the clock by which a kernel dates."""
    path = tmp_path / "policy.yaml"
    path.write_text("defaults: {mode: enforce}")
    file = PolicyFile(path)
    load(file)
    before = path.stat()

    path.write_text("defaults: {mode: dry-run}")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert load(file)
    assert file.policy.row("gpu").mode == "dry-run"


def test_a_policy_has_one_row_for_each_class() -> None:
    with pytest.raises(PolicyError, match="one row for each"):
        Policy(rows=SHIPPED[1:])
    twice: tuple[Row, ...] = (*SHIPPED, SHIPPED[0])
    with pytest.raises(PolicyError, match="one row for each"):
        Policy(rows=twice)


def test_the_policy_in_words_names_each_class_and_limit() -> None:
    words = describe_policy(Policy())

    for name in (*(row.fault_class for row in SHIPPED), "evict.node", "taint.cluster"):
        assert name in words


def test_the_policy_in_words_ends_with_the_emergency_stop_if_there_is_one() -> None:
    assert describe_policy(Policy(stopped="a recall")).endswith("; emergency stop: a recall")
    assert "emergency stop" not in describe_policy(Policy())


@pytest.mark.parametrize("text", [None, "defaults: {mode: everything}"])
def test_a_file_that_was_never_good_gives_no_policy_at_all(
    tmp_path: Path, text: str | None
) -> None:
    """The shipped policy instead would take down every rule of a better day."""
    path = tmp_path / "policy.yaml"
    if text is not None:
        path.write_text(text)
    file = PolicyFile(path)

    assert not load(file)
    assert not file.ready

    path.write_text("defaults: {mode: enforce}")
    assert load(file)
    assert file.ready


def test_without_a_file_the_shipped_policy_is_in_force() -> None:
    assert PolicyFile(None).ready


def test_a_file_of_a_newer_version_keeps_the_last_good_policy_until_it_is_taken_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("classes: {gpu: {mode: enforce}}")
    file = PolicyFile(path)
    load(file)

    path.write_text("classes: {gpu: {mode: dry-run, reset: true}}")
    assert not load(file)
    assert file.policy.row("gpu").mode == "enforce"
    assert "a file with keys of a newer one" in file.error

    path.write_text("classes: {gpu: {mode: dry-run}}")
    assert load(file)
    assert file.policy.row("gpu").mode == "dry-run"


def test_a_file_that_was_moved_away_and_back_is_no_error_any_more(tmp_path: Path) -> None:
    path, away = tmp_path / "policy.yaml", tmp_path / "away"
    path.write_text("defaults: {mode: enforce}")
    file = PolicyFile(path)
    load(file)

    path.rename(away)
    assert not load(file)
    assert "No such file" in file.error

    away.rename(path)
    assert not load(file)
    assert not file.error


def test_an_exemption_that_runs_out_changes_the_policy_in_force(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "defaults: {mode: enforce}\nexempt: [{nodes: a, why: burn-in, until: 2026-01-05T12:00:00Z}]"
    )
    clock = [datetime(2026, 1, 5, 11, 59, tzinfo=UTC)]
    file = PolicyFile(path, lambda: clock[0])
    assert load(file)
    assert file.policy.row("gpu", Place(node="a")).mode == "incident-only"

    clock[0] += timedelta(minutes=1)
    assert file.load()
    assert file.policy.row("gpu", Place(node="a")).mode == "enforce"
    assert not file.load()


def test_a_giant_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    with path.open("wb") as giant:
        giant.truncate(10 << 30)  # a hole: to read it all would take minutes and all memory
    file = PolicyFile(path)

    assert not load(file)
    assert "larger than 256 KiB" in file.error


def test_listeners_of_the_policy_get_another_one_before_anything_can_act_by_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "policy.yaml"
    reported: list[tuple[str, str]] = []

    def hear(coming: Policy) -> None:
        reported.append((file.policy.row("gpu").mode, coming.row("gpu").mode))

    file = PolicyFile(path, before_change=hear)
    for mode in ("dry-run", "enforce", "enforce", "everything"):
        path.write_text(f"defaults: {{mode: {mode}}}")
        load(file)

    assert reported == [("incident-only", "dry-run"), ("dry-run", "enforce")]
