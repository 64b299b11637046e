"""Source into random mutants, each with the tests that may see it.

A mutant is one operator at one place that is as likely as any other. Its tests are those of its
package that need no real server: first those of its own room, then those of all others, last
those that play long stories or start programs.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from tests.mutants.places import Place, places

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
Step = tuple[str, ...]
"""Paths of one run of pytest."""


class Mutant(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """One changed line of one file."""

    path: str
    """The file, from the root of the project."""
    place: Place
    before: str
    """The line as it is, without its indent."""
    after: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.place.line}:{self.place.column} in {self.within}"

    @property
    def lasting(self) -> str:
        """What stays the same when lines move, or a function goes to another module."""
        return f"{self.within}\n- {self.before}\n+ {self.after}"

    @property
    def within(self) -> str:
        """The function or class; the module's name for what is in none."""
        return self.place.within or Path(self.path).stem


def draw(root: Path, packages: Sequence[Package], number: int, seed: str) -> list[Mutant]:
    """Draw so many mutants, all different; the same ones for the same seed."""
    every = every_place(root, packages)
    drawn = random.Random(seed).sample(every, min(number, len(every)))  # noqa: S311 - a draw
    return [_mutant(path, place, root) for path, place in drawn]


def every_place(root: Path, packages: Sequence[Package] = PACKAGES) -> list[tuple[str, Place]]:
    """Return all files and places that can be drawn."""
    folders = (root / package / room for package in packages for room in ROOMS[package])
    return [
        (file.relative_to(root).as_posix(), place)
        for file in sorted(file for folder in folders for file in folder.rglob("*.py"))
        for place in places(file.read_text(encoding="utf-8"))
    ]


def _mutant(path: str, place: Place, root: Path) -> Mutant:
    source = (root / path).read_text(encoding="utf-8")
    before, after = (
        text.splitlines()[place.line - 1].strip() for text in (source, place.changed(source))
    )
    return Mutant(path=path, place=place, before=before, after=after)


def steps_of(path: str, root: Path, *, quick: bool = False) -> tuple[Step, ...]:
    """Return the tests of a module's package: of its room, of others, and the slow ones.

    `quick` leaves out the slow ones.
    """
    package: Package = "exporter" if path.startswith("exporter/") else "remediator"
    tests = root / "tests" / package
    rooms = {tests / room for room in ROOMS[package] if path.startswith(f"{package}/{room}/")}
    units = list(_units(tests))
    own = [unit for unit in units if unit in rooms]
    late = [unit for unit in units if unit.relative_to(tests).as_posix() in SLOW[package]]
    rest = [unit for unit in units if unit not in own and unit not in late]
    parts = (own, rest) if quick else (own, rest, late)
    return tuple(
        tuple(unit.relative_to(root).as_posix() for unit in part) for part in parts if part
    )


def _units(folder: Path) -> Iterator[Path]:
    """Yield test files of a folder and its folders of tests, of which none is in another."""
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and any(
            child.is_dir() and any(child.glob("test_*.py")) for child in entry.iterdir()
        ):
            yield from _units(entry)
        elif entry.match("test_*.py") or (entry.is_dir() and entry.name != "__pycache__"):
            yield entry
