"""`--help` teaches: goldens of it, and examples that are taken by the command they stand in."""

import argparse
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from draguard.__main__ import main
from tests.draguard.printed import matches

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "status",
    "incidents",
    "explain",
    "plan",
    "doctor",
    "version",
    "bundle",
    "completion",
    "hold",
    "ignore",
    "confirm-repaired",
    "untaint",
    "cordon",
    "uncordon",
    "cleanup",
    "policy",
)
EXAMPLE = re.compile(r"^  # .*\n  (draguard .*)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", [*COMMANDS, "policy check", "policy explain"])
def test_help_is_its_golden_and_fits_on_a_screen(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = help_of(command, capsys)

    matches(f"help-{command.replace(' ', '-')}", stated)
    assert max(map(len, stated.splitlines())) <= 80


def test_the_usage_is_its_golden(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    stated = capsys.readouterr().out
    matches("help", stated)
    assert {f"  {command}" for command in COMMANDS} <= {
        line[: line.find(" ", 2)] for line in stated.splitlines() if line.startswith("  ")
    }


@pytest.mark.parametrize("command", [*COMMANDS, "policy check", "policy explain"])
def test_every_example_has_flags_that_exist(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = EXAMPLE.findall(help_of(command, capsys))
    assert examples
    taken: list[str] = []

    class Parsed(Exception):  # noqa: N818 - ends a command where its work would begin
        pass

    whole = argparse.ArgumentParser.parse_args

    def parse(parser: argparse.ArgumentParser, *arguments: object) -> argparse.Namespace:
        whole(parser, *arguments)  # pyright: ignore[reportCallIssue, reportArgumentType] - as it is called
        taken.append(parser.prog)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    for example in examples:
        words = shlex.split(example.partition(" | ")[0])
        with pytest.raises(Parsed):
            main(words[1:])
    assert len(taken) == len(examples)


def test_it_is_installed_as_a_plugin_of_kubectl_too() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "scripts"
    ]

    assert scripts["kubectl-draguard"] == scripts["draguard"] == "draguard.__main__:main"
