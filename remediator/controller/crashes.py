"""XIDs that may make a GPU suspect, and the pods that had them: see `diagnose.suspicion`.

Each report is compared with the one before it. What has risen is attributed to the pods that hold
the GPU or the slice now, by the claims, and to their top owners, by the pods. A job that has ended
and released its device in the meantime has no owner any more, and such an error counts for no
owner.

The memory ends with the process, and a node's first report is only a baseline: both can only delay
a suspicion, and a suspicion evicts no pod.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from threading import Lock

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth, MemorySlices, NodeHealth, XidRecord
from remediator.diagnose.fault import Fault
from remediator.diagnose.scope import scope
from remediator.diagnose.suspicion import (
    BY_OWNER,
    CODES,
    CONTAINED,
    UNKNOWN_OWNER,
    Owner,
    Sighting,
    Suspicions,
)
from remediator.diagnose.xid_faults import instance_of, mig_of
from remediator.model.claim import ADMIN, affected_pods
from remediator.plan.view import NodeView

Place = tuple[str, int, int | None, int | None, MemorySlices | None]
"""UUID, code, GPU instance, compute instance, placement."""
Counts = Mapping[Place, int]


class Crashes:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[str, tuple[str, Counts]] = {}
        """Boot id and counts of the last report, by node."""
        self._set_back: dict[str, int] = {}
        """By how many milliseconds the clock of a node was set back in that boot, in all."""
        self._suspicions = Suspicions()

    def needs_pods(self, view: NodeView) -> bool:
        """Return whether the node's pods are needed: some application XID was counted since."""
        with self._lock:
            return any(record.code in BY_OWNER for _, record in self._risen_records(view))

    def find_suspects(self, view: NodeView) -> Mapping[str, Fault]:
        """Take in a view of a node, and return what is suspect there, by GPU UUID."""
        report = view.agent.report
        # The next report of this node is a baseline again.
        if report is None:
            with self._lock:
                self._counts.pop(view.node, None)
                self._set_back.pop(view.node, None)
            return {}
        # Its counts stay: a later report is compared with them.
        if view.agent.stale:
            return {}
        with self._lock:
            self._follow_clock(view, report)
            for gpu, record in self._risen_records(view):
                owners = _owners(view, gpu, record)
                self._suspicions.add(Sighting(gpu.uuid, record.code, record.last_seen, owners))
            self._counts[view.node] = (report.boot_id, _counts(report.gpus))
            now = report.observed_at
            # A GPU of another node is not counted here.
            suspects = {
                gpu.uuid: self._suspicions.of(gpu.uuid, now)
                for gpu in report.gpus
                if now is not None and not view.slices.elsewhere.get(gpu.uuid)
            }
        return {uuid: fault for uuid, fault in suspects.items() if fault is not None}

    def _follow_clock(self, view: NodeView, report: NodeHealth) -> None:
        """Move what is remembered of a node as its agent moved the dates of the report."""
        boot, _ = self._counts.get(view.node, ("", {}))
        by = report.clock_set_back_ms - self._set_back.get(view.node, 0)
        if boot == report.boot_id and by > 0:
            # A GPU of another node has the dates of that node.
            uuids = {gpu.uuid for gpu in report.gpus if not view.slices.elsewhere.get(gpu.uuid)}
            self._suspicions.set_back(uuids, timedelta(milliseconds=by))
        self._set_back[view.node] = report.clock_set_back_ms

    def _risen_records(self, view: NodeView) -> Iterable[tuple[GpuHealth, XidRecord]]:
        """Return the records that count more than in the last report of the same boot.

        A second source that names the slice moves a count from one record to
        another, which makes no new error: the sum of a code must have risen.
        """
        report = view.agent.report
        boot, before = self._counts.get(view.node, ("", {}))
        if report is None or view.agent.stale or boot != report.boot_id or not boot:
            return
        for gpu in report.gpus:
            for record in gpu.xids:
                key = _place(gpu, record)
                forgeable = record.sources == ("syslog",)
                if record.code not in CODES or forgeable or record.count <= before.get(key, 0):
                    continue
                # With MIG each has a slice to watch, and repeats are those of its incidents.
                if record.code == CONTAINED and mig_of(record, gpu) is not False:
                    continue
                now = sum(reported.count for reported in gpu.xids if reported.code == record.code)
                then = sum(n for place, n in before.items() if place[:2] == key[:2])
                if now > then and not view.slices.elsewhere.get(gpu.uuid):
                    yield gpu, record


def _counts(gpus: Iterable[GpuHealth]) -> Counts:
    return {
        _place(gpu, record): record.count
        for gpu in gpus
        for record in gpu.xids
        if record.code in CODES
    }


def _place(gpu: GpuHealth, record: XidRecord) -> Place:
    return gpu.uuid, record.code, record.gi, record.ci, record.placement


def _owners(view: NodeView, gpu: GpuHealth, record: XidRecord) -> frozenset[Owner]:
    """Return the top owners of the pods on the device that the XID names.

    Admin access is a monitor's and not a user's. A pod without a controller is its own owner.
    """
    known = {
        pod.uid: Owner(pod.namespace, pod.owner or f"Pod/{pod.name}")
        for pod in view.usage.pods or ()
    }
    held = affected_pods(view.usage.claims, _devices(view, gpu, record), view.usage.pods)
    users = [affected for affected in held if affected.pod and affected.via != ADMIN]
    return frozenset(known.get(affected.uid, UNKNOWN_OWNER) for affected in users)


def _devices(view: NodeView, gpu: GpuHealth, record: XidRecord) -> frozenset[Device]:
    fault = Fault(
        fault_class="suspect",
        cause=f"xid-{record.code}",
        last_seen=record.last_seen,
        evidence="",
        instance=instance_of(record, gpu),
        placement=record.placement,
        gi_profile_id=record.gi_profile_id,
    )
    return frozenset(target.name for target in scope(fault, gpu, view.slices.devices).targets)
