"""All that NVIDIA's DRA driver asks is answered, and the slices are what it makes of the answers.

Read in kubernetes-sigs/dra-driver-nvidia-gpu at commit 95932046683719c43b6a0dd9613c2e5aad5d6703
(v0.5.0-dev, 2026-08-07), `cmd/gpu-kubelet-plugin`, with the modules that are vendored there:
go-nvlib v0.12.0 (`pkg/nvlib/device`), go-nvml v0.13.3-1 (which takes the newest version of a call
that the library has) and nvidia-container-toolkit v1.19.1 (`pkg/nvcdi`, mode nvml).

That plugin was built and run once on the simulated library, with links of the same GPUs in
/sys/bus/pci/devices and a real API server. With DynamicMIG (A100, H100, H200, B200, GB200) and
without (A100, H100 with slices, B200) it published the devices that the simulator publishes.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simulator.build import simulated_calls
from simulator.node import SimulatedNode
from simulator.product import PRODUCTS, SHORT_NAMES
from simulator.slices import Publishing, devices, resource_slices
from tests.simulator.nvml_client import NvmlClient

CALLS: Mapping[str, str] = {
    "nvlib.go: sessions": (
        "nvmlInitWithFlags nvmlShutdown nvmlErrorString nvmlDeviceGetHandleByUUID"
    ),
    "nvlib.go: getGpuInfo, by go-nvlib's VisitDevices": (
        "nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetName "
        "nvmlDeviceGetMinorNumber nvmlDeviceGetUUID nvmlDeviceGetMigMode nvmlDeviceGetMemoryInfo "
        "nvmlDeviceGetArchitecture nvmlDeviceGetBrand nvmlDeviceGetCudaComputeCapability "
        "nvmlSystemGetDriverVersion nvmlSystemGetCudaDriverVersion nvmlDeviceGetPciInfo_v3 "
        "nvmlDeviceGetAddressingMode nvmlDeviceGetGpuInstanceProfileInfo "
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
    ),
    "nvlib.go: getMigDevices": (
        "nvmlDeviceGetMaxMigDeviceCount nvmlDeviceGetMigDeviceHandleByIndex "
        "nvmlDeviceGetGpuInstanceId nvmlDeviceGetGpuInstanceById nvmlGpuInstanceGetInfo "
        "nvmlDeviceGetComputeInstanceId nvmlGpuInstanceGetComputeInstanceById "
        "nvmlComputeInstanceGetInfo_v2 nvmlGpuInstanceGetComputeInstanceProfileInfo"
    ),
    "nvcdi: what a claim changes in a container": (
        "nvmlInit_v2 nvmlDeviceIsMigDeviceHandle nvmlDeviceGetDeviceHandleFromMigDeviceHandle "
        "nvmlDeviceGetIndex"
    ),
    "gate DynamicMIG: isDynamicMIGCapable": "nvmlDeviceGetVirtualizationMode",
    "gate DynamicMIG: createMigDevice, deleteMigDevice, maybeDisableMigMode": (
        "nvmlDeviceSetMigMode nvmlDeviceCreateGpuInstanceWithPlacement "
        "nvmlGpuInstanceCreateComputeInstance nvmlComputeInstanceDestroy nvmlGpuInstanceDestroy"
    ),
    "gate NVMLDeviceHealthCheck": (
        "nvmlEventSetCreate nvmlDeviceGetSupportedEventTypes nvmlDeviceRegisterEvents "
        "nvmlEventSetWait_v2 nvmlEventSetFree"
    ),
    "gate PassthroughSupport": (
        "nvmlDeviceGetHandleByPciBusId_v2 nvmlDeviceGetPersistenceMode nvmlDeviceSetPersistenceMode"
    ),
    "gate FabricManagerPartitioning": "nvmlDeviceGetModuleId",
}
"""Every NVML call of the driver, by where it is made."""
NO_PERMISSION = 4
RECORDINGS = Path(__file__).parent / "recordings"
Device = dict[str, Any]


@pytest.mark.parametrize("name", ["h100-80gb-hbm3-r580", "h200-r580"])
def test_a_profile_of_a_recorded_gpu_is_as_recorded(name: str) -> None:
    recorded = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    for profile in PRODUCTS[recorded["about"]["product"]].profiles:
        call = f"nvmlDeviceGetGpuInstanceProfileInfo(gpu, {profile.index})"
        code, info, _ = recorded["calls"][call]
        assert code == 0
        assert (info["name"], info["id"]) == (f"MIG {profile.name}", profile.profile_id)
        assert (info["memorySizeMB"], info["sliceCount"]) == (profile.memory_mib, profile.slices)
        engines = [info[field] for field in _CAPACITIES.values()]
        assert engines == [getattr(profile, found) for found in _OF_PROFILE]


@pytest.mark.parametrize("place", CALLS)
def test_every_call_of_the_driver_is_simulated(place: str) -> None:
    assert set(CALLS[place].split()) - simulated_calls() == set()


_LOOK = """
def placements(gpu, profile):
    count = c_uint()
    nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, None, byref(count))
    found = (c_nvmlGpuInstancePlacement_t * count.value)()
    nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, found, byref(count))
    return [[one.start, one.size] for one in found]

