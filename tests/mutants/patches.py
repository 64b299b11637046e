"""Patch files into mutants: one changed line each, the promise it breaks, the tests that see it.

A patch begins with a header, which `git apply` passes over:

    Promise: one sentence about what the unchanged line makes sure of
    Red: paths of pytest that fail with the patch and pass without it
"""

from pathlib import Path

import msgspec

from tests.mutants.copies import apply_patch
from tests.mutants.run import Mutant

FOLDER = Path(__file__).parent
_HEADERS = ("Promise: ", "Red: ")


class PatchError(Exception):
    """A patch file that is not of the form above; the message says which and why."""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """One patch file."""

    file: Path
    promise: str
    red: tuple[str, ...]
    """Paths of pytest: a file, or a test in one."""
    path: str
    """The file that it changes, from the root of the project."""
    removed: str
    added: str

    @property
    def name(self) -> str:
        return self.file.stem


def patches(folder: Path = FOLDER) -> list[Patch]:
    """Return all patches of a folder, by name. Raises PatchError."""
    return [parsed(file.read_text(encoding="utf-8"), file) for file in sorted(_files(folder))]


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("*.patch"))


def parsed(text: str, file: Path) -> Patch:
    """Read one patch. Raises PatchError."""
    head, begins, diff = text.partition("--- a/")
    promise, red = (_header(head, name, file) for name in _HEADERS)
    lines = diff.splitlines()
    removed = [line[1:] for line in lines[2:] if line.startswith("-")]
    added = [line[1:] for line in lines[2:] if line.startswith("+")]
    if not begins or not lines or f"+++ b/{lines[0]}" not in lines[1:2]:
        raise PatchError(f"{file.name} changes no file; write `--- a/FILE` and `+++ b/FILE`")
    if (len(removed), len(added)) != (1, 1):
        raise PatchError(f"{file.name} changes more or less than one line")
    return Patch(
        file=file,
        promise=promise,
        red=tuple(red.split()),
        path=lines[0],
        removed=removed[0],
        added=added[0],
    )


def _header(head: str, name: str, file: Path) -> str:
    found = [line.removeprefix(name) for line in head.splitlines() if line.startswith(name)]
    if len(found) != 1 or not found[0].strip():
        raise PatchError(f"{file.name} needs one line `{name}...` before its diff")
    return found[0].strip()


def mutant_of(patch: Patch) -> Mutant:
    return Mutant(
        name=patch.name,
        path=patch.path,
        about=patch.promise,
        steps=(patch.red,),
        apply=lambda folder: apply_patch(patch.file, folder),
    )
