"""What the calls about one GPU may take in a pass, all together.

A GPU whose every call is slow hangs in none of them, and would yet keep a pass over
all GPUs from its end. When its time is used up it is not asked any more.
"""

import time
from typing import Any

from exporter.nvml.library import NO_GPU, Caller, out_of_time
from exporter.readings import CallNote


class Budget:
    """Makes calls as `library.Caller` says, but none about a GPU that is overdue."""

    def __init__(self, call: Caller) -> None:
        self._call = call
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
        begun = time.monotonic()
        try:
            return self._call(gpu, name, *arguments)
        finally:
            self._count(gpu, name, time.monotonic() - begun)

    def _count(self, gpu: int, name: str, seconds: float) -> None:
        spent = self._spent[gpu] = self._spent.get(gpu, 0.0) + seconds
        if gpu != NO_GPU and self._seconds is not None and spent > self._seconds:
            self.overdue[gpu] = CallNote(gpu, name, spent)
