"""UIDs of pods by the folders in which the kubelet keeps their logs: `<namespace>_<name>_<uid>`.

PodResources names a pod and not its UID, which is what the cgroup of a process has. A claim tells
the UID, a device plugin does not, and to watch pods for it would cost the API server a watch for
each node. The folder is the CRI's (kubelet, pkg/kubelet/kuberuntime: BuildPodLogsDirectory).
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic

from exporter.agent.join.pod_facts import PodKey
from exporter.model.node_health import SourceHealth
from kubeapi import clock

_NAME = "pod-folders"
_FRESH = 5.0
"""Seconds for which a list is good: pods are held for longer."""
_MOST = 10_000
"""Folders that are looked at; a kubelet has 110 pods by default."""


class PodFolders:
    """Lists one folder now and then."""

    def __init__(self, folder: Path, now: Callable[[], float] = monotonic) -> None:
        self._folder = folder
        self._now = now
        self._read_at: float | None = None
        self._uids: Mapping[PodKey, str] = {}
        self._source = SourceHealth(name=_NAME, state="Down", reason="Starting")

    def uids(self) -> Mapping[PodKey, str]:
        """Return the UID of each pod that has one folder; of two under one name none is known."""
        now = self._now()
        if self._read_at is None or now - self._read_at >= _FRESH:
            self._read_at = now
            self._read()
        return self._uids

    def source(self) -> SourceHealth:
        return self._source

    def _read(self) -> None:
        try:
            with os.scandir(self._folder) as entries:
                names = [entry.name for entry, _ in zip(entries, range(_MOST), strict=False)]
        except OSError as error:
            self._uids = {}
            self._source = SourceHealth(
                name=_NAME,
                state="Down",
                reason="PermissionDenied" if isinstance(error, PermissionError) else "NoFolder",
                message=f"{self._folder} cannot be listed ({error.strerror}), so shares of pods "
                "that hold a GPU by a device plugin are not known; mount the kubelet's log folder "
                "there (the chart does: exporter.podShares), or name it with --pod-log-dir",
            )
            return
        self._uids = uids_of(names)
        self._source = SourceHealth(name=_NAME, state="Up", last_success=clock.now())


def uids_of(names: list[str]) -> dict[PodKey, str]:
    """Return the UIDs in names of folders; neither a namespace nor a name may have a `_`. Pure."""
    found: dict[PodKey, set[str]] = {}
    for name in names:
        namespace, _, rest = name.partition("_")
        pod, _, uid = rest.partition("_")
        if namespace and pod and uid and "_" not in uid:
            found.setdefault((namespace, pod), set()).add(uid)
    # A pod that was made again under its name leaves the old folder for a while.
    return {key: min(uids) for key, uids in found.items() if len(uids) == 1}
