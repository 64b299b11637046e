"""Whether GPUs answer on PCI: the first bytes of their config space, from sysfs.

A device that fell off the bus reads as ones there, in the hardware and not by any
log or vendor library. Everybody may read the first 64 bytes, so no right is needed.
A read waits while the kernel resets the device, so a thread of its own reads.
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic

from exporter.model.readings import ConfigAnswer
from exporter.sensor.kernel_log import pci

SURE = 3
"""Looks in a row that must read ones: a reset of the GPU makes them for a moment, too."""

_IDS = 4
"""Bytes of vendor and device, two each, the low one first."""
_ALL_ONES = b"\xff" * _IDS
_NVIDIA = b"\xde\x10"
_AGAIN = 1.0
"""Seconds until the next look at a GPU that reads ones."""
_LATE = 15.0
"""Seconds after which a look that is due and did not come back leaves nothing known."""

Answers = Mapping[str, ConfigAnswer]
"""By bus id. A GPU without an entry could not be read."""


def meaning(ids: bytes) -> ConfigAnswer | None:
    """Return what the first bytes say, None for too few or those of no GPU."""
    if ids == _ALL_ONES:
        return "AllOnes"
    return "Answers" if len(ids) == _IDS and ids.startswith(_NVIDIA) else None


def read(device: Path) -> ConfigAnswer | None:
    """Read one device in a folder like /sys/bus/pci/devices; None: it cannot be known.

    One that sleeps is not woken. May wait for the kernel.
    """
    try:
        power = (device / "power" / "runtime_status").read_bytes().strip()
    except FileNotFoundError:
        power = b""
    except OSError:
        return None
    if power == b"suspended":
        return None
    try:
        with (device / "config").open("rb", buffering=0) as file:
            return meaning(file.read(_IDS) or b"")
    except OSError:
        return None


class ConfigWatch:
    """One thread that reads; `on_change` is called when an answer differs."""

    def __init__(self, folder: Path, pause: float, on_change: Callable[[], None]) -> None:
        self._folder = folder
        self._pause = pause
        self._on_change = on_change
        self._answers: dict[str, ConfigAnswer] = {}
        self._ones: dict[str, int] = {}
        self._due = monotonic()
        """When the next look begins, or the one under way began."""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="config space", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join(_AGAIN)

    def ask(self) -> None:
        """Have the GPUs looked at soon."""
        self._wake.set()

    def answers(self) -> Answers:
        """Return what was read last, nothing while a look does not come (back)."""
        return {} if monotonic() - self._due > _LATE else self._answers

    def look(self) -> None:
        """Read every GPU that NVIDIA's driver has."""
        self._due = min(self._due, monotonic())
        read_now: dict[str, ConfigAnswer | None] = {
            bus: read(self._folder / bus) for bus in pci.held(self._folder)
        }
        self._ones = {
            bus: self._ones.get(bus, 0) + 1
            for bus, answer in read_now.items()
            if answer == "AllOnes"
        }
        answers: dict[str, ConfigAnswer] = {
            bus: answer
            for bus, answer in read_now.items()
            if answer and self._ones.get(bus, SURE) >= SURE
        }
        changes, self._answers = answers != self._answers, answers
        self._due = monotonic() + self._pause
        if changes:
            self._on_change()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.look()
            doubtful = any(count < SURE for count in self._ones.values())
            if doubtful:  # requested looks must not count faster than the timer
                self._stopping.wait(_AGAIN)
            else:
                self._wake.wait(self._pause)
            self._wake.clear()