def profiles(gpu):
    for index in range(17):
        try:
            info = nvmlDeviceGetGpuInstanceProfileInfo(gpu, index)
        except p.NVMLError as error:
            if error.value not in (2, 3):
                raise
        else:
            names = [field[0] for field in info._fields_ if field[0] != "name"]
            yield index, {one: getattr(info, one) for one in names}, placements(gpu, info.id)

def parts(gpu):
    for index in range(nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            part = nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except p.NVMLError as error:
            if error.value not in (2, 6):
                raise
            continue
        gi = nvmlDeviceGetGpuInstanceById(gpu, nvmlDeviceGetGpuInstanceId(part))
        info = nvmlGpuInstanceGetInfo(gi)
        nvmlComputeInstanceGetInfo(
            nvmlGpuInstanceGetComputeInstanceById(gi, nvmlDeviceGetComputeInstanceId(part))
        )
        own = nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)
        assert nvmlDeviceIsMigDeviceHandle(part) and nvmlDeviceGetIndex(part) == index
        assert nvmlDeviceGetUUID(own) == nvmlDeviceGetUUID(gpu)
        yield nvmlDeviceGetUUID(part), info.profileId, [info.placement.start, info.placement.size]

def look():
    found = []
    for index in range(nvmlDeviceGetCount()):
        gpu = nvmlDeviceGetHandleByIndex(index)
        found.append({
            "minor": nvmlDeviceGetMinorNumber(gpu), "uuid": nvmlDeviceGetUUID(gpu),
            "mig": nvmlDeviceGetMigMode(gpu)[0], "memory": nvmlDeviceGetMemoryInfo(gpu).total,
            "name": nvmlDeviceGetName(gpu), "architecture": nvmlDeviceGetArchitecture(gpu),
            "brand": nvmlDeviceGetBrand(gpu), "cuda": nvmlDeviceGetCudaComputeCapability(gpu),
            "driver": nvmlSystemGetDriverVersion(), "cuda_driver": nvmlSystemGetCudaDriverVersion(),
            "bus": nvmlDeviceGetPciInfo(gpu).busId, "addressing": nvmlDeviceGetAddressingMode(gpu),
            "virtualization": nvmlDeviceGetVirtualizationMode(gpu),
            "profiles": list(profiles(gpu)), "parts": list(parts(gpu)),
        })
    return found
