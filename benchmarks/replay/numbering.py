"""How the driver of one node enumerates its GPUs anew, while the node's history is drawn.

Indices, minors and published names change, and UUIDs and PCI addresses stay. A board that is
absent has no number: those behind it move up, and down again when it is back. Drawn by dice of
its own, so that a node whose numbers stay has the history that it has without. Pure.
"""

import random

from benchmarks.replay.truth import GPUS

SEEN = 400.0
"""Seconds after the first sign for which a sick board is not taken out: it is judged by then."""
SOON = 60.0
_EVEN = 0.5
"""Of enumerations and boards; no share is published: an assumption."""


class Numbering:
    def __init__(self, seed: str, share: float) -> None:
        self._random = random.Random(f"{seed}/numbering")  # noqa: S311 - no secret is drawn
        self.happens = self._random.random() < share
        """Whether this node's driver ever enumerates anew."""
        self.out: dict[int, float] = {}
        """GPUs that are absent, with since when."""
        self._were_out: list[tuple[int, float, float]] = []

    def tossed(self) -> bool:
        """Whether something happens that happens half of the time; never where numbers stay."""
        return self.happens and self._random.random() < _EVEN

    def within(self, repair: float) -> float:
        """Return the seconds from a fault to an enumeration before its repair; many are soon."""
        return self._random.uniform(0.0, SOON if self.tossed() else repair)

    def takes_out(self, gpu: int, at: float) -> None:
        self.out[gpu] = at

    def puts_back(self, gpu: int, at: float) -> None:
        if gpu in self.out:
            self._were_out.append((gpu, self.out.pop(gpu), at))

    def anew(self) -> tuple[int, ...]:
        """Return the GPUs that are there in a new order: by PCI address, or in any."""
        there = [gpu for gpu in range(GPUS) if gpu not in self.out]
        if self.tossed():
            self._random.shuffle(there)
        return tuple(there)

    def is_out(self, gpu: int, at: float) -> bool:
        """Whether a GPU was absent at a moment."""
        since = self.out.get(gpu)
        past = (begin <= at < end for which, begin, end in self._were_out if which == gpu)
        return any(past) or (since is not None and since <= at)
