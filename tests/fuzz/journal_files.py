"""Files of systemd's journal with some bytes changed, and cut off."""

import lzma
from functools import cache
from pathlib import Path
from random import Random

from exporter.sensor.kernel_log.journal_file import JournalError, JournalFile
from tests.fuzz.target import Target, demand

_FOLDER = Path(__file__).parents[1] / "exporter/sensor/kernel_log/journals"
_NAMES = ("compact-whole", "regular-whole", "journald", "missed", "nokmsg")
_MOST = 70
"""Records that a file has at most."""

Broken = tuple[str, int, tuple[tuple[int, int], ...]]
"""Name of a file, its size, and what its bytes are changed by at some places."""


@cache
def whole(name: str) -> bytes:
    """Return a file without the zeros at its end, which are most of it."""
    return lzma.decompress((_FOLDER / f"{name}.xz").read_bytes()).rstrip(b"\0") + bytes(64)


@cache
def _used(name: str) -> tuple[int, ...]:
    data = whole(name)
    return tuple(at for at in range(0, len(data), 8) if any(data[at : at + 8]))


def make_file(random: Random) -> Broken:
    name = random.choice(_NAMES)
    size = random.choice((len(whole(name)), random.randrange(len(whole(name)))))
    places = random.sample(_used(name), random.randrange(1, 5))
    changed = ((at + random.randrange(8), random.randrange(256)) for at in places)
    return name, size, tuple(sorted(changed))


def check_file(made: Broken) -> None:
    name, size, changes = made
    data = whole(name)

    def read(at: int, length: int) -> bytes:
        found = bytearray(data[at : min(at + length, size)])
        for place, mark in changes:
            if at <= place < at + len(found):
                found[place - at] ^= mark
        return bytes(found)

    given = 0
    try:
        file = JournalFile(read)
        for record in file.records():
            given += 1
            demand(len(record.boot) == 16, "a boot", record.boot)
            demand(record.microseconds >= 0 and record.priority >= 0, "a number", record)
        for boot in file.missed():
            given += 1
            demand(len(boot) == 16, "a boot", boot)
    except JournalError:
        pass
    demand(given <= _MOST, "more records than there are", given)


TARGETS = (Target("journal-file", 4, make_file, check_file),)
