"""What the kernel says of a process: its user, its capabilities, what it sees."""

from pathlib import Path
from typing import NamedTuple

_SECCOMP_FILTER = 2
_CAPABILITIES = {6: "SETGID", 7: "SETUID", 21: "SYS_ADMIN", 34: "SYSLOG"}
"""The numbers of a few (linux/capability.h)."""


class Rights(NamedTuple):
    """From /proc/PID/status."""

    users: frozenset[int]
    """Real, effective, saved and file system's."""
    capabilities: int
    """Effective, permitted, inheritable, bounding and ambient together."""
    no_new_privileges: bool
    filtered: bool
    """Whether a seccomp filter stands between it and the kernel."""


def rights(process: Path) -> Rights:
    fields = dict(
        line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line
    )
    capabilities = 0
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        capabilities |= int(fields[name], 16)
    return Rights(
        users=frozenset(map(int, fields["Uid"].split())),
        capabilities=capabilities,
        no_new_privileges=fields["NoNewPrivs"].strip() == "1",
        filtered=int(fields["Seccomp"]) == _SECCOMP_FILTER,
    )


def names(capabilities: int) -> set[str]:
    """Return the names of capabilities; one that is not expected here is a number."""
    return {
        _CAPABILITIES.get(number, str(number)) for number in range(64) if capabilities >> number & 1
    }


def mounts(process: Path) -> dict[str, bool]:
    """Return by mount point whether it is writable."""
    found: dict[str, bool] = {}
    for line in (process / "mountinfo").read_text().splitlines():
        _, _, _, _, place, options, *_ = line.split()
        found[place] = "rw" in options.split(",")
    return found


def children(process: Path) -> list[Path]:
    """Return the processes that a process has started."""
    # A child belongs to the thread that started it.
    found = [file.read_text().split() for file in process.glob("task/*/children")]
    return [process.with_name(child) for children in found for child in children]
