"""What an engine of DCGM lists: entities, what they are called, NVLinks, CPUs."""

import ctypes

import msgspec

from exporter.sensor.dcgm import abi, cpus, link_states
from exporter.sensor.dcgm.error import DcgmError
from exporter.sensor.dcgm.library import Library
from exporter.sensor.dcgm.values import Entity, text_of

_TOO_OLD = (abi.Status.FUNCTION_NOT_FOUND, abi.Status.VER_MISMATCH)
"""What a library, or an engine, answers that does not know the newer of two calls."""


class LinkTable(msgspec.Struct, frozen=True):
    """A `link_states.LinkState` for each possible NVLink."""

    gpus: dict[int, list[int]]
    switches: dict[int, list[int]]


class InstanceInfo(msgspec.Struct, frozen=True):
    """A MIG instance in DCGM's hierarchy and what NVML calls it (dcgmMigEntityInfo_t)."""

    entity: Entity
    uuid: str
    """Of the physical GPU."""
    gi: int
    ci: int | None
    """None for a GPU instance."""


class Listing:
    """Nothing is kept: each answer is the engine's of now. Every call may raise DcgmError."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def entities(self, kind: abi.Kind) -> list[int]:
        """List the entities of a kind, also GPUs that the driver let go."""
        found = (ctypes.c_uint * abi.MAX_ENTITIES)()
        count = ctypes.c_int(abi.MAX_ENTITIES)
        self._library.ask("dcgmGetEntityGroupEntities", kind, found, ctypes.byref(count), 0)
        return found[: max(0, count.value)]

    def gpu_status(self, gpu: int) -> int:
        """Return an `abi.EntityStatus`, or a number that a newer DCGM has."""
        status = ctypes.c_uint()
        self._library.ask("dcgmGetGpuStatus", gpu, ctypes.byref(status))
        return status.value

    def identity(self, gpu: int) -> tuple[str, str, str]:
        """Return (UUID, PCI bus id, product) of a GPU, as DCGM prints them."""
        answer = abi.DeviceAttributes(abi.DEVICE_ATTRIBUTES_VERSION)
        self._library.ask("dcgmGetDeviceAttributes", gpu, ctypes.byref(answer))
        who = answer.identifiers
        return text_of(who.uuid), text_of(who.pci_bus_id), text_of(who.name)

    def instances(self) -> list[InstanceInfo]:
        """List GPU instances and compute instances."""
        answer = abi.MigHierarchy(abi.MIG_HIERARCHY_VERSION)
        self._library.ask("dcgmGetGpuInstanceHierarchy", ctypes.byref(answer))
        found: list[InstanceInfo] = []
        for entry in answer.entities[: answer.count]:
            ci = entry.info.nvml_compute_instance_id
            whole = entry.entity.kind == abi.Kind.GPU_INSTANCE or ci == abi.NO_INSTANCE
            name = (entry.entity.kind, entry.entity.id)
            uuid, gi = text_of(entry.info.gpu_uuid), entry.info.nvml_instance_id
            found.append(InstanceInfo(name, uuid, gi, None if whole else ci))
        return found

    def link_states(self) -> LinkTable:
        """Return the state of each possible NVLink, by GPU and by NVSwitch."""
        answer = link_states.LinkStates(link_states.VERSION)
        self._library.ask("dcgmGetNvLinkLinkStatus", ctypes.byref(answer))
        return LinkTable(
            {gpu.gpu: list(gpu.states) for gpu in answer.gpus[: answer.gpu_count]},
            {
                switch.switch: list(switch.states)
                for switch in answer.switches[: answer.switch_count]
            },
        )

    def cpus(self) -> list[cpus.CpuInfo]:
        """List the CPUs that the engine reads, with their cores."""
        answer = cpus.HierarchyV2(cpus.VERSION_2)
        try:
            self._library.ask("dcgmGetCpuHierarchy_v2", ctypes.byref(answer))
        except DcgmError as error:
            if error.code not in _TOO_OLD:
                raise
            answer = cpus.HierarchyV1(cpus.VERSION_1)
            self._library.ask("dcgmGetCpuHierarchy", ctypes.byref(answer))
        return cpus.listed(answer)
