"""What the calls about one GPU may take in a pass, all together.

A GPU whose every call is slow hangs in none of them, and would yet keep a pass over
all GPUs from its end. When its time is used up it is not queried any more.
"""

import time
from collections.abc import Callable
from typing import Any

from exporter.model.readings import CallNote
from exporter.sensor.nvml.library import NO_GPU, Caller, out_of_time

_HANGS = 3
"""A call that takes so many times what all of them may is no slow one: who waits for it ends this
process long before. If both live, both stood still meanwhile, as in a container that was frozen."""


class Budget:
    """Makes calls as `library.Caller` says, but none about a GPU that is overdue."""

    def __init__(self, call: Caller, clock: Callable[[], float] = time.monotonic) -> None:
        self._call = call
        self._clock = clock
        self._seconds: float | None = None
        self._spent: dict[int, float] = {}
        self.overdue: dict[int, CallNote] = {}
        """GPUs that used up their time: the last call, and the seconds of all."""

    def begin(self, seconds: float | None) -> None:
        """Give each GPU so many seconds from now on; None: as many as it takes."""
        self._seconds = seconds
        self._spent.clear()
        self.overdue.clear()

    def __call__(self, gpu: int, name: str, *arguments: Any) -> Any:
        if gpu in self.overdue:
            raise out_of_time(name, self.overdue[gpu].seconds)
        begun = self._clock()
        try:
            return self._call(gpu, name, *arguments)
        finally:
            took, most = self._clock() - begun, self._seconds
            if most is not None and gpu != NO_GPU and took <= _HANGS * most:
                spent = self._spent[gpu] = self._spent.get(gpu, 0.0) + took
                if spent > most:
                    self.overdue[gpu] = CallNote(gpu, name, spent)