"""
_ARCHITECTURES = {7: "Ampere", 9: "Hopper", 10: "Blackwell"}
_BRANDS = {14: "Nvidia"}
_ADDRESSING = {0: "None", 1: "HMM", 2: "ATS"}
_SLICES = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 8, 6: 6, 7: 1, 8: 2, 9: 1}
"""Compute slices by NVML_GPU_INSTANCE_PROFILE_*."""
_HOPPER, _VGPU = 9, 2


class Driver:
    """What the driver makes of one GPU's answers."""

    def __init__(self, seen: Device, pci: Path) -> None:
        self.seen = seen
        self.name = f"gpu-{seen['minor']}"
        bus = seen["bus"].lower()
        self.bus = bus.removeprefix("0000") if bus.startswith("0000") else bus
        # As deviceattribute.GetPCIeRootAttributeByPCIBusID of Kubernetes, over /sys.
        self.root = (pci / self.bus).readlink().parts[2]
        self.toggles = seen["architecture"] >= _HOPPER
        self.profiles = {
            info["id"]: (self._profile(index, info["memorySizeMB"]), info, places)
            for index, info, places in seen["profiles"]
        }

    def _profile(self, index: int, mebibytes: int) -> str:
        total = self.seen["memory"]
        fraction = math.ceil(mebibytes * (1 << 20) / total * 8) / 8
        # Go rounds half up, Python to even.
        size = math.floor(fraction * -(-total // (1 << 30)) + 0.5)
        return f"{_SLICES[index]}g.{size}gb" + ("+me" if index in (7, 8) else "")

    def attributes(self, **own: str) -> Device:
        seen = self.seen
        driver = [str(int(part)) for part in seen["driver"].split(".")]
        texts = {
            **own,
            "productName": seen["name"],
            "brand": _BRANDS[seen["brand"]],
            "architecture": _ARCHITECTURES[seen["architecture"]],
            "addressingMode": _ADDRESSING[seen["addressing"]],
            "resource.kubernetes.io/pciBusID": self.bus,
            "resource.kubernetes.io/pcieRoot": self.root,
        }
        major, minor = seen["cuda"]
        versions = {
            "cudaComputeCapability": f"{major}.{minor}.0",
            "driverVersion": ".".join(driver),
            "cudaDriverVersion": (
                f"{seen['cuda_driver'] // 1000}.{seen['cuda_driver'] % 1000 // 10}.0"
            ),
        }
        return {name: {"string": text} for name, text in texts.items()} | {
            name: {"version": text} for name, text in versions.items()
        }

    def whole(self) -> Device:
        return {
            "name": self.name,
            "attributes": self.attributes(type="gpu", uuid=self.seen["uuid"]),
            "capacity": {"memory": {"value": _quantity(self.seen["memory"] >> 20)}},
        }

    def part(self, profile: int, start: int, **own: str) -> Device:
        text, info, _ = self.profiles[profile]
        short = text.replace(".", "").replace("+", "-")
        uuid = self.seen["uuid"]
        return {
            "name": f"{self.name}-mig-{short}-{profile}-{start}",
            "attributes": self.attributes(type="mig", parentUUID=uuid, profile=text, **own),
            "capacity": _capacity(info),
        }

    def static(self) -> list[Device]:
        """`GetDevice` of each GPU without MIG mode, else of each slice."""
        if not self.seen["mig"]:
            return [self.whole()]
        found: list[Device] = []
        for uuid, profile, (start, size) in self.seen["parts"]:
            device = self.part(profile, start, uuid=uuid)
            taken = {f"memorySlice{place}": {"value": "1"} for place in range(start, start + size)}
            found.append(device | {"capacity": device["capacity"] | taken})
        return found

    def dynamic(self) -> list[Device]:
        """`PartGetDevice` of what `GetPerGpuAllocatableDevices` finds with the gate, by name."""
        assert self.seen["virtualization"] != _VGPU
        if not (self.toggles or self.seen["mig"]):
            return self.static()
        whole = self.most()
        found = [
            self.part(profile, start) | self._takes(info, start, size)
            for profile, (_, info, places) in self.profiles.items()
            for start, size in places
        ]
        if self.toggles or not self.seen["mig"]:
            size = max(size for _, _, places in self.profiles.values() for _, size in places)
            full = self.whole() | {"capacity": _capacity(whole)}
            found.append(full | self._takes(whole, 0, size))
        return sorted(found, key=lambda device: device["name"])

    def most(self) -> Device:
        """Return the most of each capacity in any profile."""
        infos = [info for _, info, _ in self.profiles.values()]
        names = (*_CAPACITIES.values(), "memorySizeMB")
        return {name: max(info[name] for info in infos) for name in names}

    def _takes(self, info: Device, start: int, size: int) -> Device:
        engines = {
            "".join(f"-{c.lower()}" if c.isupper() else c for c in name): value
            for name, value in _capacity(info).items()
        }
        slices = {f"memory-slice-{place}": {"value": "1"} for place in range(start, start + size)}
        taken = {"counterSet": f"{self.name}-counter-set", "counters": engines | slices}
        return {"consumesCounters": [taken]}


_OF_PROFILE = (
    *("multiprocessors", "copy_engines", "decoders", "encoders"),
    *("jpeg_engines", "ofa_engines"),
)
_CAPACITIES = {
    "multiprocessors": "multiprocessorCount",
    "copyEngines": "copyEngineCount",
    "decoders": "decoderCount",
    "encoders": "encoderCount",
    "jpegEngines": "jpegCount",
    "ofaEngines": "ofaCount",
}


def _capacity(info: Device) -> Device:
    amounts = {name: str(info[field]) for name, field in _CAPACITIES.items()}
    amounts["memory"] = _quantity(info["memorySizeMB"])
    return {name: {"value": amount} for name, amount in amounts.items()}


def _quantity(mebibytes: int) -> str:
    return f"{mebibytes}Mi" if mebibytes % 1024 else f"{mebibytes // 1024}Gi"


def seen_by_driver(node: SimulatedNode) -> list[Driver]:
    with NvmlClient(node) as nvml:
        nvml.ask(f"exec({_LOOK!r})")
        nvml.ask("nvmlInit()")
        return [Driver(seen, node.pci_devices_dir) for seen in nvml.ask("look()")]


BOARDS = ",".join(f"2x{word}" for word in SHORT_NAMES)
DIVIDED = [2 * number + 1 for number in range(len(SHORT_NAMES))]


@pytest.fixture
def drivers(tmp_path: Path) -> tuple[SimulatedNode, list[Driver]]:
    """Two GPUs of each product, the second of which is divided."""
    node = SimulatedNode(tmp_path / "n", "node-1").create(BOARDS, mig={n: [] for n in DIVIDED})
    for number in DIVIDED:
        for profile in node.gpu(number).product.profiles[:2]:
            node.create_instance(number, profile.name)
    with node:
        return node, seen_by_driver(node)


def test_devices_are_what_the_driver_makes_of_the_answers(
    drivers: tuple[SimulatedNode, list[Driver]],
) -> None:
    node, seen = drivers
    published = {device["name"]: device for device in devices(node.scenario.load())}
    expected = {device["name"]: device for driver in seen for device in driver.static()}
    assert published == expected


def test_partitions_are_what_the_driver_makes_of_the_answers(
    drivers: tuple[SimulatedNode, list[Driver]],
) -> None:
    node, seen = drivers
    parts = resource_slices(node.scenario.load(), "node-1", publishing=Publishing(dynamic_mig=True))
    published = [part["spec"]["devices"] for part in parts if "devices" in part["spec"]]
    counted = [found for part in parts for found in part["spec"].get("sharedCounters", [])]

    assert published == [driver.dynamic() for driver in seen]
    whole = {device["name"]: device for found in published for device in found}
    sets = [driver.name for driver in seen if len(driver.dynamic()) > 1]
    assert [found["name"] for found in counted] == [f"{name}-counter-set" for name in sets]
    assert [found["counters"] for found in counted if found["name"][:-12] in whole] == [
        whole[name]["consumesCounters"][0]["counters"] for name in sets if name in whole
    ]


def test_a_gpu_is_divided_as_it_is_already_and_no_other_way(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    """A program reads the scenario and does not write it."""
    part = node.gpu(0).instances[0]
    assert nvml.error_of("nvmlDeviceSetMigMode(g[0], 1)") == 0
    assert nvml.error_of("nvmlDeviceSetMigMode(g[1], 0)") == 0
    nvml.ask("place = c_nvmlGpuInstancePlacement_t()")
    nvml.ask(f"gi = nvmlDeviceGetGpuInstanceById(g[0], {part.gi})")
    for line in (
        "nvmlDeviceSetMigMode(g[1], 1)",
        "nvmlDeviceCreateGpuInstanceWithPlacement(g[0], 19, byref(place))",
        "nvmlGpuInstanceCreateComputeInstance(gi, 0)",
        f"nvmlComputeInstanceDestroy(nvmlGpuInstanceGetComputeInstanceById(gi, {part.ci}))",
        "nvmlGpuInstanceDestroy(gi)",
    ):
        assert nvml.error_of(line) == NO_PERMISSION
