"""A snapshot of the API server's objects: devices and their pods, rules, incidents.

Pure: decoded objects in, values out.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from exporter.model.device import NVIDIAS, Device
from exporter.model.node_health import GpuHealth, NodeDeviceHealth
from exporter.model.resource_slices import ResourceSlice, SliceDevice, inventory
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.taint_rule import EFFECTS, RawRule


class PodMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: datetime | None = None


class PodCondition(msgspec.Struct, frozen=True):
    type: str
    reason: str = ""


class PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    metadata: PodMeta
    status: PodStatus = PodStatus()


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read."""

    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[Claim, ...] = ()
    pods: tuple[Pod, ...] = ()
    rules: tuple[RawRule, ...] = ()
    reports: tuple[NodeDeviceHealth, ...] = ()
    incidents: tuple[Incident, ...] = ()


class Holder(msgspec.Struct, frozen=True):
    """A running pod that holds a device."""

    pod: str
    uid: str


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """One published device and what is known of it."""

    device: Device
    gpu: str
    """UUID of the physical GPU."""
    uuid: str
    """UUID of the device itself: the GPU's, or the slice's."""
    number: int | None = None
    """Minor number of the GPU; None while no report names it."""
    is_slice: bool = False
    holder: Holder | None = None
    effect: str = ""
    """The strongest that a DeviceTaintRule has on it, "" for none."""
    presence: str = ""
    """Present, Lost or Unknown, as reported; "" before the first report."""

    @property
    def name(self) -> str:
        return device_name(self.device)

    @property
    def node(self) -> str:
        return self.device.pool


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    seats: tuple[Seat, ...] = ()
    """By node and GPU."""
    rules: Mapping[str, str] = {}
    """Effect by `pool/device`, of everybody's rules."""
    incidents: tuple[Incident, ...] = ()
    """Newest first."""
    waiting: tuple[str, ...] = ()
    """Pods that do not run."""
    xids: Mapping[tuple[str, int], int] = {}
    """Count by GPU UUID and code, as reported."""

    def held(self) -> Mapping[str, Seat]:
        """Return the device of each running pod, by the pod's UID."""
        return {seat.holder.uid: seat for seat in self.seats if seat.holder}

    def seat(self, name: str) -> Seat | None:
        return next((seat for seat in self.seats if seat.name == name), None)


def device_name(device: Device) -> str:
    """Return `pool/device`; the demo has one driver, and pools are named after their nodes."""
    return f"{device.pool}/{device.device}"


def picture(objects: Objects) -> Picture:
    """Return the snapshot of the cluster that these objects describe."""
    gpus = {gpu.uuid: gpu for report in objects.reports for gpu in report.status.gpus}
    # Sorted by strength, so that the strongest rule of a device is kept.
    by_strength = sorted(objects.rules, key=lambda rule: strength(rule.spec.taint.effect))
    rules = {rule_target(rule): rule.spec.taint.effect for rule in by_strength}
    running = {
        pod.metadata.uid: pod.metadata.name for pod in objects.pods if pod.status.phase == "Running"
    }
    holders = {
        name: Holder(running[uid], uid)
        for claim in objects.claims
        for name, uid, _ in consumers(claim)
        if uid in running
    }
    seats = [_seat(device, gpus, rules, holders) for device in inventory(objects.slices, NVIDIAS)]
    waiting = [pod.metadata.name for pod in objects.pods if pod.metadata.uid not in running]
    seats.sort(
        key=lambda seat: (
            seat.node,
            -1 if seat.number is None else seat.number,
            seat.device.device,
        )
    )
    xids: dict[tuple[str, int], int] = {}
    for gpu in gpus.values():
        for record in gpu.xids:
            key = gpu.uuid, record.code
            xids[key] = xids.get(key, 0) + record.count
    newest_first = sorted(
        objects.incidents,
        key=lambda incident: (str(incident.metadata.creation_timestamp or ""), incident.name),
        reverse=True,
    )
    return Picture(
        seats=tuple(seats),
        rules=rules,
        incidents=tuple(newest_first),
        waiting=tuple(sorted(waiting)),
        xids=xids,
    )


def consumers(claim: Claim) -> Iterator[tuple[str, str, str]]:
    """Yield (`pool/device`, pod UID, pod name) of an allocated claim that is reserved."""
    status = claim.status
    if status is None or status.allocation is None:
        return
    for result in status.allocation.devices.results:
        for pod in status.reserved_for:
            device = Device(result.driver, result.pool, result.device)
            yield device_name(device), pod.uid, pod.name


def rule_target(rule: RawRule) -> str:
    """Return `pool/device` of a rule; one that selects more says so."""
    selector = rule.spec.device_selector
    if selector is None or not (selector.pool and selector.device):
        return f"every device that {rule.metadata.name} selects"
    return f"{selector.pool}/{selector.device}"


def strength(effect: str) -> int:
    """Return the order of effects; one that is not known counts as none."""
    known: tuple[str, ...] = EFFECTS
    return known.index(effect) if effect in known else -1


def _seat(
    one: SliceDevice,
    gpus: Mapping[str, GpuHealth],
    rules: Mapping[str, str],
    holders: Mapping[str, Holder],
) -> Seat:
    uuid = one.uuid or ""
    gpu = one.parent_uuid or uuid
    known = gpus.get(gpu)
    name = device_name(one.device)
    return Seat(
        device=one.device,
        gpu=gpu,
        uuid=uuid,
        number=known.minor if known else None,
        is_slice=one.kind == "mig",
        holder=holders.get(name),
        effect=rules.get(name, ""),
        presence=known.presence if known else "",
    )
