"""Two checkouts of the remediator in turn on one loaded fleet: `--before PATH --rounds N`.

Machines are noisy, so only what was measured side by side is compared: the ratio of each pair, and
the median of the ratios. Rules and incidents are deleted between two runs, and the GPUs that failed
are reported as healthy again.
"""

import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.figures import Figure, Section, percentile, ratios
from benchmarks.fleet.bench import LEASE_PERIOD, RULES, FleetBench, Size, report
from benchmarks.fleet.load import Renewals
from benchmarks.servers import INCIDENTS
from benchmarks.waiting import Say, await_true

HERE = Path(__file__).parents[2]
Run = dict[str, Figure]


class PairedBench(FleetBench):
    """The fleet, and two remediators that take turns on it."""

    def __init__(self, size: Size, say: Say, before: Path, rounds: int) -> None:
        super().__init__(size, say)
        self._before, self._rounds = before.resolve(), rounds

    def measure(self) -> list[Section]:
        """Load the fleet once; each checkout is started once before anything counts."""
        self.load_fleet()
        found: dict[Path, list[Run]] = {self._before: [], HERE: []}
        with Renewals(self.client, self.renewals(), LEASE_PERIOD) as leases:
            for number in range(-1, self._rounds):
                turn = (self._before, HERE) if number % 2 else (HERE, self._before)
                for checkout in turn:
                    self.say(f"pair {number + 1} of {self._rounds}: {checkout}")
                    run = {figure.what: figure for figure in self._life(checkout, leases)}
                    if number >= 0:
                        found[checkout].append(run)
        title = f"{self._rounds} pairs at {self._size.nodes:,} nodes: {self._before.name} and now"
        return [Section(title, tuple(_compared(found[self._before], found[HERE])))]

    def _aftermath(self, began: float, before: int) -> Iterator[Figure]:
        """Cut the storm off: its evictions and Events take minutes."""
        self.say(f"cut off {time.monotonic() - began:.1f} s after it began, {before} writes before")
        yield from ()

    def _life(self, checkout: Path, leases: Renewals) -> list[Figure]:
        self.checkout = checkout
        living = [*self._cold(), *self._steady(leases)]
        failed = range(self._size.sick, min(self._size.sick + self._size.storm, self._size.nodes))
        if failed:
            living += self._storm()
        self.supervisor.signal(self._remediator, signal.SIGTERM)
        await_true("it ends", lambda: self.supervisor.exit_code(self._remediator) is not None, 60.0)
        shutil.move(self.folder / "remediator.log", self.folder / f"{time.monotonic():.0f}.log")
        writes = (partial(report, node=node, gpus=self._size.gpus, failed=None) for node in failed)
        self._loaded("reports of a healthy GPU", writes)
        for path in (RULES, INCIDENTS):
            self.client.delete(path)
        await_true("no rule is left", lambda: not self._rules.items(), 120.0)
        return living


def _compared(before: list[Run], after: list[Run]) -> Iterator[Figure]:
    """Yield the median of each figure, before and after, and the median of its ratios."""
    for what, sample in before[0].items():
        old, new = ([run[what].values[0] for run in runs] for runs in (before, after))
        for name, values in (("before", old), ("now", new)):
            middle = (percentile(values, 0.5),)
            yield Figure(what=f"{what}, {name}", unit=sample.unit, values=middle)
        if all(old):
            each = ratios(new, old)
            yield Figure(what="ratio of the pairs", unit="", values=each, digits=2, part=True)
