"""Which GPUs an engine still reads: one that sits in the driver goes on answering, from memory.

A time stamp that moves is the proof. It is compared with the one before, and with
the wall clock only as long as there is none before, as the engine's clock need not
be ours. Pure: answers and both clocks come in.
"""

from collections.abc import Iterable
from datetime import datetime

from exporter.sensor.dcgm.abi import Kind, Status
from exporter.sensor.dcgm.requested_fields import ALWAYS_THERE
from exporter.sensor.dcgm.values import Answer, Entity

_NEVER = float("-inf")


class Freshness:
    """Remembers when each GPU's time stamps moved last."""

    def __init__(self, seconds: float) -> None:
        """A GPU whose time stamps have not moved for so long is not read any more."""
        self._seconds = seconds
        self._moved: dict[Entity, tuple[int, float]] = {}

    @property
    def knows_any(self) -> bool:
        """Whether there is a time stamp from before to compare with."""
        return bool(self._moved)

    def frozen(self, answers: Iterable[Answer], wall: datetime, now: float) -> frozenset[Entity]:
        """Return the GPUs that are not read any more; `now` is in seconds of a steady clock."""
        newest: dict[Entity, int] = {}
        for answer in answers:
            known = answer.status == Status.OK and answer.at > 0
            if answer.entity[0] == Kind.GPU and answer.field in ALWAYS_THERE and known:
                newest[answer.entity] = max(answer.at, newest.get(answer.entity, 0))
        moved: dict[Entity, tuple[int, float]] = {}
        for gpu, at in newest.items():
            if (before := self._moved.get(gpu)) is not None:
                since = before[1] if at == before[0] else now
            else:
                age = wall.timestamp() - at / 1_000_000
                since = now if abs(age) <= self._seconds else _NEVER
            moved[gpu] = (at, since)
        self._moved = moved
        return frozenset(
            gpu for gpu, (_, since) in self._moved.items() if now - since > self._seconds
        )
