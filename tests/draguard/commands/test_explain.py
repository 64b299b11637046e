"""`draguard explain xid` without any cluster: the catalogue, sub-codes, the shipped policy."""

import json
import re
from pathlib import Path

import pytest

from draguard.__main__ import main
from draguard.trial.xid import READ_AS
from exporter.model import xid
from remediator.diagnose.xid_table import RULE_NAMES
from tests.draguard.printed import masked, matches, printed
from tests.draguard.test_cli_errors import config, written


@pytest.mark.parametrize("code", [13, 48, 149, 9999])
def test_a_code_prints_its_golden(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    matches(
        f"explain-{code}-shipped", masked(printed(capsys, "explain", "xid", str(code), "--shipped"))
    )


def test_every_code_of_the_catalogue_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for code in xid.catalogue():
        stated = json.loads(printed(capsys, "explain", "xid", str(code), "--shipped", "-o", "json"))
        assert stated["code"] == code
        assert stated["course"]["verdict"]


def test_every_rule_of_the_table_has_words() -> None:
    assert set(READ_AS) == set(RULE_NAMES)


def test_a_cluster_that_cannot_be_queried_is_reported_and_the_shipped_policy_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))

    stated = printed(capsys, "explain", "xid", "79", "--kubeconfig", str(path))

    assert (
        "shipped; the policy of a cluster is unknown: no answer from http://127.0.0.1:1" in stated
    )
    assert "mode             incident-only" in stated or "mode      incident-only" in stated


def test_a_policy_file_counts_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("classes: {lost: {mode: enforce}}", encoding="utf-8")

    stated = printed(capsys, "explain", "xid", "79", "--policy", str(policy))

    assert "enforce, ceiling NoExecute (row classes.lost)" in stated


def test_a_policy_file_that_cannot_be_read_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("defaults: {mode: harsh}", encoding="utf-8")

    assert main(["explain", "xid", "79", "--policy", str(policy)]) == 1
    assert "harsh" in capsys.readouterr().err
    assert main(["plan", "--policy", str(policy)]) == 1
    assert "harsh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (("94x",), "xid 79"),
        (("94", "95"), "xid 79"),
        (("xid",), "xid 79"),
        (("xid", "94x"), "xid 79"),
        (("xid", "-5"), "xid 79"),
        (("xid", "9" * 30), "xid 79"),
        (("sxid", "94"), "xid 79"),
    ],
)
def test_what_is_no_xid_gets_an_error_that_shows_the_usage(
    words: tuple[str, ...], instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explain", *words, "--shipped"])

    assert ended.value.code == 2
    assert f"write `draguard explain {instead}`" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--mig"], ["--mig", "--gi", "3"], ["--lost"], ["--reset"]])
def test_no_sentence_says_a_word_twice(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for code in (48, 64, 74, 79, 94, 95, 119, 144):
        words = printed(capsys, "policy", "explain", "--xid", str(code), *more)
        assert not re.search(r"\b(\w+)\b:? +\1(?![\w-])", words, re.IGNORECASE), words
        assert not re.search(r"Verifying: .*verifying:", words), words


def test_a_fault_that_needs_no_repair_does_not_sound_as_if_nothing_helped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "repair                 none needed" in printed(
        capsys, "explain", "xid", "94", "--shipped"
    )


@pytest.mark.parametrize(
    "command", [("policy", "check"), ("plan", "--policy"), ("explain", "xid", "79", "--policy")]
)
def test_a_policy_file_that_is_not_there_is_a_plain_error(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "/nowhere/policy.yaml"]) == 1
    stated = capsys.readouterr().err
    assert stated.endswith("/nowhere/policy.yaml: it cannot be read: No such file or directory\n")
