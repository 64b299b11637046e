"""The parts of a soak: what each runs, for how long at most, and what its closing figures are."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from benchmarks.soak import closing

ROOT = Path(__file__).parents[2]
NAMES = ("histories", "chaos", "fuzz", "drawn", "search", "allocations", "mutants", "fleet")
PATIENCE, START = 3.0, 900.0
"""A part may take three times as long as on a quiet machine, and 15 minutes more."""

HISTORYS_TAKE, FUZZ_TAKES, DRAWN_TAKES = 3000.0, 270.0, 900.0
SEARCH_TAKES, ALLOCATIONS_TAKE, MUTANTS_TAKE, FLEET_TAKES = 420.0, 420.0, 3000.0, 420.0
"""Seconds on two quiet cores; the drawn replays with one process."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One program of the soak."""

    name: str
    what: str
    """What is run, with its counts."""
    command: tuple[str, ...]
    figures: Callable[[str], str]
    """Reads the closing figures from the output; "" when there are none, which is a failure."""
    environment: Mapping[str, str] = {}
    about: float
    """Seconds on two quiet cores."""
    limit: float = 0.0
    """Seconds after which it is ended and has failed; by `about` unless given."""
    alone: bool = False
    """It needs both cores, or measures time."""
    servers: bool = False
    """It starts programs that are built first."""

    @property
    def longest(self) -> float:
        return self.limit or PATIENCE * self.about + START


def parts(*, seed: int, scale: float = 1.0, jobs: int = 1) -> tuple[Part, ...]:
    """Return all parts in their order, with counts and times times `scale`."""

    def of(count: float) -> int:
        return max(1, round(count * scale))

    return (
        _histories(seed, max(of(20_000), 3), of(HISTORYS_TAKE)),
        _chaos(seed, of(600)),
        _fuzz(seed, of(1_000_000), of(FUZZ_TAKES)),
        _drawn(seed, of(300), of(DRAWN_TAKES), workers=2 if jobs == 1 else 1),
        _search(seed, scale, of(SEARCH_TAKES)),
        _allocations(seed, of(200), of(ALLOCATIONS_TAKE)),
        _mutants(seed, of(300), of(MUTANTS_TAKE)),
        _fleet(of(10_000), of(750), of(FLEET_TAKES)),
    )


def _histories(seed: int, count: int, about: float) -> Part:
    folder = "tests/remediator/histories"
    # Beside that number: a third of it of fleets, a sixth with eviction, a sixth with old watches.
    played = count + count // 3 + 2 * (count // 6)
    return Part(
        name="histories",
        what=f"HISTORIES={count}: {played:,} random histories",
        command=_pytest(*_hypothesis(seed), "--timeout", "0", folder),
        environment={"HISTORIES": str(count)},
        figures=closing.histories,
        about=about,
    )


def _chaos(seed: int, seconds: int) -> Part:
    return Part(
        name="chaos",
        what=f"{seconds:,} s of chaos, half with one replica and half with two",
        command=_pytest("-s", "tests/chain/test_chaos.py"),
        environment={"CHAOS_SECONDS": str(seconds), "CHAOS_SEED": str(seed)},
        figures=closing.chaos,
        about=seconds + 120.0,
        alone=True,
        servers=True,
    )


def _fuzz(seed: int, inputs: int, about: float) -> Part:
    return Part(
        name="fuzz",
        what=f"{inputs:,} inputs",
        command=_python("tests.fuzz", "--inputs", str(inputs), "--seed", str(seed)),
        figures=closing.fuzz,
        about=about,
    )


def _drawn(seed: int, draws: int, about: float, *, workers: int) -> Part:
    options = ("--draws", str(draws), "--seed", str(seed), "--workers", str(workers))
    return Part(
        name="drawn",
        what=f"{draws:,} replays with drawn parameters",
        command=_python("benchmarks.replay.drawn", *options),
        figures=closing.drawn,
        about=about / workers,
    )


def _search(seed: int, scale: float, about: float) -> Part:
    files = property_tests(ROOT / "tests")
    some = files[:: max(1, round(1.0 / scale))]
    # As `make search` does.
    workers = ("-n", "auto", "--dist", "loadfile")
    selected = ("-m", "hypothesis", *_hypothesis(seed))
    return Part(
        name="search",
        what=f"new examples for the properties of {len(some)} of {len(files)} files",
        # The part has its own limit, so that a test does not fail because of other load.
        command=_pytest(*workers, "--no-loadscope-reorder", "--timeout", "0", *selected, *some),
        figures=closing.properties,
        about=about,
        alone=True,
        servers=True,
    )


def _allocations(seed: int, tens: int, about: float) -> Part:
    files = ("tests/allocation/test_agreement.py", "tests/chain/test_scheduler_agrees.py")
    return Part(
        name="allocations",
        what=f"{10 * tens:,} clusters, allocated by us and by Kubernetes' own code, "
        f"and {tens:,} by a real scheduler",
        command=_pytest(*_hypothesis(seed), "--timeout", "0", *files),
        environment={"ALLOCATIONS": str(tens), "PLACEMENTS": str(tens)},
        figures=closing.properties,
        about=about,
        servers=True,
    )


def property_tests(folder: Path) -> list[str]:
    """Return the files of tests that use hypothesis."""
    found = sorted(folder.rglob("test_*.py"))
    return [
        str(file.relative_to(folder.parent))
        for file in found
        if re.search("^from hypothesis", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def _mutants(seed: int, count: int, about: float) -> Part:
    options = ("--drawn", str(count), "--seed", str(seed), "--quick", "--share", "95")
    return Part(
        name="mutants",
        what=f"{count} mutants drawn from the source; 95 % must be killed or explained",
        command=_python("tests.mutants", *options),
        figures=closing.last_line,
        about=about,
        alone=True,
    )


def _fleet(nodes: int, storm: int, about: float) -> Part:
    return Part(
        name="fleet",
        what=f"{nodes:,} nodes on a real API server, {storm:,} GPUs fail at once",
        command=_python("benchmarks.fleet", "--nodes", str(nodes), "--storm", str(storm)),
        figures=closing.fleet,
        about=about,
        alone=True,
        servers=True,
    )


def _python(module: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module, *options)


def _pytest(*options: str) -> tuple[str, ...]:
    return _python("pytest", *options)


def _hypothesis(seed: int) -> tuple[str, ...]:
    """Return the options for new examples, of this seed, and for counting them."""
    profile = ("--hypothesis-profile", "search", "--hypothesis-seed", str(seed))
    return (*profile, "--hypothesis-show-statistics")


def chosen(all_parts: Iterable[Part], only: Iterable[str]) -> list[Part]:
    """Return the parts of these names, all of them when none is named."""
    names = set(only)
    return [part for part in all_parts if not names or part.name in names]
