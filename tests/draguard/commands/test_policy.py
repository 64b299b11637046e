"""`draguard policy`: a file is checked, and a signal is tried by the remediator's own decisions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from draguard.__main__ import main
from draguard.trial.explanation import Course, Explanation, explain
from draguard.trial.run import Spot
from draguard.trial.signal import LogMode, Signal
from remediator.policy.load import read
from remediator.policy.table import Policy
from tests.remediator.builders import T0

ENFORCE = read("defaults: {mode: enforce}")


def file(folder: Path, text: str) -> str:
    path = folder / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def tried(signal: Signal, policy: Policy = ENFORCE, spot: Spot | None = None) -> Explanation:
    return explain(signal, spot or Spot(), policy, T0)


def rules(course: Course) -> list[str]:
    texts = (line.text for line in course.lines if line.text.startswith("taint rule "))
    return [text.partition(":")[0] for text in texts]


def json_of(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> dict[str, Any]:
    assert main(["policy", "explain", "-o", "json", *arguments]) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=dict[str, Any])


def test_a_sound_file_ends_with_zero_and_its_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path, "classes: {gpu: {mode: enforce, soak: 30s}}")

    assert main(["policy", "check", path]) == 0

    stated = capsys.readouterr().out.splitlines()
    assert stated[0].startswith(f"{path}: warning: classes.gpu: class gpu: soak 30s is short")
    assert stated[-1] == f"{path}: valid"


def test_the_column_of_the_key_evict_names_the_eviction_api(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """NoExecute evicts as well: `EVICT no` beside it would be wrong."""
    assert main(["policy", "explain", "--lost"]) == 0

    (columns,) = [line for line in capsys.readouterr().out.splitlines() if "CEILING" in line]
    assert columns.endswith("PROBATION  EVICTION API")


def test_a_wrong_file_ends_with_one_and_every_line_that_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path, "classes:\n  gpu: {mode: harsh}\n  cpu: {}\n")

    assert main(["policy", "check", path]) == 1

    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{path}: line 2: classes.gpu.mode: 'harsh' is not a mode; one of off")
    assert second.startswith(f"{path}: line 3: classes.cpu: no such key; did you mean gpu?")


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize(
    ("text", "ends", "problems", "remarks"),
    [
        ("classes: {gpu: {mode: enforce, soak: 30s}}", 0, 0, 2),
        ("classes: {gpu: {mode: harsh}}", 1, 1, 0),
    ],
)
def test_a_program_that_checks_policies_gets_all_of_it(  # noqa: PLR0917 - a table's columns
    output: str,
    text: str,
    ends: int,
    problems: int,
    remarks: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = file(tmp_path, text)

    assert main(["policy", "check", path, "-o", output]) == ends

    stated = capsys.readouterr()
    found = yaml.safe_load(stated.out)
    assert (found["file"], found["sound"]) == (path, ends == 0)
    assert (len(found["problems"]), len(found["remarks"])) == (problems, remarks)
    assert stated.err == ""


def test_a_file_that_is_not_there_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", "nowhere.yaml"]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("signal", "fault_class", "effects"),
    [
        (
            Signal(xid=94, mig=True, gi=3),
            "contained",
            [
                "taint rule NoSchedule on gpu-0-mig-1g10gb-19-2",
                "taint rule NoExecute on gpu-0-mig-1g10gb-19-2",
                "taint rule removed from gpu-0-mig-1g10gb-19-2",
            ],
        ),
        (
            Signal(xid=95, recovery_action=1),
            "gpu",
            [
                "taint rule NoSchedule on gpu-0",
                "taint rule NoExecute on gpu-0",
                "taint rule removed from gpu-0",
            ],
        ),
        (
            Signal(xid=95),
            "gpu",
            ["taint rule NoSchedule on gpu-0", "taint rule removed from gpu-0"],
        ),
        (
            Signal(xid=79, lost=True),
            "lost",
            [
                "taint rule NoSchedule on gpu-0",
                "taint rule NoExecute on gpu-0",
                "taint rule removed from gpu-0",
            ],
        ),
        (Signal(remap_failure=True), "memory", ["taint rule NoSchedule on gpu-0"]),
        (Signal(remap_pending=True), "pending", []),
        (Signal(sram_threshold=True), "memory", ["taint rule NoSchedule on gpu-0"]),
    ],
)
def test_a_signal_does_what_its_row_allows_and_its_evidence_carries(
    signal: Signal, fault_class: str, effects: list[str]
) -> None:
    reported = tried(signal)

    assert {fault.fault_class for fault in reported.faults} == {fault_class}
    assert rules(reported.course) == effects
    assert reported.enforced is None


def test_no_execute_comes_a_settle_time_after_no_schedule() -> None:
    reported = tried(Signal(xid=79, lost=True), read("defaults: {mode: enforce, settle: 7s}"))

    at = {line.text: line.after for line in reported.course.lines}
    gap = at["taint rule NoExecute on gpu-0"] - at["taint rule NoSchedule on gpu-0"]
    assert 7 <= gap < 8


def test_release_comes_a_soak_time_after_the_repair() -> None:
    reported = tried(Signal(xid=79, lost=True), read("defaults: {mode: enforce, soak: 20m}"))

    assert reported.course.repaired_after is not None
    assert reported.course.released_after is not None
    assert 1200 <= reported.course.released_after - reported.course.repaired_after < 1205


def test_an_application_error_alone_is_nothing() -> None:
    reported = tried(Signal(xid=13))

    assert (reported.verdict, reported.faults, reported.course.lines) == ("Healthy", (), ())


def test_doubt_says_what_is_missing() -> None:
    (fault,) = tried(Signal(xid=94, mig=True)).faults

    assert not fault.certain
    assert "named the MIG instance" in fault.doubt


def test_below_r565_the_catalogue_decides() -> None:
    course = tried(Signal(xid=95, driver="550.90.07")).course
    assert "taint rule NoExecute on gpu-0" in rules(course)


@pytest.mark.parametrize(
    ("by", "effects"),
    [(mode, {"NoSchedule"}) for mode in ("auto", "kmsg", "journal")] + [("syslog", set[str]())],
)
def test_the_kernel_log_alone_moves_nobody_and_read_by_syslog_taints_nothing(
    by: LogMode, effects: set[str]
) -> None:
    reported = tried(Signal(xid=95, driver="550.90.07", log_only=True, kernel_log=by))
    made = {rule.split()[2] for rule in rules(reported.course) if "rule removed" not in rule}

    assert made == effects


@pytest.mark.parametrize("mode", ["off", "incident-only", "dry-run"])
def test_a_milder_mode_is_shown_beside_what_enforce_would_do(mode: str) -> None:
    reported = tried(Signal(xid=79, lost=True), read(f"defaults: {{mode: {mode}}}"))

    expected = {
        "off": [],
        "incident-only": [],
        "dry-run": ["taint rule None on gpu-0", "taint rule removed from gpu-0"],
    }
    assert rules(reported.course) == expected[mode]
    assert bool(reported.course.lines) == (mode != "off")
    assert reported.enforced is not None
    assert "taint rule NoExecute on gpu-0" in rules(reported.enforced)


def test_the_row_is_named_with_the_lines_that_it_came_from() -> None:
    policy = read(
        "classes: {lost: {mode: enforce}}\n"
        "overrides: [{match: {deviceClass: small, node: n7}, classes: {lost: {mode: dry-run}}}]"
    )
    lost = Signal(lost=True)

    assert tried(lost, policy).faults[0].row.name == "classes.lost"
    there = tried(lost, policy, Spot(node="n7", device_class="small"))
    assert there.faults[0].row.name == "overrides[0]"
    assert there.faults[0].row.mode == "dry-run"


def test_what_an_override_by_device_class_does_when_its_pods_have_left_is_shown() -> None:
    policy = read("overrides: [{match: {deviceClass: a}, classes: {lost: {mode: enforce}}}]")

    reported = tried(Signal(lost=True), policy, Spot(device_class="a"))

    removed = "taint rule removed from gpu-0"
    assert rules(reported.course)[1:3] == ["taint rule NoExecute on gpu-0", removed]


def test_a_pause_is_reported() -> None:
    policy = read(
        "maintenance: [{name: m, nodes: '*', from: 2026-01-05T00:00:00Z, "
        "until: 2026-01-06T00:00:00Z}]\nemergency_stop: {by: ann, why: fire}"
    )

    held = tried(Signal(lost=True), policy).deferred

    assert held == (
        "new actions deferred: emergency stop: ann, in the policy file: fire "
        "(behind it: Maintenance)",
    )


def test_flags_become_the_signal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    policy = file(tmp_path, "overrides: [{match: {node: n7}, defaults: {mode: enforce}}]")

    reported = json_of(
        capsys, ["--xid", "94", "--mig", "--gi", "3", "--node", "n7", "--policy", policy]
    )

    assert reported["signal"] == (
        "XID 94, on GPU instance 3; a GPU with 7 slices; driver 580.65.06; kernel log: auto (from "
        "systemd's journal)"
    )
    assert reported["place"].startswith("node n7,")
    assert reported["faults"][0]["row"]["name"] == "overrides[0]"


def test_text_tells_the_row_the_steps_and_the_repair(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "--xid", "79", "--lost"]) == 0

    stated = capsys.readouterr().out
    for words in (
        "signal   XID 79",
        "class lost",
        "shipped",
        "incident-only",
        "Actions in enforce mode",
        "taint rule NoSchedule on gpu-0",
        "(the GPU is repaired here)",
        "incident closed",
    ):
        assert words in stated


@pytest.mark.parametrize(
    "arguments",
    [["--gi", "3"], ["--mig", "--gi", "8"], ["--node", "a", "--pool", "b"]],
)
def test_flags_that_cannot_be_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", "explain", *arguments])

    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_without_rules_enforce_says_what_cannot_be_written() -> None:
    found = tried(Signal(lost=True, xid=79), spot=Spot(rules_served=False))

    texts = [line.text for line in found.course.lines]
    assert any("NoExecute deferred: DeviceTaintRules are not served" in text for text in texts)
    assert [text for text in texts if text.startswith("taint rule")] == []
    assert [text.partition(":")[0] for text in found.deferred] == ["NoExecute deferred"]
    assert found.course.released_after is not None
