"""Small clusters as the demo reads them, and acts in them."""

from datetime import UTC, datetime, timedelta

import msgspec

from exporter.model.node_health import GpuHealth, NodeDeviceHealth, NodeHealth, XidRecord
from exporter.model.node_health_words import mig_mode
from exporter.model.resource_slices import ResourceSlice
from kubeapi.types import ObjectMeta
from remediator.model.claim import (
    Allocation,
    Claim,
    ClaimMeta,
    ClaimStatus,
    ConsumerReference,
    DeviceAllocation,
    DeviceResult,
)
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.incident_status import Phase, TimelineEntry
from remediator.model.taint_rule import RawRule, RawRuleSpec, RawTaint, Selector
from simulator.board import gpus_of
from simulator.gpu import Scenario
from simulator.slices import resource_slices
from tests.remediator.builders import make_status, with_fields
from tools.demo.diary import EVICTION, Entry, Kind, News
from tools.demo.expectations import Acted
from tools.demo.picture import Objects, Picture, Pod, PodCondition, PodMeta, PodStatus, picture

DRIVER = "gpu.nvidia.com"
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
BOARDS = gpus_of("node-a", "3xH100", {0: ["1g.10gb"] * 2})
SLICE = "node-a/gpu-0-mig-1g10gb-19-0"
HOLDERS = {SLICE: "infer-x-aaaaa", "node-a/gpu-1": "train-x-bbbbb", "node-a/gpu-2": "train-x-ccccc"}


def slices() -> tuple[ResourceSlice, ...]:
    found = resource_slices(Scenario(gpus=BOARDS), "node-a")
    return tuple(msgspec.convert(body, ResourceSlice) for body in found)


def gpu(number: int, *xids: XidRecord, presence: str = "Present") -> GpuHealth:
    raw = {"uuid": BOARDS[number].uuid, "presence": presence, "presenceTransitionTime": NOW}
    return msgspec.structs.replace(
        msgspec.convert(raw, GpuHealth),
        minor=number,
        xids=xids,
        mig_mode=mig_mode(BOARDS[number].mig),
    )


def xid(code: int, count: int = 1, gi: int | None = None) -> XidRecord:
    return XidRecord(code=code, count=count, first_seen=NOW, last_seen=NOW, gi=gi)


def report(*gpus: GpuHealth) -> NodeDeviceHealth:
    return NodeDeviceHealth(ObjectMeta(name="node-a"), NodeHealth(gpus=gpus))


def claim(device: str, pod: str) -> Claim:
    pool, name = device.split("/")
    results = (DeviceResult(DRIVER, pool, name),)
    status = ClaimStatus(
        Allocation(DeviceAllocation(results)), (ConsumerReference(pod, "pods", f"uid-{pod}"),)
    )
    return Claim(ClaimMeta(name=f"claim-{pod}", namespace="default"), status)


def pod(name: str, *, leaving: str | None = None, phase: str = "Running") -> Pod:
    """`leaving` is the reason for which it is being deleted."""
    conditions = (PodCondition("DisruptionTarget", leaving),) if leaving else ()
    deleted = None if leaving is None else NOW
    meta = PodMeta(name, "default", f"uid-{name}", deleted)
    return Pod(meta, PodStatus(phase, conditions))


def rule(device: str, effect: str) -> RawRule:
    pool, name = device.split("/")
    taint = RawTaint("draguard.dev/lost", effect, "xid-79")
    return RawRule(ObjectMeta(name="r"), RawRuleSpec(taint, Selector(DRIVER, pool, name)))


def incident(number: int, *phases: Phase, opened: int = 0) -> Incident:
    timeline = tuple(TimelineEntry(NOW, phase, "because") for phase in phases)
    spec = IncidentSpec("node-a", BOARDS[number].uuid)
    status = make_status(
        fault_class="lost", cause="xid-79", phase=phases[-1], message="because", timeline=timeline
    )
    name = f"{BOARDS[number].uuid.lower()}-1"
    created = NOW + timedelta(seconds=opened)
    return Incident(ObjectMeta(name=name, creation_timestamp=created), spec, status)


def objects(holders: dict[str, str] | None = None) -> Objects:
    """One node: GPU 0 in two slices, two whole GPUs; who holds what is given by device."""
    held = HOLDERS if holders is None else holders
    return Objects(
        slices=slices(),
        claims=tuple(claim(device, name) for device, name in held.items()),
        pods=tuple(pod(name) for name in held.values()),
        reports=(report(gpu(0), gpu(1), gpu(2)),),
    )


def seen(holders: dict[str, str] | None = None, **fields: object) -> Picture:
    return picture(with_fields(objects(holders), **fields))


def entry(at: float, kind: Kind, subject: str, value: str) -> Entry:
    return Entry(at, News(column="done", kind=kind, text="", subject=subject, value=value))


def eviction(name: str, at: float = 13.0, reason: str = EVICTION) -> Entry:
    return entry(at, "evicted", f"uid-{name}", reason)


def acted(device: str, now: Picture, *entries: Entry, before: Picture | None = None) -> Acted:
    """An act that began at 10 s, on a cluster where every device of `HOLDERS` is held."""
    first = before or seen()
    target = first.seat(device)
    assert target is not None
    return Acted(
        target=target, before=first, now=now, entries=entries, began=10.0, at=30.0, soak=8.0
    )
