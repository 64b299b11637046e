"""What the kernel reports of running processes: CPU time, memory, children.

The parsing of `mappings` is pure; the rest looks into /proc.
"""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

_CPU_CLOCK = 2
"""CPUCLOCK_SCHED of the kernel's per-process clock ids (clock_getcpuclockid(3))."""


class Mapping(msgspec.Struct, frozen=True):
    """One mapping of `smaps`; sizes in KiB. `file` is "" for memory that no file backs."""

    file: str
    offset: str
    """In the file; the addresses where there is none."""
    pss: int
    private: int
    shared: int


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads that the process has or had, in seconds."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK)


def leader_cpu_seconds(pid: int) -> float:
    """Return the CPU time of the process's first thread alone, in seconds."""
    text = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii")
    return int(text.split()[0]) / 1e9


def sleeps(pid: int) -> int:
    """Return how often the running threads of a process went to sleep by themselves.

    Each sleep ends with a wake-up. What threads did that have ended is not counted.
    """
    return sum(map(_sleeps, Path(f"/proc/{pid}/task").iterdir()))


def leader_sleeps(pid: int) -> int:
    """Return how often the process's first thread went to sleep by itself."""
    return _sleeps(Path(f"/proc/{pid}/task/{pid}"))


def _sleeps(task: Path) -> int:
    with contextlib.suppress(OSError):
        for line in (task / "status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                return int(line.split()[1])
    return 0


def maps_of(pid: int) -> tuple[Mapping, ...]:
    return mappings(Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace"))


def highest_megabytes(pid: int) -> float:
    """Return the largest resident set that a process ever had, in MB (10^6 bytes)."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def pss_megabytes(maps: Iterable[Mapping]) -> float:
    """Return the proportional set size in MB (10^6 bytes)."""
    return sum(mapping.pss for mapping in maps) * 1024 / 1e6


def alone_megabytes(processes: Iterable[Iterable[Mapping]]) -> float:
    """Return what these processes would take if no other on the machine shared their pages.

    PSS gives every sharer a part, so that it falls when a benchmark runs more Python beside the
    processes it measures. Here a shared page of a file counts once, and in full.
    """
    shared: dict[tuple[str, str], int] = {}
    private = 0
    for maps in processes:
        for mapping in maps:
            private += mapping.private
            key = (mapping.file, mapping.offset)
            shared[key] = max(shared.get(key, 0), mapping.shared)
    return (private + sum(shared.values())) * 1024 / 1e6


def mappings(smaps: str) -> tuple[Mapping, ...]:
    """Parse the text of /proc/<pid>/smaps."""
    found: list[Mapping] = []
    head: list[str] = []
    sizes: dict[str, int] = {}
    for line in [*smaps.splitlines(), "end"]:
        words = line.split()
        if words and words[0].endswith(":"):
            if len(words) == 3 and words[2] == "kB":
                sizes[words[0][:-1]] = int(words[1])
            continue
        if head:
            found.append(_mapping(head, sizes))
        head, sizes = words, {}
    return tuple(found)


def _mapping(head: list[str], sizes: dict[str, int]) -> Mapping:
    file = "" if head[5:6] == [] or head[5].startswith("[") else " ".join(head[5:])
    return Mapping(
        file=file,
        offset=head[2] if file else head[0],
        pss=sizes.get("Pss", 0),
        private=sizes.get("Private_Clean", 0) + sizes.get("Private_Dirty", 0),
        shared=sizes.get("Shared_Clean", 0) + sizes.get("Shared_Dirty", 0),
    )


def descendants(pid: int) -> dict[int, str]:
    """Return the processes that this one started, and theirs: {pid: command line}."""
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        children: list[int] = []
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children += map(int, task.read_text(encoding="ascii").split())
        for child in children:
            found[child] = ""
            with contextlib.suppress(OSError):
                raw = Path(f"/proc/{child}/cmdline").read_bytes()
                found[child] = raw.replace(b"\0", b" ").decode(errors="replace")
            waiting.append(child)
    return found
