"""Every command that a document shows in a fence is run, or a table says why it cannot be."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.docs import fenced
from tests.docs.fenced import Command
from tests.docs.reader import Reader
from tests.docs.test_documents import names
from tests.docs.ways import (
    NOT_RUN,
    WAYS,
    Elsewhere,
    Flags,
    Like,
    Plus,
    Run,
    reason_of,
    unused,
    way_of,
)

pytestmark = pytest.mark.verify

COMMANDS = list(
    dict.fromkeys(command for document in fenced.DOCUMENTS for command in fenced.commands(document))
)
RUN_HERE = [command for command in COMMANDS if isinstance(way_of(command), Run | Plus | Like)]
FLAGGED = [command for command in COMMANDS if isinstance(way_of(command), Flags)]
ELSEWHERE = sorted({way.test for _, way in WAYS if isinstance(way, Elsewhere)})


def test_every_fenced_command_is_in_one_table() -> None:
    assert len(COMMANDS) > 80
    twice = [str(command) for command in COMMANDS if way_of(command) and reason_of(command)]
    nowhere = [
        str(command) for command in COMMANDS if not way_of(command) and not reason_of(command)
    ]

    assert nowhere == [], "say in tests/docs/ways.py what runs these, or why nothing can"
    assert twice == []


def test_commands_hide_behind_no_other_mark() -> None:
    marks = {mark for document in fenced.DOCUMENTS for mark in fenced.languages(document)}

    assert marks <= {"", "console", "ini", "json", "promql", "python", "sh", "text", "yaml"}


def test_no_row_is_without_a_command() -> None:
    assert unused((*WAYS, *NOT_RUN), COMMANDS) == []


@pytest.mark.parametrize("test", ELSEWHERE)
def test_what_is_run_elsewhere_is_a_test(test: str) -> None:
    file, _, name = test.partition("::")

    assert name in names(fenced.ROOT / file)


@pytest.mark.parametrize("command", RUN_HERE, ids=str)
def test_a_command_does_what_the_document_says(command: Command, reader: Reader) -> None:
    way = way_of(command)
    ends = way.ends if isinstance(way, Run) else (0,)

    done = reader.run(command, typed(command))
    reader.forget()

    assert done.returncode in ends, described(done)


@pytest.mark.parametrize("command", FLAGGED, ids=str)
def test_a_program_that_runs_for_long_takes_its_flags(command: Command, reader: Reader) -> None:
    program, flags = split(command)

    done = reader.run(command, f"{program} --help")

    assert done.returncode == 0, described(done)
    assert [flag for flag in flags if not re.search(rf"{flag}\b", done.stdout)] == []


def typed(command: Command) -> str:
    """Return what is run in place of a command."""
    match way_of(command):
        case Plus(flags):
            return shlex.join([*shlex.split(command.text), *flags.split()])
        case Like(pattern, replacement):
            return re.sub(rf"^{pattern}", replacement, command.text)
        case _:
            return command.text


def split(command: Command) -> tuple[str, list[str]]:
    """Return the program with its subcommands, and the names of the flags."""
    words = shlex.split(command.text)
    first = next((at for at, word in enumerate(words) if word.startswith("--")), len(words))
    flags = [word.partition("=")[0] for word in words[first:] if word.startswith("--")]
    return shlex.join(words[:first]), flags


def described(done: subprocess.CompletedProcess[str]) -> str:
    return f"ended with {done.returncode}\n{done.stdout}{done.stderr}"


class TestReading:
    """What counts as a command."""

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("```sh\na b  # c\n# d\n\ne '#f'\n```\n", ["a b", "e '#f'"]),
            ("```sh\na \\\n  b\nc\n```\n", ["a \\\n  b", "c"]),
            ("```sh\nfor x in y; do\n  a\ndone\nb\n```\n", ["for x in y; do\n  a\ndone", "b"]),
            ("```console\n$ a b\nsaid\n$ c \\\n  d\nsaid\n```\n", ["a b", "c \\\n  d"]),
            ("```\nhelm a\n```\n", ["helm a"]),
            ("```\n# first\n.venv/bin/python a\n```\n", [".venv/bin/python a"]),
            ("```\n$ b\nsaid\n```\n", ["b"]),
            ("```\na picture\n```\n```yaml\nhelm: a\n```\n", []),
        ],
    )
    def test_a_block(self, text: str, found: list[str], tmp_path: Path) -> None:
        document = tmp_path / "a.md"
        document.write_text(text, encoding="utf-8")

        assert [command.text for command in fenced.commands(document)] == found
