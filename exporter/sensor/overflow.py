"""What left the ring of signals, one for each GPU, code and instance, with how many it stands for.

An agent that begins with nothing counts it all the same, so that its counters do not fall behind
those of the agent before it. One that was away counts what is of that time alone. Pure.
"""

import msgspec

from exporter.model.signals import ERRORS, Partner, Signal

MOST = 512
"""Kept signals; they must fit into the first message to an agent."""

_Key = tuple[str, str, int, int | None, int | None, int | None, bool | None]


class Overflow:
    def __init__(self) -> None:
        self._kept: dict[_Key, Signal] = {}
        """By number, lowest first."""
        self._first: dict[_Key, int] = {}
        """The number of the first signal that each stands for."""
        self.forgotten = 0
        """Signals of which nothing is known any more."""

    def add(self, signal: Signal) -> None:
        """Take the signal that has just left the ring."""
        partner, own, first = signal.partner, _placed(signal), signal.number
        if partner is not None:
            counted = _key(own, partner)
            first = self._first.get(counted, first)
            if not self._take_one(counted):
                # Counted by the first source under a name that this one does not know.
                return
        key = _key(own, Partner(0, own.gi, own.ci))
        before = self._kept.pop(key, None)
        self._kept[key] = own if before is None else _merged(before, own)
        self._first[key] = min(first, self._first.get(key, first))
        if len(self._kept) > MOST:
            oldest = next(iter(self._kept))
            del self._first[oldest]
            self.forgotten += self._kept.pop(oldest).times

    def signals(self, after: int = 0) -> list[Signal]:
        """Return what stands for signals above a number alone: no error is counted twice."""
        return [signal for key, signal in self._kept.items() if self._first[key] > after]

    def above(self, kernel_sequence: int) -> int:
        """Return how many signals may have come after that record of the kernel log."""
        return sum(
            signal.times
            for signal in self._kept.values()
            if signal.kernel_sequence is None or signal.kernel_sequence > kernel_sequence
        )

    def _take_one(self, key: _Key) -> bool:
        """Take back what a first source counted; returns whether there was anything."""
        found = self._kept.get(key)
        if found is None:
            return False
        if found.times == 1:
            del self._kept[key], self._first[key]
        else:
            self._kept[key] = msgspec.structs.replace(found, times=found.times - 1)
        return True


def _placed(signal: Signal) -> Signal:
    """Return a signal that stands for itself, with the instance that either source named."""
    first = signal.partner or Partner(0)
    return msgspec.structs.replace(
        signal,
        gi=first.gi if signal.gi is None else signal.gi,
        ci=first.ci if signal.ci is None else signal.ci,
        past=signal.past and signal.partner is None,
        partner=None,
    )


def _key(signal: Signal, instance: Partner) -> _Key:
    kind = "error" if signal.kind in ERRORS else signal.kind
    gpu = signal.bus_id or signal.uuid
    return kind, gpu, signal.code, instance.gi, instance.ci, signal.link, signal.fatal


def _merged(before: Signal, signal: Signal) -> Signal:
    """Return the later signal, for both; one without a message does not hide the other's."""
    worded = signal if signal.message or not before.message else before
    read = [
        known.kernel_sequence for known in (before, signal) if known.kernel_sequence is not None
    ]
    return msgspec.structs.replace(
        worded,
        number=signal.number,
        at=max(before.at, signal.at),
        kernel_sequence=max(read, default=None),
        times=before.times + signal.times,
    )
