"""What the names of devices go on meaning while their driver publishes nothing.

Thirty seconds after the end of a DRA driver the kubelet deletes its ResourceSlices, and says as
before which claim holds which device. The name means what it last meant, as long as what that rests
on stays the same: a `Stay`. Slices that go away end no binding, slices that bind the name anew do.

The report has what goes on like that (`last_published`), for the remediator, and for the agent that
comes after this one. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from exporter.model.device import Device
from exporter.model.last_published import last_published, published_device
from exporter.model.node_health import NodeHealth, PublishedDevice
from exporter.model.resource_slices import SliceDevice

MOST = 2048
"""Bindings kept of names that are not published any more; the latest ones."""


Part = tuple[str, int | None, int | None]
"""UUID, profile and first memory slice of a live MIG instance."""


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """What the meaning of a name rests on. What could not be read stays as it was."""

    boot_id: str
    uuid: str = ""
    """Of the GPU. Of a GPU for virtual machines: of what NVIDIA's driver has at its address."""
    minor: int | None = None
    """N of /dev/nvidiaN, which the names count. A driver that is loaded again may count anew."""
    mig: bool = False
    epoch: int | None = None
    """Of a MIG slice: none outlives a reset, though the next one may look like it."""
    parts: tuple[Part, ...] = ()
    """Of a MIG slice: what lives there."""


class Binding(msgspec.Struct, frozen=True):
    """A published device, and what its name rested on then; None: nothing that is known."""

    device: SliceDevice
    stay: Stay | None


Bindings = Mapping[Device, Binding]


def bind(before: Bindings, published: Iterable[SliceDevice], report: NodeHealth) -> Bindings:
    """Return the bindings after a look at what is published now."""
    node = _Node(report)
    now = {
        device.device: Binding(device, node.stay(device, old.stay if old else None))
        for device in published
        for old in (before.get(device.device),)
    }
    kept = [(name, old) for name, old in before.items() if name not in now and old.stay]
    return dict(kept[-MOST:]) | now


def known_devices(
    bindings: Bindings, published: tuple[SliceDevice, ...], report: NodeHealth
) -> tuple[SliceDevice, ...]:
    """Return what is published now, and the other devices whose names still mean what they did."""
    node, names = _Node(report), {device.device for device in published}
    away = [old for name, old in bindings.items() if name not in names]
    held = [old.device for old in away if old.stay and old.stay == node.stay(old.device, old.stay)]
    return (*published, *held) if held else published


def with_last_published(
    report: NodeHealth, bindings: Bindings, published: tuple[SliceDevice, ...]
) -> NodeHealth:
    """Return the report with what its GPUs are called whose pools have no devices any more.

    A driver that publishes others of a pool has left out the rest on purpose.
    """
    pools = {(device.device.driver, device.device.pool) for device in published}
    away: dict[str, list[PublishedDevice]] = defaultdict(list)
    for device in known_devices(bindings, published, report)[len(published) :]:
        name = device.device
        gpu = device.parent_uuid if device.kind == "mig" else device.uuid
        if device.kind != "vfio" and gpu and (name.driver, name.pool) not in pools:
            away[gpu].append(published_device(device))
    gpus = tuple(
        msgspec.structs.replace(gpu, last_published=tuple(away[gpu.uuid]))
        if gpu.last_published or gpu.uuid in away
        else gpu
        for gpu in report.gpus
    )
    return msgspec.structs.replace(report, gpus=gpus)


def reported_bindings(report: NodeHealth) -> Bindings:
    """Return the bindings that the agent before this one has reported."""
    return bind({}, last_published(report), report)


class _Node:
    """The hardware of a report, as names of devices lead to it."""

    def __init__(self, report: NodeHealth) -> None:
        self._boot_id = report.boot_id
        self._gpus = {gpu.uuid: gpu for gpu in report.gpus}
        there = [gpu for gpu in report.gpus if gpu.presence == "Present"]
        self._at = {gpu.pci_bus_id: gpu.uuid for gpu in there if gpu.pci_bus_id}
        self._numbered: dict[int | None, str] = {
            gpu.minor: gpu.uuid for gpu in there if gpu.minor is not None
        }

    def stay(self, device: SliceDevice, before: Stay | None) -> Stay | None:
        """Return what a device's name rests on now, None where that is not there or not known."""
        if device.kind == "vfio":
            at = self._at.get(device.pci_bus_id, "")
            return Stay(boot_id=self._boot_id, uuid=at) if device.pci_bus_id else None
        gpu = self._gpus.get((device.parent_uuid if device.kind == "mig" else device.uuid) or "")
        # Another board is where it was, or has its number: that of one that is lost is not read.
        if gpu is None or self._at.get(gpu.pci_bus_id, gpu.uuid) != gpu.uuid:
            return None
        if self._numbered.get(gpu.minor, gpu.uuid) != gpu.uuid:
            return None
        whole = Stay(boot_id=self._boot_id, uuid=gpu.uuid, minor=gpu.minor, mig=gpu.mig is True)
        if device.kind != "mig":
            return whole
        known = {part[0]: part for part in before.parts} if before else {}
        live = [(part.uuid, part.gi_profile_id, part.placement_start) for part in gpu.instances]
        # A place that is unread for once is where it was.
        live = [known.get(part[0], part) if None in part else part for part in live]
        place = (device.gi_profile_id, device.placement_start)
        parts = tuple(
            part
            for part in live
            if (part[0] == device.uuid if device.uuid else part[1:] == place and None not in place)
        )
        return msgspec.structs.replace(whole, epoch=gpu.epoch, parts=parts) if parts else None
