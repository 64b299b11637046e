"""Which devices a person means: by UUID, by node and number, or as DRA names them. Pure."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from draguard.output.amounts import count
from draguard.output.nearest import did_you_mean
from exporter.device import Device
from exporter.report import GpuHealth, NodeDeviceHealth
from exporter.slices import SliceDevice
from remediator.judge.scope import parts_of
from remediator.objects.incident import Target

NAMES = "a GPU's or slice's UUID, NODE/INDEX such as gpu-7/3, or DRIVER/POOL/DEVICE"

_LONGEST_INDEX = 9
_NEVER = datetime.fromtimestamp(0, UTC)


class NoDeviceError(Exception):
    """Nothing goes by that name, or too much; the message says what to write."""


class Meant(msgspec.Struct, frozen=True, kw_only=True):
    """What one word of a person means."""

    gpu: str
    """UUID of the physical GPU."""
    what: str
    """`the whole GPU` or `one slice`, in words."""
    targets: tuple[Target, ...]


def meant(
    word: str, inventory: tuple[SliceDevice, ...], reports: Iterable[NodeDeviceHealth]
) -> Meant:
    """Return the devices that a word names, among what is published now.

    Whoever names a GPU means every slice of it that is published, and its VFIO
    twin: taints do not inherit. Raises NoDeviceError.
    """
    gpus = {gpu.uuid: gpu for report in reports for gpu in report.status.gpus}
    minors = {(r.metadata.name, gpu.minor): gpu.uuid for r in reports for gpu in r.status.gpus}
    found = (
        _by_uuid(word, inventory)
        or _by_number(word, inventory, minors)
        or _by_name(word, inventory)
    )
    if found is None:
        near = did_you_mean(word, _names(inventory, minors))
        raise NoDeviceError(f"no published device goes by {word!r}{near}; name it by {NAMES}")
    if isinstance(found, SliceDevice):
        uuid = found.parent_uuid or found.uuid or ""
        return Meant(gpu=uuid, what="one slice", targets=(_target(found, uuid),))
    return _whole(found, gpus.get(found), inventory)


def _names(
    inventory: tuple[SliceDevice, ...], minors: Iterable[tuple[str, int | None]]
) -> Iterator[str]:
    """Give every name that would have been understood, but DRIVER/POOL/DEVICE."""
    yield from (f"{node}/{minor}" for node, minor in minors if minor is not None)
    yield from (uuid for one in inventory for uuid in (one.parent_uuid, one.uuid) if uuid)


def _whole(uuid: str, gpu: GpuHealth | None, inventory: tuple[SliceDevice, ...]) -> Meant:
    own = [one for one in inventory if uuid in (one.uuid, one.parent_uuid)]
    bus = gpu.pci_bus_id if gpu else next((one.pci_bus_id for one in own if one.pci_bus_id), "")
    node = {one.node for one in own}
    near = tuple(one for one in inventory if one.node in node)
    parts = parts_of(_like(uuid, bus), near)
    slices = sum(one.kind == "mig" for one in parts)
    what = "the whole GPU" + (f", {count(slices, 'slice', 'slices')}" if slices else "")
    return Meant(gpu=uuid, what=what, targets=tuple(sorted(_target(one, uuid) for one in parts)))


def _target(one: SliceDevice, gpu: str) -> Target:
    name = one.device
    return Target(name.driver, name.pool, name.device, one.uuid or gpu)


def _like(uuid: str, bus: str) -> GpuHealth:
    """Return a GPU of which only what its parts are found by is known."""
    return GpuHealth(uuid=uuid, presence="Unknown", presence_since=_NEVER, pci_bus_id=bus)


def _by_uuid(word: str, inventory: tuple[SliceDevice, ...]) -> SliceDevice | str | None:
    wanted = word.lower()
    for one in inventory:
        if one.parent_uuid and one.parent_uuid.lower() == wanted:
            return one.parent_uuid
        if one.uuid and one.kind != "vfio" and one.uuid.lower() == wanted:
            return one if one.kind == "mig" else one.uuid
    return None


def _by_number(
    word: str, inventory: tuple[SliceDevice, ...], minors: dict[tuple[str, int | None], str]
) -> str | None:
    """Read NODE/INDEX; the index is the minor number of /dev/nvidiaN, as in the name `gpu-N`."""
    node, _, index = word.partition("/")
    index = index.removeprefix("gpu-")
    if not index.isdecimal() or len(index) > _LONGEST_INDEX:
        return None
    reported = minors.get((node, int(index)))
    if reported is not None:
        return reported
    for one in inventory:
        name = one.device.device
        if one.node == node and (name == f"gpu-{index}" or name.startswith(f"gpu-{index}-")):
            return one.parent_uuid or one.uuid
    return None


def _by_name(word: str, inventory: tuple[SliceDevice, ...]) -> SliceDevice | str | None:
    driver, _, rest = word.partition("/")
    pool, _, device = rest.rpartition("/")
    wanted = Device(driver, pool, device)
    one = next((one for one in inventory if one.device == wanted), None)
    return one.uuid if one is not None and one.kind == "gpu" else one
