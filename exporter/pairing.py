"""Tell which signals speak of the same error.

The kernel log and the NVML event set report one error separately, and a GPU
that fell off the bus gets a second kernel line without the word Xid. Within
WINDOW, on the same GPU and with the same code, such sightings are one error.
This is decided in the sensor, which hears all witnesses and outlives the agent,
so that an agent that restarts counts exactly as one that does not.
Pure: signals carry their own time.
"""

from collections import deque
from datetime import timedelta

import msgspec

from exporter.signals import ERRORS, Partner, Signal

WINDOW = timedelta(seconds=5)
"""Delta's study merges equal errors of one GPU within 5 s; NVML events lag by less than one."""

_FELL_OFF_CODE = 79
_KEPT = 4096
"""Unmatched sightings kept per GPU, code and witness: a storm of one code has no more."""


class Pairing:
    """Remembers the sightings of the last seconds that still lack a witness."""

    def __init__(self) -> None:
        self._lacking: dict[tuple[str, int, str], deque[Signal]] = {}

    def pair(self, signal: Signal) -> Signal:
        """Return the signal with its partner, when the same error was told of before."""
        if signal.kind not in ERRORS:
            return signal
        partner = self._take(signal)
        if partner is None:
            self._keep(signal)
            return signal
        return msgspec.structs.replace(
            signal, partner=Partner(partner.number, partner.gi, partner.ci)
        )

    def _take(self, signal: Signal) -> Signal | None:
        waiting = self._lacking.get((signal.bus_id, signal.code, _witness(signal)))
        if not waiting:
            return None
        while waiting and signal.at - waiting[0].at > WINDOW:
            waiting.popleft()
        candidates = [
            one for one in waiting if abs(signal.at - one.at) <= WINDOW and _fit(signal, one)
        ]
        if not candidates:
            return None
        best = max(candidates, key=lambda one: one.gi is not None)
        waiting.remove(best)
        return best

    def _keep(self, signal: Signal) -> None:
        witnesses = {"kmsg", "nvml", "text"} if signal.code == _FELL_OFF_CODE else {"kmsg", "nvml"}
        for missing in witnesses - {_witness(signal)}:
            key = (signal.bus_id, signal.code, missing)
            waiting = self._lacking.setdefault(key, deque(maxlen=_KEPT))
            while waiting and signal.at - waiting[0].at > WINDOW:
                waiting.popleft()
            waiting.append(signal)


def _witness(signal: Signal) -> str:
    return "text" if signal.kind == "fell-off" else signal.source


def _fit(one: Signal, other: Signal) -> bool:
    """Say whether two sightings may be of one instance: a missing id fits every id."""
    return _same(one.gi, other.gi) and _same(one.ci, other.ci)


def _same(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other
