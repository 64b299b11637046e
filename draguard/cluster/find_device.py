"""A word of the user into devices: a UUID, a node and number, or the name in DRA. Pure."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from draguard.cluster.incidents import SHORTEST
from draguard.phrases import count, did_you_mean, some
from exporter.model.device import Device
from exporter.model.node_health import GpuHealth, NodeDeviceHealth
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.scope import parts_of
from remediator.model.incident_status import Target

NAMES = "a GPU's or slice's UUID, NODE/INDEX such as gpu-7/3, or DRIVER/POOL/DEVICE"

Minors = tuple[tuple[str, int | None, str], ...]
"""Node, minor number, UUID of each GPU that is reported."""
_LONGEST_INDEX = 9
_NEVER = datetime.fromtimestamp(0, UTC)


class NoDeviceError(Exception):
    """No device has that name; the message says what to write."""


class AmbiguousDeviceError(NoDeviceError):
    """Two different GPUs have that name."""


class NamedDevices(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that one word names."""

    word: str = ""
    """How the user named them, or what names one GPU of a node."""
    gpu: str
    """UUID of the physical GPU."""
    what: str
    """`the whole GPU` or `one slice`, in words."""
    targets: tuple[Target, ...]


def find_devices(
    word: str, inventory: tuple[SliceDevice, ...], reports: Iterable[NodeDeviceHealth]
) -> NamedDevices:
    """Return the devices that a word names, among those published now.

    A GPU includes every slice of it that is published, and its VFIO twin, because taints do not
    inherit. Raises NoDeviceError.
    """
    reported = [(report.metadata.name, gpu) for report in reports for gpu in report.status.gpus]
    minors = tuple((node, gpu.minor, gpu.uuid) for node, gpu in reported)
    found = (
        _by_uuid(word, inventory)
        or _by_number(word, inventory, minors)
        or _by_name(word, inventory)
        or _by_beginning(word, inventory)
    )
    if found is None:
        known = [f"{node}/{minor}" for node, minor, _ in minors if minor is not None]
        known += [uuid for part in inventory for uuid in (part.parent_uuid, part.uuid) if uuid]
        near = did_you_mean(word, known)
        raise NoDeviceError(f"no published device is named {word!r}{near}; give {NAMES}")
    if isinstance(found, SliceDevice):
        uuid = found.parent_uuid or found.uuid or ""
        what = "one slice" if found.kind == "mig" else "this device only"
        return NamedDevices(word=word, gpu=uuid, what=what, targets=(_target(found, uuid),))
    bus_ids = {gpu.uuid: gpu.pci_bus_id for _, gpu in reported}
    parts = list(_parts(found, bus_ids.get(found, ""), inventory))
    if not parts:
        raise NoDeviceError(
            f"{found} is reported, but no driver in gpuDrivers publishes it: there is no device "
            "for a taint rule"
        )
    slices = sum(part.kind == "mig" for part in parts)
    what = "the whole GPU" + (f", {count(slices, 'slice', 'slices')}" if slices else "")
    targets = tuple(sorted(_target(part, found) for part in parts))
    return NamedDevices(word=word, gpu=found, what=what, targets=targets)


def find_all_devices(
    words: Iterable[str],
    node: str,
    inventory: tuple[SliceDevice, ...],
    reports: tuple[NodeDeviceHealth, ...],
) -> tuple[NamedDevices, ...]:
    """Return the devices of all words, and of a whole node; "" for none.

    A device that two words name is in the first only. Raises NoDeviceError, with all problems.
    """
    found, problems = list[NamedDevices](), list[str]()
    seen: set[Device] = set()
    desired = dict.fromkeys((*words, *words_of_node(node, inventory, problems)))
    for word in desired:
        try:
            named = find_devices(word, inventory, reports)
        except NoDeviceError as error:
            problems.append(str(error))
            continue
        targets = tuple(target for target in named.targets if target.name not in seen)
        seen |= {target.name for target in targets}
        if targets:
            found.append(msgspec.structs.replace(named, targets=targets))
    if problems:
        raise NoDeviceError("; ".join(problems))
    return tuple(found)


