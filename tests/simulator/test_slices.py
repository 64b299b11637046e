"""ResourceSlices as NVIDIA's DRA driver publishes them."""

import pytest

from exporter.device import normal_bus_id
from simulator.board import gpus_of
from simulator.gpu import Failure, Scenario
from simulator.slices import devices, resource_slices

A100_FULL = {
    "name": "gpu-0",
    "attributes": {
        "type": {"string": "gpu"},
        "uuid": {"string": "GPU-a"},
        "productName": {"string": "NVIDIA A100-SXM4-40GB"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Ampere"},
        "cudaComputeCapability": {"version": "8.0.0"},
        "driverVersion": {"version": "580.95.5"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "addressingMode": {"string": "HMM"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:18:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:17"},
    },
    "capacity": {"memory": {"value": "40Gi"}},
}
H100_SLICE = {
    "name": "gpu-0-mig-1g20gb-15-6",
    "attributes": {
        "type": {"string": "mig"},
        "uuid": {"string": "MIG-a"},
        "parentUUID": {"string": "GPU-a"},
        "profile": {"string": "1g.20gb"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "580.95.5"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "addressingMode": {"string": "HMM"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:18:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:17"},
    },
    "capacity": {
        "memory": {"value": "20096Mi"},
        "multiprocessors": {"value": "26"},
        "copyEngines": {"value": "1"},
        "decoders": {"value": "1"},
        "encoders": {"value": "0"},
        "jpegEngines": {"value": "1"},
        "ofaEngines": {"value": "0"},
        "memorySlice6": {"value": "1"},
        "memorySlice7": {"value": "1"},
    },
}


def scenario(words: str, mig: dict[int, list[str]] | None = None) -> Scenario:
    return Scenario(gpus=gpus_of("node-1", words, mig))


def test_a_full_gpu_is_published_as_the_driver_does() -> None:
    one = scenario("1xA100")
    one.gpus[0].uuid = "GPU-a"
    (slice_,) = resource_slices(one, "node-1", generation=3)
    assert slice_["spec"] == {
        "driver": "gpu.nvidia.com",
        "nodeName": "node-1",
        "pool": {"name": "node-1", "generation": 3, "resourceSliceCount": 1},
        "devices": [A100_FULL],
    }
    assert slice_["metadata"]["name"].startswith("00000-gpu.nvidia.com-node-1-")
    assert (slice_["apiVersion"], slice_["kind"]) == ("resource.k8s.io/v1", "ResourceSlice")


def test_a_static_mig_slice_is_published_and_its_parent_is_not() -> None:
    one = scenario("1xH100", {0: ["3g.40gb", "2g.20gb", "1g.20gb"]})
    one.gpus[0].uuid = "GPU-a"
    one.gpus[0].instances[2].uuid = "MIG-a"
    published = list(devices(one))
    assert [device["name"] for device in published] == [
        "gpu-0-mig-3g40gb-9-0",
        "gpu-0-mig-2g20gb-14-4",
        "gpu-0-mig-1g20gb-15-6",
    ]
    assert published[2] == H100_SLICE


def test_the_profile_with_media_engines_has_a_dash_in_the_device_name() -> None:
    (device,) = devices(scenario("1xH100", {0: ["1g.10gb+me"]}))
    assert device["name"] == "gpu-0-mig-1g10gb-me-20-0"
    assert device["attributes"]["profile"] == {"string": "1g.10gb+me"}


def test_a_mig_gpu_without_instances_vanishes_from_the_slices() -> None:
    names = [device["name"] for device in devices(scenario("3xH100", {1: []}))]
    assert names == ["gpu-0", "gpu-2"]


def test_the_device_name_follows_the_minor_and_not_the_order() -> None:
    one = scenario("2xH100")
    one.gpus[0].minor, one.gpus[1].minor = 1, 0
    assert [device["name"] for device in devices(one)] == ["gpu-1", "gpu-0"]


def test_a_device_can_be_published_without_uuid() -> None:
    first, second = devices(scenario("2xH100"), without_uuid=["gpu-1"])
    assert "uuid" in first["attributes"]
    assert "uuid" not in second["attributes"]


def test_a_lost_gpu_stays_published_as_with_the_real_driver() -> None:
    one = scenario("2xH100")
    one.gpus[1].failure = Failure("lost")
    assert len(list(devices(one))) == 2


def test_more_devices_than_a_slice_may_hold_are_split() -> None:
    one = scenario("32xH100", {number: ["1g.10gb"] * 7 for number in range(32)})
    slices = resource_slices(one, "node-1")
    assert [len(part["spec"]["devices"]) for part in slices] == [128, 96]
    assert {part["spec"]["pool"]["resourceSliceCount"] for part in slices} == {2}
    assert len({part["metadata"]["name"] for part in slices}) == 2


def test_an_owner_is_named_only_when_the_node_is_known() -> None:
    (plain,) = resource_slices(scenario("1xH100"), "node-1")
    assert "ownerReferences" not in plain["metadata"]
    (owned,) = resource_slices(scenario("1xH100"), "node-1", node_uid="u")
    assert owned["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u", "controller": True}
    ]


@pytest.mark.parametrize("number", range(32))
def test_every_bus_id_is_in_the_normal_form(number: int) -> None:
    gpu = gpus_of("node-1", "32xH100")[number]
    assert normal_bus_id(gpu.pci) == gpu.pci
