"""Slices of foreign drivers change nothing in a report, and no holder of a GPU."""

import msgspec
import pytest

from exporter.agent.join.claims import Holders, Known, join
from exporter.agent.join.published import published
from exporter.agent.report import ledger
from exporter.model.device import NVIDIAS, GpuDrivers
from exporter.model.hardware import of_report
from exporter.model.node_health import NodeHealth
from exporter.model.readings import ClaimDevice, ContainerDevices, Observation
from exporter.model.resource_slices import ResourceSlice, SliceDevice, inventory
from tests.exporter.worlds import BUS, START, gpu, mig_gpu, seen, unseen, with_bus, with_drivers
from tests.lab.foreign import DRIVERS, TYPES, Board, decoded, foreign_slices

NODE = "node-a"
BOARDS = [Board(*each) for each in BUS.items()][:3]
PLACES = tuple(BUS[f"GPU-{number}"] for number in (1, 2, 3))


def nvidias(*, buses: bool = True) -> ResourceSlice:
    """Return NVIDIA's slice of three GPUs; drivers before 25.12 published no bus id."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{number}"},
                **({"resource.kubernetes.io/pciBusID": {"string": place}} if buses else {}),
            },
        }
        for number, place in enumerate(PLACES, 1)
    ]
    spec = {"driver": "gpu.nvidia.com", "nodeName": NODE, "pool": {"name": NODE}}
    body = {"metadata": {"name": "nvidias"}, "spec": {**spec, "devices": devices}}
    return msgspec.convert(body, ResourceSlice)


def foreign_of(*types: str) -> list[ResourceSlice]:
    return decoded(foreign_slices(NODE, BOARDS, types))


def devices(*, foreign: bool, drivers: GpuDrivers = NVIDIAS) -> tuple[SliceDevice, ...]:
    return inventory([nvidias(buses=False), *(foreign_of(*TYPES) if foreign else ())], drivers)


def reported(
    looks: list[Observation], own: list[ResourceSlice], foreign: tuple[str, ...] = ()
) -> NodeHealth:
    offered = published(inventory([*own, *foreign_of(*foreign)], NVIDIAS))
    report = ledger.begin("boot-1", "1", START)
    for look in looks:
        report = ledger.observe(report, look, published=offered)
    return report


THREE = with_bus(seen(gpu(1), mig_gpu(2), gpu(3)), *PLACES)
WORLDS: dict[str, list[Observation]] = {
    "all there": [THREE],
    "one never listed": [with_bus(seen(gpu(1), gpu(2)), *PLACES)],
    "one lost": [THREE, with_bus(seen(gpu(1), gpu(2, lost=True), gpu(3), seconds=30), *PLACES)],
    "one no longer listed": [
        THREE,
        *(with_bus(seen(gpu(1), gpu(3), seconds=at), *PLACES) for at in (30, 60, 90, 120)),
    ],
    "one gone from the bus": [
        THREE,
        *(with_bus(seen(gpu(1), gpu(3), seconds=at), *PLACES[::2]) for at in (30, 60, 90, 120)),
    ],
    "one for virtual machines": [
        with_drivers(with_bus(seen(gpu(1), gpu(2)), *PLACES), {PLACES[2]: "vfio-pci"})
    ],
    "one unbound": [THREE, with_bus(seen(gpu(1), gpu(2)), *PLACES, unbound=PLACES[2:])],
    "NVML down": [THREE, with_bus(unseen(30), *PLACES)],
    "no list of PCI": [THREE, seen(gpu(1), gpu(3), seconds=90)],
    "no GPU at all": [seen()],
}
OWN = {"by bus id": [nvidias()], "without": [nvidias(buses=False)], "nothing": []}


@pytest.mark.parametrize("types", [TYPES, *((kind,) for kind in TYPES)], ids=" ".join)
@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("world", WORLDS)
def test_a_report_is_the_same_with_and_without_foreign_slices(
    world: str, own: str, types: tuple[str, ...]
) -> None:
    looks, slices = WORLDS[world], OWN[own]

    assert reported(looks, slices, types) == reported(looks, slices)


def test_a_foreign_vfio_device_at_a_gpus_bus_id_does_not_set_a_lost_gpu_aside() -> None:
    looks = WORLDS["one no longer listed"]
    lost = reported(looks, OWN["without"], ("vfio",)).gpus[1]

    assert (lost.uuid, lost.presence, lost.presence_reason) == ("GPU-2", "Lost", "NotListed")


def test_a_foreign_gpu_with_a_uuid_is_neither_expected_nor_missing() -> None:
    found = reported([THREE], OWN["by bus id"], ("gpu",)).inventory

    assert (found.published, found.missing) == (3, ())


def holds(driver: str, device: str) -> ContainerDevices:
    claim = ClaimDevice(claim="c", claim_namespace="team", driver=driver, pool=NODE, device=device)
    return ContainerDevices(namespace="team", pod="p", container="main", claims=(claim,))


def joined(*containers: ContainerDevices, foreign: bool, drivers: GpuDrivers = NVIDIAS) -> Holders:
    hardware = of_report(reported([THREE], OWN["by bus id"]).gpus)
    known = Known(
        published=devices(foreign=foreign, drivers=drivers), hardware=hardware, drivers=drivers
    )
    return join(containers, known=known)


def test_the_holder_of_a_gpu_is_the_same_beside_foreign_devices_of_its_name() -> None:
    own = holds("gpu.nvidia.com", "gpu-1")

    assert joined(own, foreign=True) == joined(own, foreign=False)
    assert list(joined(own, foreign=True).by_uuid) == ["GPU-1"]


@pytest.mark.parametrize("device", ["gpu-0", "gpu-0-mig-1g10gb-19-0", "gpu-vfio-0", "unknown"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_claim_of_a_foreign_device_holds_no_gpu(driver: str, device: str) -> None:
    found = joined(holds(driver, device), foreign=True)

    assert (found.by_uuid, found.misses) == ({}, ())
    (holder,) = found.elsewhere
    assert (holder.profile, holder.bus_id, holder.declared_memory) == ("", "", None)


def test_a_claim_of_a_driver_of_the_list_holds_its_gpu() -> None:
    (driver, *_) = DRIVERS
    found = joined(holds(driver, "gpu-0"), foreign=True, drivers=NVIDIAS | {driver})

    assert list(found.by_uuid) == ["GPU-1"]