def words_of_node(
    node: str, inventory: tuple[SliceDevice, ...], problems: list[str]
) -> tuple[str, ...]:
    """Return what names each GPU of a node: its UUID, or its name in DRA."""
    gpus = [part for part in inventory if part.node and not part.foreign]
    near = [part for part in gpus if part.node == node]
    if node and not near:
        nodes = {part.node for part in gpus}
        near_names = did_you_mean(node, nodes)
        problems.append(f"node {node!r} publishes no GPU{near_names}: it has nothing to cordon")
    return tuple(dict.fromkeys(part.parent_uuid or part.uuid or str(part.device) for part in near))


def _parts(
    uuid: str, reported_bus: str, inventory: tuple[SliceDevice, ...]
) -> Iterator[SliceDevice]:
    """Give what each node publishes of a GPU; a PCI address is valid on its own node only."""
    nodes = sorted({part.node for part in inventory if uuid in (part.uuid, part.parent_uuid)})
    for node in nodes:
        near = tuple(part for part in inventory if part.node == node)
        own = (
            part.pci_bus_id
            for part in near
            if uuid in (part.uuid, part.parent_uuid) and part.pci_bus_id
        )
        gpu = GpuHealth(
            uuid=uuid,
            presence="Unknown",
            presence_since=_NEVER,
            pci_bus_id=next(own, reported_bus),
        )
        yield from parts_of(gpu, near)


def _target(part: SliceDevice, gpu: str) -> Target:
    name = part.device
    return Target(name.driver, name.pool, name.device, part.uuid or gpu)


def _by_uuid(word: str, inventory: tuple[SliceDevice, ...]) -> SliceDevice | str | None:
    desired = word.lower()
    for part in inventory:
        if part.parent_uuid and part.parent_uuid.lower() == desired:
            return part.parent_uuid
        if part.uuid and part.kind != "vfio" and part.uuid.lower() == desired:
            return part if part.kind == "mig" else part.uuid
    return None


def _by_beginning(word: str, inventory: tuple[SliceDevice, ...]) -> SliceDevice | str | None:
    """Read the beginning of a UUID, if only one GPU or slice has it."""
    if len(word) < SHORTEST or "/" in word:
        return None
    uuids = {uuid for part in inventory for uuid in (part.parent_uuid, part.uuid) if uuid}
    begun = sorted(uuid for uuid in uuids if uuid.lower().startswith(word.lower()))
    if len(begun) > 1:
        raise AmbiguousDeviceError(f"{word!r} is ambiguous: {some(begun)}; give more of the UUID")
    return _by_uuid(begun[0], inventory) if begun else None


def _by_number(word: str, inventory: tuple[SliceDevice, ...], minors: Minors) -> str | None:
    """Read NODE/INDEX; the index is the minor number of /dev/nvidiaN, as in the name `gpu-N`.

    A report may be old, and it keeps the number of a GPU that is gone after another GPU got it. If
    reports and slices name different GPUs, the word is ambiguous.
    """
    node, _, index = word.partition("/")
    index = index.removeprefix("gpu-")
    if not index.isdecimal() or len(index) > _LONGEST_INDEX:
        return None
    found = {uuid for its, minor, uuid in minors if (its, minor) == (node, int(index))}
    found |= {
        part.parent_uuid or part.uuid or ""
        for part in inventory
        if part.node == node and f"{part.device.device}-".startswith(f"gpu-{index}-")
    }
    uuids = sorted(found - {""})
    if len(uuids) > 1:
        raise AmbiguousDeviceError(f"{word!r} is ambiguous: {' or '.join(uuids)}; give the UUID")
    return uuids[0] if uuids else None


def _by_name(word: str, inventory: tuple[SliceDevice, ...]) -> SliceDevice | str | None:
    driver, _, rest = word.partition("/")
    pool, _, device = rest.rpartition("/")
    desired = Device(driver, pool, device)
    part = next((part for part in inventory if part.device == desired), None)
    if part is not None and part.foreign:
        raise NoDeviceError(
            f"{word!r} is no GPU: {driver} is not among this installation's gpuDrivers "
            "(docs/install.md)"
        )
    return part.uuid or part if part is not None and part.kind == "gpu" else part
