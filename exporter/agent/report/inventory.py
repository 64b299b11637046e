"""GPUs that should be there against GPUs that are.

The kernel's PCI list and the DRA driver's slices say what to expect, NVML says
what is there. A GPU that was handed to a virtual machine, unbound or let go is
on the bus and not missing. Pure.
"""

from collections.abc import Iterable

import msgspec

from exporter.agent.report.gpu_state import Place
from exporter.model.node_health import GpuHealth, Inventory
from exporter.model.readings import GpuReading, Observation

MAX_MISSING = 32
"""GPUs named in `Inventory.missing`."""


class Published(msgspec.Struct, frozen=True):
    """What the DRA driver publishes on this node."""

    uuids: frozenset[str] = frozenset()
    """Of physical GPUs: published whole or in slices, but not as VFIO."""
    by_bus: dict[str, str] = {}
    """UUID by bus id (`device.normal_bus_id`)."""
    vfio: frozenset[str] = frozenset()
    """Bus ids of GPUs published for virtual machines."""

    @property
    def handed_over(self) -> frozenset[str]:
        """Bus ids of GPUs published for virtual machines alone.

        While NVIDIA's driver has a GPU that no claim holds, it is published in both forms.
        """
        return self.vfio - self.by_bus.keys()


class Bus(msgspec.Struct, frozen=True):
    """The kernel's PCI list as far as it can be believed; `present` None: it cannot."""

    present: frozenset[str] | None = None
    """Bus ids of NVIDIA GPUs."""
    aside: frozenset[str] = frozenset()
    """Of those, GPUs that another driver than NVIDIA's holds, or none."""

    def place_of(self, gpu: GpuHealth) -> Place | None:
        """Say where a GPU is, None where nobody knows."""
        if self.present is None or not gpu.pci_bus_id:
            return None
        if gpu.pci_bus_id in self.aside:
            return "aside"
        return "here" if gpu.pci_bus_id in self.present else "gone"


def bus_of(seen: Observation, gpus: Iterable[GpuHealth], published: Published | None) -> Bus:
    """Return the PCI list, if it names at least one of the GPUs that are known.

    A list that names none comes from a machine that hides its PCI devices. Where it shows a GPU
    without NVIDIA's driver that NVML lists, the drivers are hidden, and unbound GPUs are ignored.
    """
    present = frozenset(seen.pci_gpus or ())
    listed = {gpu.bus_id for gpu in seen.nvml.gpus} if seen.nvml else set[str]()
    if not present & (listed | {gpu.pci_bus_id for gpu in gpus}):
        return Bus()
    unbound = frozenset(seen.pci_unbound)
    if unbound & listed:
        unbound = frozenset[str]()
    handed_over = published.handed_over if published else frozenset[str]()
    return Bus(present, present & (unbound | handed_over))


def unidentified(seen: Observation) -> int:
    """Count the GPUs that NVML lists, and of which it is not known who they are.

    A GPU that is left out is known by its number. If the kernel says that NVIDIA's driver does not
    have it, then another GPU has that number now.
    """
    if seen.nvml is None:
        return 0
    left_out = {gpu.bus_id for gpu in seen.nvml.gpus if gpu.released or gpu.hung_call} - {""}
    on_bus = left_out & set(seen.pci_gpus or left_out)
    return seen.nvml.unidentified + len(left_out - on_bus | left_out & set(seen.pci_unbound))


def other_drivers(seen: Observation, published: Published | None) -> dict[str, str]:
    """Return the GPUs that NVIDIA's driver should have and has not, with who has them ("": none).

    Not those that were given away on purpose: published for virtual machines, or let go. Nothing
    where drivers or the list cannot be believed, as `bus_of` says.
    """
    readings = seen.nvml.gpus if seen.nvml else ()
    answer = {gpu.bus_id for gpu in readings if not (gpu.lost or gpu.released)}
    if answer & seen.pci_drivers.keys() or (answer and not answer & set(seen.pci_gpus or ())):
        return {}
    meant = {gpu.bus_id for gpu in readings if gpu.released}
    meant |= published.handed_over if published else frozenset()
    # The other form may still be published when such a driver has just been bound.
    vfio = published.vfio if published else frozenset[str]()
    meant |= {bus for bus, driver in seen.pci_drivers.items() if driver and bus in vfio}
    return {bus: driver for bus, driver in seen.pci_drivers.items() if bus not in meant}


def taken(bus: Bus, observation: Observation, published: Published | None) -> Inventory:
    """Count; while NVML cannot be queried nothing is missing."""
    nvml = observation.nvml
    offered = len(published.uuids) if published else None
    on_bus = None if bus.present is None else len(bus.present)
    if nvml is None:
        aside = None if bus.present is None else len(bus.aside)
        return Inventory(on_bus=on_bus, set_aside=aside, published=offered)
    seen = [gpu for gpu in nvml.gpus if not gpu.lost and not gpu.released]
    released = {gpu.bus_id for gpu in nvml.gpus if gpu.released}
    aside = None if bus.present is None else bus.aside | (released & bus.present)
    missing = _missing(bus, published, seen, released | bus.aside, nvml.gpus)
    return Inventory(
        seen=len(seen),
        on_bus=on_bus,
        set_aside=None if aside is None else len(aside),
        published=offered,
        missing=tuple(sorted(missing)[:MAX_MISSING]),
        unidentified=unidentified(observation),
    )


def _missing(
    bus: Bus,
    published: Published | None,
    seen: list[GpuReading],
    aside: set[str],
    readings: tuple[GpuReading, ...],
) -> set[str]:
    buses = {gpu.bus_id for gpu in seen}
    names = {gpu.uuid for gpu in readings if not gpu.lost}
    missing = set((bus.present or frozenset()) - buses - aside)
    if published is not None:
        at_bus = {uuid: bus_id for bus_id, uuid in published.by_bus.items()}
        for uuid in published.uuids - names:
            place = at_bus.get(uuid, "")
            if place not in aside:
                missing.add(place or uuid)
    return missing
