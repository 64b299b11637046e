"""Which pod and container a process belongs to, from its control group.

The kubelet puts the pod's UID and the runtime the container's id into the path:
`…/pod<uid>/<id>` with the cgroupfs driver, `…-pod<uid_>.slice/<runtime>-<id>.scope`
with systemd, both in cgroup v1 and v2. `placement` is pure; the reader keeps
what it knows of the processes that it was last queried for.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from exporter.sensor.kernel_log import pid_namespace

MOST_PROCESSES = 8192
"""Processes looked at in one pass; those beyond are not known."""

_LONGEST = 1 << 16
"""Bytes of a /proc file that are read."""
_POD = re.compile(
    r"(?:^|[-/])pod"
    r"(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
    r"(?:\.slice)?(?=[/:]|$)",
    re.IGNORECASE,
)
"""The UID of a pod from a file on the node is a hash of 32 digits without dashes."""
_CONTAINER = re.compile(
    r"[/:](?!crio-conmon-)(?:[a-z][a-z-]{0,30}[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?(?=[/:]|$)"
)
"""`cri-containerd-`, `crio-`, `docker-`, or nothing before it."""
_LONGEST_NUMBER = 20
"""Digits of a 64-bit number."""
_START_TIME = 19
"""Place of `starttime` in /proc/<pid>/stat behind the name in brackets (proc_pid_stat(5))."""


class Placement(msgspec.Struct, frozen=True):
    """Where a process runs; both "" for a process of no pod."""

    pod_uid: str = ""
    container_id: str = ""


def placement(text: str) -> Placement:
    """Return what /proc/<pid>/cgroup says.

    Where containers are nested, the outermost pod and its own container: they are
    this node's kubelet's.
    """
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        pod = _POD.search(path)
        if pod is not None:
            container = _CONTAINER.search(path, pod.end())
            uid = pod["uid"].lower().replace("_", "-")
            return Placement(uid, container["id"] if container else "")
    return Placement()


def start_time(stat: bytes) -> int | None:
    """Return when a process started, in clock ticks since boot, from /proc/<pid>/stat."""
    fields = stat.rpartition(b")")[2].split()
    ticks = fields[_START_TIME] if len(fields) > _START_TIME else b""
    return int(ticks) if ticks.isdigit() and len(ticks) <= _LONGEST_NUMBER else None


class Cgroups:
    """Reads the placements of processes; remembers those of the last pass, and no others."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self.apart = pid_namespace.certainly_apart(proc)
        """Why the node's processes cannot be seen from here; "" when they can."""
        self._known: dict[int, tuple[int, Placement]] = {}
        """By pid: when the process started, as pids are used again, and where it runs."""

    def placements(self, pids: Iterable[int]) -> dict[int, Placement]:
        """Return where these processes run; one that is gone or cannot be read is left out."""
        chosen = list(dict.fromkeys(pids))[:MOST_PROCESSES]
        self._known = {pid: found for pid in chosen if (found := self._look(pid)) is not None}
        return {pid: place for pid, (_, place) in self._known.items()}

    def _look(self, pid: int) -> tuple[int, Placement] | None:
        started = self._started(pid)
        known = self._known.get(pid)
        if started is None or (known is not None and known[0] == started):
            return None if started is None else known
        text = self._read(pid, "cgroup")
        # The pid may have been used again between the two looks.
        if text is None or self._started(pid) != started:
            return None
        return started, placement(text.decode("utf-8", "replace"))

    def _started(self, pid: int) -> int | None:
        stat = self._read(pid, "stat")
        return None if stat is None else start_time(stat)

    def _read(self, pid: int, name: str) -> bytes | None:
        try:
            with (self._proc / str(pid) / name).open("rb") as file:
                return file.read(_LONGEST)
        except OSError:
            return None
