"""Which devices a person means: by UUID, by node and number, or as DRA names them. Pure."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from draguard.phrases import count, did_you_mean
from exporter.model.device import Device
from exporter.model.node_health import GpuHealth, NodeDeviceHealth
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.scope import parts_of
from remediator.model.incident import Target

NAMES = "a GPU's or slice's UUID, NODE/INDEX such as gpu-7/3, or DRIVER/POOL/DEVICE"

Minors = tuple[tuple[str, int | None, str], ...]
"""Node, minor number, UUID of each GPU that is reported."""
_LONGEST_INDEX = 9
_NEVER = datetime.fromtimestamp(0, UTC)


class NoDeviceError(Exception):
    """Nothing goes by that name; the message says what to write."""


class AmbiguousDeviceError(NoDeviceError):
    """Two different GPUs go by that name."""


class NamedDevices(msgspec.Struct, frozen=True, kw_only=True):
    """What one word of a person means."""

    gpu: str
    """UUID of the physical GPU."""
    what: str
    """`the whole GPU` or `one slice`, in words."""
    targets: tuple[Target, ...]


def find_devices(
    word: str, inventory: tuple[SliceDevice, ...], reports: Iterable[NodeDeviceHealth]
) -> NamedDevices:
    """Return the devices that a word names, among what is published now.

    Whoever names a GPU means every slice of it that is published, and its VFIO
    twin: taints do not inherit. Raises NoDeviceError.
    """
    told = tuple(reports)
    minors = tuple((one.metadata.name, gpu.minor, gpu.uuid) for one in told for gpu in _gpus(one))
    found = (
        _by_uuid(word, inventory)
        or _by_number(word, inventory, minors)
        or _by_name(word, inventory)
    )
    if found is None:
        near = did_you_mean(word, _names(inventory, minors))
        raise NoDeviceError(f"no published device is named {word!r}{near}; give {NAMES}")
    if isinstance(found, SliceDevice):
        uuid = found.parent_uuid or found.uuid or ""
        what = "one slice" if found.kind == "mig" else "this device only"
        return NamedDevices(gpu=uuid, what=what, targets=(_target(found, uuid),))
    return _whole(found, {gpu.uuid: gpu for one in told for gpu in _gpus(one)}, inventory)


def _gpus(report: NodeDeviceHealth) -> tuple[GpuHealth, ...]:
    return report.status.gpus


def _names(inventory: tuple[SliceDevice, ...], minors: Minors) -> Iterator[str]:
    """Give every name that would have been understood, but DRIVER/POOL/DEVICE."""
    yield from (f"{node}/{minor}" for node, minor, _ in minors if minor is not None)
    yield from (uuid for one in inventory for uuid in (one.parent_uuid, one.uuid) if uuid)


def _whole(
    uuid: str, gpus: dict[str, GpuHealth], inventory: tuple[SliceDevice, ...]
) -> NamedDevices:
    own = [one for one in inventory if uuid in (one.uuid, one.parent_uuid)]
    nodes = sorted({one.node for one in own})
    parts = [part for node in nodes for part in _parts(uuid, node, gpus, inventory)]
    if not parts:
        raise NoDeviceError(
            f"{uuid} is reported, but no DRA driver publishes it: no pod can get it, and there is "
            "no device for a taint rule"
        )
    slices = sum(one.kind == "mig" for one in parts)
    what = "the whole GPU" + (f", {count(slices, 'slice', 'slices')}" if slices else "")
    return NamedDevices(
        gpu=uuid, what=what, targets=tuple(sorted(_target(one, uuid) for one in parts))
    )


def _parts(
    uuid: str, node: str, gpus: dict[str, GpuHealth], inventory: tuple[SliceDevice, ...]
) -> list[SliceDevice]:
    """Return what one node publishes of a GPU; a PCI address means something on its node only."""
    near = tuple(one for one in inventory if one.node == node)
    told = gpus[uuid].pci_bus_id if uuid in gpus else ""
    own = (one.pci_bus_id for one in near if uuid in (one.uuid, one.parent_uuid) and one.pci_bus_id)
    return parts_of(_like(uuid, next(own, told)), near)


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


def _by_number(word: str, inventory: tuple[SliceDevice, ...], minors: Minors) -> str | None:
    """Read NODE/INDEX; the index is the minor number of /dev/nvidiaN, as in the name `gpu-N`.

    A GPU that is gone keeps its number in a report while another one is given it,
    and a report may be old: where they differ nobody can know which GPU is meant.
    """
    node, _, index = word.partition("/")
    index = index.removeprefix("gpu-")
    if not index.isdecimal() or len(index) > _LONGEST_INDEX:
        return None
    found = {uuid for its, minor, uuid in minors if (its, minor) == (node, int(index))}
    found |= {
        one.parent_uuid or one.uuid or ""
        for one in inventory
        if one.node == node and f"{one.device.device}-".startswith(f"gpu-{index}-")
    }
    uuids = sorted(found - {""})
    if len(uuids) > 1:
        raise AmbiguousDeviceError(f"{word!r} is ambiguous: {' or '.join(uuids)}; give the UUID")
    return uuids[0] if uuids else None


def _by_name(word: str, inventory: tuple[SliceDevice, ...]) -> SliceDevice | str | None:
    driver, _, rest = word.partition("/")
    pool, _, device = rest.rpartition("/")
    wanted = Device(driver, pool, device)
    one = next((one for one in inventory if one.device == wanted), None)
    return one.uuid or one if one is not None and one.kind == "gpu" else one
