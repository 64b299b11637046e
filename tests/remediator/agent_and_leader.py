"""An agent's ledger, its pace and its Lease, and the leader that decides by what they say."""

from typing import Any

import msgspec

from exporter.agent.report import ledger, outline
from exporter.agent.report.clock_set import by_clock_of
from exporter.agent.report.write_pace import Pace
from exporter.model.device import Device
from exporter.model.node_health import GpuHealth
from exporter.model.readings import GpuReading
from exporter.model.resource_slices import SliceDevice
from exporter.model.signals import Signal
from remediator.diagnose.fault import Verdict, surroundings
from remediator.diagnose.verdict import verdict
from remediator.freshness import Renewals
from remediator.plan.node_decision import decide_node
from remediator.plan.view import AgentView, NodeView, SliceView
from tests.exporter.worlds import BUS, Sensed, at, gpu, seen
from tests.remediator.builders import DRIVER, NODE, Stored, policy

INTERVAL = 900.0
"""Seconds between reports in which nothing changes, as shipped."""
UPTIME = 86_400.0
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
        begun = ledger.begin("boot-1", "1", at(ahead))
        self.report = by_clock_of(begun, at(ahead - UPTIME))
        self._sensed = Sensed()
        self._pace, self._renewals = Pace(INTERVAL), Renewals()
        self._written = self.report
        device = Device(DRIVER, NODE, "gpu-0")
        self._inventory = (
            SliceDevice(device=device, kind="gpu", uuid=UUID, pci_bus_id=BUS["GPU-1"], node=NODE),
        )

    def clock_was_set(self, step: float) -> None:
        self.ahead += step
        self.report = by_clock_of(self.report, at(self.ahead - UPTIME))

    def logs(self, seconds: float, code: int, **fields: Any) -> None:
        line = self._sensed.kmsg(seconds + self.ahead, code, **fields)
        if line.kind == "xid":
            line = msgspec.structs.replace(line, uuid=UUID)
        self.takes(seconds, line)

    def takes(self, seconds: float, line: Signal) -> None:
        now = at(seconds + self.ahead)
        self.report = ledger.take(self.report, [line], run="run-1", kernel_sequence=None, now=now)
        self._writes(seconds)

    def looks(self, seconds: float, read: GpuReading) -> None:
        """Let the agent read its GPUs, write what is due, renew its Lease; then decide."""
        changes = seen(read, seconds=seconds + self.ahead, driver=self.driver)
        self.report = ledger.observe(self.report, changes)
        content = self._writes(seconds)
        self._renewals.note_renewal(NODE, content, self._written.content_hash, at(seconds))
        self.decides(seconds)

    def _writes(self, seconds: float) -> str:
        """Write the report if that is due; returns the hash of what it says."""
        whole = outline.finished(self.report)
        key, content = outline.change_key(whole), outline.content_hash(whole)
        if self._pace.wants(key, seconds):
            self._written = msgspec.structs.replace(whole, content_hash=content)
            self._pace.accepted(key, seconds)
        return content

    def decides(self, seconds: float) -> None:
        for _ in range(8):
            known = NodeView(
                node=NODE,
                agent=AgentView(
                    report=self._written,
                    renewals=self._renewals.of(NODE, self._written.content_hash),
                ),
                slices=SliceView(
                    inventory=self._inventory,
                ),
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
