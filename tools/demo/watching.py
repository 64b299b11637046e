"""Reads for `picture` and `diary`: by watches on the API server, and from a metrics page."""

import re
import threading
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from exporter.model.node_health import NodeDeviceHealth
from exporter.model.resource_slices import ResourceSlice
from kubeapi.client import Client
from kubeapi.reflector import Reflector, ignore
from kubeapi.store import Change
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.taint_rule import RawRule
from tools.demo import diary
from tools.demo.diary import Entry, News
from tools.demo.picture import Objects, Picture, Pod, consumers, picture

_RESOURCE = "/apis/resource.k8s.io/v1"
_OURS = "/apis/draguard.dev/v1alpha1"
_XID_ROW = re.compile(r"^draguard_xid_errors_total\{(?P<labels>.*)\} (?P<count>\d+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
T = TypeVar("T")


class Watching:
    """The last known state of the cluster. `now` gives the time of an entry in seconds."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._now = now
        self._guard = threading.Lock()
        self._entries: list[Entry] = []
        self._devices: dict[str, str] = {}

        def watch(
            path: str, kind: type[T], on_change: Callable[[Change[T]], None] = ignore
        ) -> Reflector[T]:
            return Reflector(client, path, kind, on_change=on_change)

        self._slices = watch(f"{_RESOURCE}/resourceslices", ResourceSlice)
        self._claims = watch(f"{_RESOURCE}/resourceclaims", Claim, self._claim)
        self._rules = watch(
            f"{_RESOURCE}/devicetaintrules",
            RawRule,
            lambda change: self.tell(diary.of_rule(change.old, change.new)),
        )
        self._pods = watch("/api/v1/pods", Pod, self._pod)
        self._reports = watch(
            f"{_OURS}/nodedevicehealths",
            NodeDeviceHealth,
            lambda change: self.tell(diary.of_report(change.old, change.new)),
        )
        self._incidents = watch(f"{_OURS}/deviceincidents", Incident, self._incident)

    def start(self) -> None:
        for watch in self._all():
            watch.start()

    def stop(self) -> None:
        for watch in self._all():
            watch.stop()

    @property
    def synced(self) -> bool:
        return all(watch.synced for watch in self._all())

    def reports(self) -> Mapping[str, NodeDeviceHealth]:
        """Return the reports by node."""
        return self._reports.items()

    def picture(self) -> Picture:
        return picture(
            Objects(
                slices=tuple(self._slices.items().values()),
                claims=tuple(self._claims.items().values()),
                pods=tuple(self._pods.items().values()),
                rules=tuple(self._rules.items().values()),
                reports=tuple(self._reports.items().values()),
                incidents=tuple(self._incidents.items().values()),
            )
        )

    def entries(self) -> tuple[Entry, ...]:
        """Return everything that happened so far, oldest first."""
        with self._guard:
            return tuple(self._entries)

    def tell(self, changes: Iterable[News]) -> None:
        """Add to the diary."""
        at = self._now()
        with self._guard:
            self._entries += [Entry(at, change) for change in changes]

    def _all(self) -> tuple[Reflector[Any], ...]:
        return (
            self._slices,
            self._claims,
            self._rules,
            self._pods,
            self._reports,
            self._incidents,
        )

    def _incident(self, change: Change[Incident]) -> None:
        names = {
            gpu.uuid: diary.gpu_name(node, gpu)
            for node, report in self._reports.items().items()
            for gpu in report.status.gpus
        }
        self.tell(diary.of_incident(change.old, change.new, names))

    def _claim(self, change: Change[Claim]) -> None:
        if change.new is not None:
            # Kept beyond the claim, which may go before its pod does.
            self._devices |= {uid: device for device, uid, _ in consumers(change.new)}
        self.tell(diary.of_claim(change.old, change.new))

    def _pod(self, change: Change[Pod]) -> None:
        pod = change.new or change.old
        device = self._devices.get(pod.metadata.uid, "no device") if pod else ""
        self.tell(diary.of_pod(change.old, change.new, device))


def page(port: int, path: str = "/metrics") -> str:
    """Return what a process here serves, "" when it gives no good answer within two seconds."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2.0) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def xid_counts(page: str) -> Mapping[tuple[str, int], int]:
    """Return the XIDs that a metrics page counts, by GPU UUID and code."""
    found: dict[tuple[str, int], int] = {}
    for row in _XID_ROW.finditer(page):
        labels = dict(_LABEL.findall(row["labels"]))
        key = labels.get("UUID", ""), int(labels.get("code", "0"))
        found[key] = found.get(key, 0) + int(row["count"])
    return found
