"""What one decision costs beside ever more closed incidents: `python -m benchmarks.deciding`.

No server: a `Cache` is fed what watches would bring, 100 nodes of 8 GPUs with an open incident
each, of which one needs its eviction. Each round measures every number of closed incidents once,
after one of them has changed, and compares it with the decision beside none.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from time import perf_counter

import msgspec

from benchmarks import fleet_objects
from benchmarks.figures import Figure, Section, milliseconds, ratios
from benchmarks.machine import machine
from benchmarks.table import table
from exporter.model.device import Device
from exporter.model.node_health import NodeDeviceHealth, NodeHealth
from exporter.model.resource_slices import ResourceSlice
from kubeapi import clock
from kubeapi.types import ObjectMeta
from remediator.controller.cache import Cache
from remediator.model import taint_rule
from remediator.model.incident import Incident, IncidentSpec, incident_name
from remediator.model.incident_status import (
    EvictionStatus,
    FaultStatus,
    HistoryStatus,
    IncidentStatus,
    PolicyStatus,
    RuleRecord,
    ScopeStatus,
    Target,
    TimelineEntry,
)
from remediator.model.taint_rule import Effect, RawRule, Rule
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import ChangeRule
from remediator.plan.words import MODES
from remediator.policy.limits import Limits
from remediator.policy.table import SHIPPED, Policy

CLOSED = (0, 3_000, 10_000, 30_000)
NODES, GPUS, FAILED = 100, 8, 3
ROUNDS = 60
HISTORY = timedelta(days=30)
"""Over which closed incidents are spread; the youngest began two days ago."""
ENFORCE = Policy(
    rows=tuple(
        msgspec.structs.replace(
            row,
            mode="enforce",
        )
        for row in SHIPPED
    ),
    limits=Limits(),
)


class Ground:
    """One world with so many closed incidents."""

    def __init__(self, closed: int, now: datetime) -> None:
        self._now = now
        self.cache = Cache(lambda _: None)
        self._versions = 0
        for node in range(NODES):
            self._node(node)
        for number in range(closed):
            self._past(number, closed)

    def decide(self) -> float:
        """Return the seconds that one decision took, with all that it reads of the world."""
        self._past(0, 1)  # something changes before nearly every decision
        began = perf_counter()
        view = self.cache.view(fleet_objects.node_name(0), lambda _: "")
        decision = decide_node(view, self.cache.fleet(), ENFORCE, self._now)
        took = perf_counter() - began
        if not any(isinstance(step, ChangeRule) for step in decision.steps):
            raise RuntimeError(f"asks for nothing: {decision.sentence}")
        return took

    def _node(self, node: int) -> None:
        name, uuid = fleet_objects.node_name(node), fleet_objects.gpu_uuid(node, FAILED)
        since = self._now - timedelta(minutes=node + 1)
        health = msgspec.convert(fleet_objects.health(node, GPUS, since, FAILED), NodeHealth)
        part = msgspec.convert(fleet_objects.resource_slice(node, GPUS), ResourceSlice)
        self.cache.put_report(name, NodeDeviceHealth(ObjectMeta(name=name), health))
        self.cache.put_slice(f"{name}-gpu", None, part)
        device = Device(fleet_objects.DRIVER, name, f"gpu-{FAILED}")
        effect: Effect = "NoExecute" if 0 < node <= 3 else "NoSchedule"
        rule = Rule(
            device=device,
            effect=effect,
            fault="gpu",
            cause="xid-95",
            incident=incident_name(uuid, 1),
            uuid=uuid,
            gpu=uuid,
            node=name,
        )
        raw = msgspec.convert(taint_rule.manifest(rule, "v1"), RawRule)
        meta = msgspec.structs.replace(raw.metadata, uid=f"r-{node}", resource_version="1")
        self.cache.put_rule(rule.name, msgspec.structs.replace(raw, metadata=meta))
        self._current(rule, f"r-{node}", since)

    def _current(self, rule: Rule, uid: str, since: datetime) -> None:
        """Store the open incident of a rule."""
        device, first = rule.device, rule.node == fleet_objects.node_name(0)
        # Each has another cause: with one cause they would be a wave, which defers them all.
        cause = "xid-95" if first else f"xid-{rule.node}"
        records = (RuleRecord(rule.name, uid, str(device), rule.effect),)
        target = Target(device.driver, device.pool, device.device, rule.gpu)
        status = IncidentStatus(
            phase="Tainted",
            fault=FaultStatus(fault_class="gpu", cause=cause),
            scope=ScopeStatus(devices=(target,), rules=records),
            eviction=EvictionStatus(
                tainted_at=since, evicting_at=since if rule.effect == "NoExecute" else None
            ),
            policy=PolicyStatus(mode=MODES["enforce"]),
            timeline=(TimelineEntry(since, "Suspected", "opened"),),
        )
        self._store(IncidentSpec(rule.node, rule.gpu), status, since)

    def _past(self, number: int, of: int) -> None:
        """Store a closed incident; storing the first one again counts as a change."""
        began = self._now - timedelta(days=2) - HISTORY * (number / of)
        node = NODES + number % (NODES * 100)
        self._store(
            IncidentSpec(
                fleet_objects.node_name(node),
                fleet_objects.gpu_uuid(node, number // (NODES * 100)),
            ),
            IncidentStatus(
                phase="Recovered",
                fault=FaultStatus(fault_class="gpu", cause="xid-95"),
                eviction=EvictionStatus(tainted_at=began, evicting_at=began),
                policy=PolicyStatus(mode=MODES["enforce"]),
                history=HistoryStatus(closed_at=began + timedelta(hours=6)),
            ),
            began,
        )

    def _store(self, spec: IncidentSpec, status: IncidentStatus, created: datetime) -> None:
        self._versions += 1
        name = incident_name(spec.uuid, 1)
        meta = ObjectMeta(
            name=name,
            uid=f"u-{name}",
            resource_version=str(self._versions),
            creation_timestamp=created,
        )
        self.cache.put_incident(name, Incident(meta, spec, status))


def measure(rounds: int, numbers: Sequence[int] = CLOSED) -> Section:
    now = clock.now()
    grounds = {closed: Ground(closed, now) for closed in numbers}
    for ground in grounds.values():
        ground.decide()
    took = {closed: list[float]() for closed in numbers}
    for _ in range(rounds):
        for closed, ground in grounds.items():
            took[closed].append(ground.decide())
    figures: list[Figure] = []
    for closed, seconds in took.items():
        what = f"beside {closed:,} closed incidents"
        figures.append(Figure(what=what, unit="ms", values=milliseconds(seconds), digits=2))
        if closed:
            paired = ratios(seconds, took[numbers[0]])
            figures.append(
                Figure(
                    what="in the same round without", unit="x", values=paired, digits=2, part=True
                )
            )
    return Section("One decision that asks for an eviction", tuple(figures))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deciding", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="times that each is measured [60]"
    )
    given = parser.parse_args(arguments)
    before = machine()
    print(f"{table([measure(given.rounds)])}\n\n{before}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
