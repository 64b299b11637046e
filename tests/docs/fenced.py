"""Commands in the fenced blocks of documents, as a reader would paste them. Pure.

A block is of commands when it is marked `sh` or `console`, or not marked and has a line that begins
with a program. Of a `console` block the lines behind `$ ` are commands, the rest is output.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
"""Runbooks have tests of their own, in tests/alerts."""
PROGRAMS = ("draguard", "docker", "helm", "kubectl", "make", "nvidia-smi", "python")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_POLICY = re.compile(r"^```yaml\n(# policy\.yaml\n.*?)^```$", re.MULTILINE | re.DOTALL)


class Command(NamedTuple):
    """One command of one document, with its continuation lines and without its comment."""

    document: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}: {self.text.splitlines()[0]}"


def commands(document: Path) -> Iterator[Command]:
    for marked, block in _FENCE.findall(document.read_text(encoding="utf-8")):
        lines = block.splitlines()
        if marked == "console" or block.startswith("$ "):
            lines = _typed(lines)
        elif marked != "sh" and (marked or not _starts_a_program(lines)):
            continue
        yield from (Command(document.name, text) for text in _joined(lines))


def languages(document: Path) -> set[str]:
    """Return how the blocks of a document are marked."""
    return {marked for marked, _ in _FENCE.findall(document.read_text(encoding="utf-8"))}


def policies(document: Path) -> list[str]:
    return _POLICY.findall(document.read_text(encoding="utf-8"))


def _starts_a_program(lines: list[str]) -> bool:
    return any(Path(line.partition(" ")[0]).name in PROGRAMS for line in lines)


def _typed(lines: list[str]) -> list[str]:
    """Leave out what a program printed."""
    found: list[str] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(line[2:])
        elif found and found[-1].endswith("\\"):
            found.append(line)
    return found


def _joined(lines: list[str]) -> Iterator[str]:
    """Put together what the shell reads as one: lines that go on, and loops."""
    pending: list[str] = []
    for line in lines:
        bare = re.sub(r"(^|\s)#(\s.*)?$", "", line).rstrip()
        if not bare:
            continue
        pending.append(bare)
        looping = pending[0].startswith("for ") and bare != "done"
        if not looping and not bare.endswith("\\"):
            yield "\n".join(pending)
            pending = []
    if pending:
        yield "\n".join(pending)
