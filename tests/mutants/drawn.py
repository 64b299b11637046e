"""Source into random mutants, and what the tests of a package see of them: a share.

The patches say what must never slip through; these say how much does. Each is one operator at a
place that is as likely as any other. Its tests are those of its package that need no real server:
first those of its own room, then those of all others, last those that start programs of ours.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import msgspec

from tests.mutants.places import Place, places
from tests.mutants.run import Mutant, Step

Package = Literal["remediator", "exporter"]
PACKAGES: tuple[Package, ...] = get_args(Package)
ROOMS: dict[Package, tuple[str, ...]] = {
    "remediator": ("diagnose", "plan", "policy", "model"),
    "exporter": (
        "agent/join",
        "agent/report",
        "sensor/kernel_log",
        "sensor/nvml",
        "metrics",
        "model",
    ),
}
"""Where it is decided, and read, what is so."""
SLOW: dict[Package, tuple[str, ...]] = {
    "remediator": ("histories", "controller"),
    "exporter": (
        *("sensor/supervisor", "sensor/dcgm", "flags", "node", "robust", "live"),
        "test_running_exporter.py",
    ),
}
"""Tests that play long stories or start programs."""
OPTIONS = ("-p", "tests.mutants.no_servers")
"""For every run of pytest."""


class Drawn(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """One place of one file."""

    path: str
    place: Place


def modules(root: Path, packages: Sequence[Package] = PACKAGES) -> list[Path]:
    """Return the files that mutants are drawn from."""
    rooms = (root / package / room for package in packages for room in ROOMS[package])
    return sorted(file for room in rooms for file in room.glob("*.py"))


def every_place(root: Path, packages: Sequence[Package] = PACKAGES) -> list[Drawn]:
    """Return all that can be drawn."""
    return [
        Drawn(path=file.relative_to(root).as_posix(), place=place)
        for file in modules(root, packages)
        for place in places(file.read_text(encoding="utf-8"))
    ]


def draw(every: Sequence[Drawn], root: Path, number: int, seed: str) -> list[Drawn]:
    """Draw so many mutants that compile, all different; the same ones for the same seed."""
    mixed = random.Random(seed).sample(every, len(every))  # noqa: S311 - a draw, to be repeated
    return list(islice((found for found in mixed if _compiles(root, found)), number))


def _compiles(root: Path, found: Drawn) -> bool:
    try:
        compile(found.place.changed(_source(root, found)), "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _source(root: Path, found: Drawn) -> str:
    return (root / found.path).read_text(encoding="utf-8")


def mutant_of(found: Drawn, root: Path, *, quick: bool = False) -> Mutant:
    """Return a mutant with the tests that may see it; `quick` leaves out the slow ones."""
    place, source = found.place, _source(root, found)
    before, after = (
        text.splitlines()[place.line - 1].strip() for text in (source, place.changed(source))
    )

    def apply(folder: Path) -> None:
        (folder / found.path).write_text(place.changed(_source(folder, found)), encoding="utf-8")

    return Mutant(
        name=f"{found.path}:{place.line}:{place.column}",
        path=found.path,
        about=f"- {before}\n  + {after}",
        steps=steps_of(found.path, root, quick=quick),
        apply=apply,
    )


def steps_of(path: str, root: Path, *, quick: bool = False) -> tuple[Step, ...]:
    """Return the tests of a module's package: of its room, of others, and the slow ones."""
    package = path.split("/", 1)[0]
    slow, tests = SLOW["exporter" if package == "exporter" else "remediator"], root / "tests"
    named = {
        entry.relative_to(tests / package).as_posix(): entry for entry in _units(tests / package)
    }
    own = [entry for entry in named.values() if entry == tests / Path(path).parent]
    late = [entry for name, entry in named.items() if name in slow]
    rest = [entry for entry in named.values() if entry not in own and entry not in late]
    parts = (own, rest) if quick else (own, rest, late)
    paths = (tuple(entry.relative_to(root).as_posix() for entry in part) for part in parts)
    return tuple(step for step in paths if step)


def _units(folder: Path) -> Iterator[Path]:
    """Yield test files of a folder and its folders of tests, of which none is in another."""
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and any(
            child.is_dir() and any(child.glob("test_*.py")) for child in entry.iterdir()
        ):
            yield from _units(entry)
        elif entry.match("test_*.py") or (entry.is_dir() and entry.name != "__pycache__"):
            yield entry
