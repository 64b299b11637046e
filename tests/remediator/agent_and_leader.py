"""An agent's ledger, its pace and its Lease, and the leader that decides by what they say."""

from datetime import timedelta
from typing import Any

import msgspec

from exporter.agent.report import ledger, outline
from exporter.agent.report.pace import Pace
from exporter.model.device import Device
from exporter.model.node_health import GpuHealth
from exporter.model.readings import GpuReading
from exporter.model.resource_slices import SliceDevice
from exporter.model.signals import Signal
from remediator.diagnose.fault import Verdict
from remediator.diagnose.freshness import Renewals
from remediator.diagnose.surroundings import surroundings
from remediator.diagnose.verdict import verdict
from remediator.plan.reconcile import decide_node
from remediator.plan.view import NodeView
from tests.exporter.worlds import BUS, Sensed, at, gpu, seen
from tests.remediator.builders import DRIVER, NODE, Stored, policy

INTERVAL = 900.0
"""Seconds between reports in which nothing changes, as shipped."""
UUID = "GPU-a0000001-0000-0000-0000-000000000000"


def reading(**fields: Any) -> GpuReading:
    """Return what NVML reads of the GPU that these tests are about."""
    well = {"dbe_volatile": 0, "dbe_aggregate": 0, "remap_pending": False, "remap_failure": False}
    return msgspec.structs.replace(gpu(1, **(well | fields)), uuid=UUID)


UNREAD = reading(recovery_supported=None, recovery_action=None, error="Unknown Error")


class AgentAndLeader:
    """Seconds are of the leader's clock; the node's is ahead of it by `ahead`."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead
        self.stored = Stored()
        self.driver = "595.45.04"
        self.report = ledger.begin("boot-1", "1", at(ahead))
        self._sensed = Sensed()
        self._pace, self._renewals = Pace(INTERVAL), Renewals()
        self._written = self.report
        device = Device(DRIVER, NODE, "gpu-0")
        self._inventory = (
            SliceDevice(device=device, kind="gpu", uuid=UUID, pci_bus_id=BUS["GPU-1"], node=NODE),
        )

    def clock_was_set(self, step: float) -> None:
        self.ahead += step
        self.report = ledger.clock_was_set(self.report, timedelta(seconds=step))

    def logs(self, seconds: float, code: int, **fields: Any) -> None:
        line = self._sensed.kmsg(seconds + self.ahead, code, **fields)
        if line.kind == "xid":
            line = msgspec.structs.replace(line, uuid=UUID)
        self.takes(seconds, line)

    def takes(self, seconds: float, line: Signal) -> None:
        now = at(seconds + self.ahead)
        self.report = ledger.take(self.report, [line], run="run-1", kernel_sequence=None, now=now)

    def looks(self, seconds: float, read: GpuReading) -> None:
        """Let the agent read its GPUs, write what is due, renew its Lease; then decide."""
        changes = seen(read, seconds=seconds + self.ahead, driver=self.driver)
        self.report = ledger.observe(self.report, changes)
        whole = outline.finished(self.report)
        key, content = outline.change_key(whole), outline.content_hash(whole)
        if self._pace.wants(key, seconds):
            self._written = msgspec.structs.replace(whole, content_hash=content)
            self._pace.accepted(key, seconds)
        self._renewals.renewed(NODE, content, self._written.content_hash, at(seconds))
        for _ in range(8):
            known = NodeView(
                node=NODE,
                report=self._written,
                inventory=self._inventory,
                renewals=self._renewals.of(NODE, self._written.content_hash),
            )
            decision = decide_node(
                self.stored.over(known), self.stored.fleet(), policy(), at(seconds)
            )
            for step in decision.steps:
                self.stored.take(step, at(seconds))
            if not decision.steps:
                return

    def keeps_looking(self, begin: int, end: int, read: GpuReading) -> None:
        for seconds in range(begin, end, 30):
            self.looks(seconds, read)

    @property
    def health(self) -> GpuHealth:
        return next(gpu for gpu in self.report.gpus if gpu.uuid == UUID)

    @property
    def verdict(self) -> Verdict:
        return verdict(self.health, surroundings(self.report))

    @property
    def is_tainted(self) -> bool:
        return bool(self.stored.effects())

    @property
    def phases(self) -> list[str]:
        return [incident.status.phase for incident in self.stored.incidents.values()]
