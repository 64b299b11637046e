"""The role and flags of the exporter that is this container's first process, for `--check`.

`kubectl exec ... draguard exporter --check` is a process beside it: without its flags it would look
at other paths, and ask the sensor for what only the agent needs.
"""

from collections.abc import Sequence
from pathlib import Path

from exporter.sensor.kernel_log.cgroups import start_time

ROLES = ("sensor", "agent", "run")


def flags_of_first(proc: Path = Path("/proc")) -> list[str]:
    """Return role and flags of the first process; nothing where it is another program."""
    words = _read(_first(proc) / "cmdline").decode(errors="replace").split("\0")[:-1]
    for index, word in enumerate(words[:-1]):
        name = word.rpartition("/")[2]
        if name in {"exporter", "__main__.py"} and words[index + 1] in ROLES:
            return words[index + 1 :]
    return []


def completed(arguments: Sequence[str], proc: Path = Path("/proc")) -> list[str]:
    """Return arguments with `--check` and without a role behind those of the first process."""
    alone = "--check" in arguments and not set(arguments) & {*ROLES}
    return [*flags_of_first(proc), *arguments] if alone else [*arguments]


def _first(proc: Path) -> Path:
    """Return the folder of our cgroup's eldest process.

    With hostPID it is not number 1, which then is the node's init. Of the node's other processes
    nothing is read that one of them could block, such as its command line.
    """
    ours = _read(proc / "self" / "cgroup")
    ages: list[tuple[int, int]] = []
    for folder in proc.glob("[1-9]*"):
        if _read(folder / "cgroup") == ours:
            started = start_time(_read(folder / "stat"))
            if started is not None:
                ages.append((started, int(folder.name)))
    return proc / str(min(ages)[1]) if ages else proc


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
