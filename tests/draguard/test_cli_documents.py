"""What the documents print is what the commands print. UPDATE_GOLDEN=1 rewrites docs/cli.md."""

import argparse
import os
import re
import shlex
from pathlib import Path

import pytest

from draguard.__main__ import USAGE, main
from tests.chain.scene import INCIDENTS
from tests.draguard.fleet import LOST_INCIDENT, Fleet
from tests.draguard.printed import masked, printed
from tests.draguard.test_cli_terminal import COLOUR, on_terminal

ROOT = Path(__file__).parents[2]
CLI = ROOT / "docs" / "cli.md"
DOCUMENTS = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "alerts" / "runbooks").glob("*.md"),
    ]
)
SHOWN = re.compile(r"```console\n\$ draguard (?P<command>[^\n]*)\n(?P<output>.*?)```", re.DOTALL)
SERVER = re.compile(r"https://[\w.]+:\d+")
GIVEN = re.compile(r"^(?:\$ )?draguard ([^#\n|&]+)", re.MULTILINE)
TAINTED = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`(?:kubectl )?draguard ([a-z][a-z-]*)")
NUMBER = re.compile(r"\bN\b")
NOT_OURS = ("exporter", "remediator")
"""Their flags are looked at by their own tests."""


def shown(command: str, fleet: Fleet) -> str:
    where = ("--kubeconfig", fleet.kubeconfig)
    stated = on_terminal(*shlex.split(command), *where)
    return SERVER.sub("https://prod.example.com:6443", COLOUR.sub("", stated))


def stable(text: str) -> str:
    """Folding depends on widths of what is masked; names are the same."""
    return re.sub(r"\s+", " ", masked(text))


def test_the_command_line_shows_real_output(fleet: Fleet) -> None:
    text = CLI.read_text(encoding="utf-8")
    found = list(SHOWN.finditer(text))
    assert len(found) > 7

    outputs = {shot["command"]: shown(shot["command"], fleet) for shot in found}
    fleet.cluster.client.merge_patch(f"{INCIDENTS}/{LOST_INCIDENT}", {"spec": {"hold": None}})

    if os.environ.get("UPDATE_GOLDEN"):
        text = SHOWN.sub(
            lambda shot: (
                f"```console\n$ draguard {shot['command']}\n{trimmed(outputs[shot['command']])}```"
            ),
            text,
        )
        CLI.write_text(text, encoding="utf-8")
    for shot in SHOWN.finditer(text):
        assert stable(shot["output"]) == stable(trimmed(outputs[shot["command"]])), shot["command"]


def test_what_is_shown_of_the_doctor_is_what_it_says(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = stable(printed(capsys, "doctor", "--kubeconfig", fleet.kubeconfig, ends=1))
    excerpt = CLI.read_text(encoding="utf-8").partition("\n## doctor\n")[2]
    lines = excerpt.partition("```text\n")[2].partition("```")[0].splitlines()

    assert len(lines) > 5
    assert [line for line in lines if stable(line).strip() not in stated] == []


def trimmed(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_in_a_document_is_one_that_exists_with_its_flags(
    document: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n".join(TAINTED.findall(document.read_text(encoding="utf-8")))
    commands = [command for command in GIVEN.findall(text) if command.split()[0] not in NOT_OURS]

    class Parsed(Exception):  # noqa: N818 - ends a command where its work would begin
        pass

    whole = argparse.ArgumentParser.parse_args

    def parse(parser: argparse.ArgumentParser, *arguments: object) -> argparse.Namespace:
        whole(parser, *arguments)  # pyright: ignore[reportCallIssue, reportArgumentType] - as it is called
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    for command in commands:
        with pytest.raises(Parsed):
            main(shlex.split(NUMBER.sub("79", command)))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_a_sentence_names_exists(document: Path) -> None:
    named = set(INLINE.findall(document.read_text(encoding="utf-8")))

    assert named <= {line.split()[0] for line in USAGE.splitlines() if line.startswith("  ")}
