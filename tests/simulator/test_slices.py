"""ResourceSlices as NVIDIA's DRA driver publishes them."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from exporter.model.device import NVIDIAS, normal_bus_id
from exporter.model.resource_slices import ResourceSlice, SliceDevice, inventory
from simulator.board import gpus_of
from simulator.gpu import Failure, Scenario
from simulator.slices import (
    Publishing,
    as_version,
    compute_domain_slices,
    devices,
    other_slices,
    resource_slices,
)

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
        "addressingMode": {"string": "None"},
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
        "addressingMode": {"string": "None"},
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


SEVEN = {
    *("memory", "multiprocessors", "copyEngines", "decoders", "encoders"),
    *("jpegEngines", "ofaEngines"),
}


def published(found: Sequence[dict[str, Any]]) -> tuple[SliceDevice, ...]:
    """As the exporter reads them."""
    return inventory([msgspec.convert(body, ResourceSlice) for body in found], NVIDIAS)


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


def test_where_a_gpu_is_plugged_in_is_published_by_newer_drivers() -> None:
    found = devices(scenario("8xH100"), publishing=Publishing(numa=True))
    nodes = [device["attributes"]["resource.kubernetes.io/numaNode"] for device in found]
    assert nodes == [{"int": 0}] * 4 + [{"int": 1}] * 4


def test_dynamic_mig_publishes_the_whole_gpu_and_every_part_it_could_have() -> None:
    one = scenario("2xH100", {1: ["3g.40gb"]})
    counters, first, second = resource_slices(
        one, "node-1", publishing=Publishing(dynamic_mig=True)
    )
    assert counters["spec"]["pool"]["resourceSliceCount"] == 3
    assert "devices" not in counters["spec"]
    sets = counters["spec"]["sharedCounters"]
    assert [part["name"] for part in sets] == ["gpu-0-counter-set", "gpu-1-counter-set"]
    assert sets[0]["counters"]["multiprocessors"] == {"value": "132"}
    assert sets[0]["counters"]["memory-slice-7"] == {"value": "1"}
    names = [device["name"] for device in first["spec"]["devices"]]
    assert names[:2] == ["gpu-0", "gpu-0-mig-1g10gb-19-0"]
    assert len(names) == 1 + 7 + 7 + 4 + 3 + 2 + 1 + 1
    assert len(second["spec"]["devices"]) == len(names)


def test_a_part_that_could_be_has_no_uuid_and_says_what_it_takes() -> None:
    found = devices(scenario("1xH100"), publishing=Publishing(dynamic_mig=True))
    by_name = {device["name"]: device for device in found}
    part = by_name["gpu-0-mig-1g20gb-15-6"]
    assert "uuid" not in part["attributes"]
    assert part["attributes"]["parentUUID"] == by_name["gpu-0"]["attributes"]["uuid"]
    assert set(part["capacity"]) == SEVEN == set(by_name["gpu-0"]["capacity"])
    (taken,) = part["consumesCounters"]
    assert taken["counterSet"] == "gpu-0-counter-set"
    assert {name for name in taken["counters"] if name.startswith("memory-")} == {
        *("memory-slice-6", "memory-slice-7")
    }


def test_an_ampere_gpu_in_mig_mode_is_only_handed_out_in_parts() -> None:
    found = devices(scenario("1xA100", {0: []}), publishing=Publishing(dynamic_mig=True))
    assert "gpu-0" not in {device["name"] for device in found}


def test_the_exporter_finds_the_place_of_a_part_by_its_name() -> None:
    one = scenario("1xB200")
    found = resource_slices(one, "node-1", publishing=Publishing(dynamic_mig=True))
    parts = {
        (device.gi_profile_id, device.placement_start): device.parent_uuid
        for device in published(found)
        if device.kind == "mig"
    }
    profiles = one.gpus[0].product.profiles
    assert set(parts) == {(p.profile_id, start) for p in profiles for start in p.starts}
    assert set(parts.values()) == {one.gpus[0].uuid}


def test_a_gpu_for_virtual_machines_has_another_identity() -> None:
    one = scenario("2xH100")
    full, vfio = devices(one, publishing=Publishing(vfio=frozenset({1})))
    assert (full["name"], vfio["name"]) == ("gpu-0", "gpu-vfio-1")
    assert vfio["attributes"]["deviceID"] == {"string": "0x2330"}
    assert vfio["attributes"]["vendorID"] == {"string": "0x10de"}
    assert vfio["attributes"]["iommuFDEnabled"] == {"bool": True}
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f-]{27}", vfio["attributes"]["uuid"]["string"])
    assert vfio["capacity"] == {"addressableMemory": {"value": "81559Mi"}}


@pytest.mark.parametrize(
    ("flag", "capacities"),
    [("memory", {"memory"}), ("unlimited", {"memory"}), ("10", {"memory", "shares"})],
)
def test_a_shareable_gpu_may_be_given_to_several_claims(flag: str, capacities: set[str]) -> None:
    (device,) = devices(scenario("1xH100"), publishing=Publishing(shares=flag))
    assert device["allowMultipleAllocations"] is True
    assert set(device["capacity"]) == capacities
    assert ("requestPolicy" in device["capacity"]["memory"]) == (flag == "memory")
    (plain,) = devices(scenario("1xH100"))
    assert "allowMultipleAllocations" not in plain


def test_other_drivers_publish_beside_it() -> None:
    (domain,) = compute_domain_slices("node-1", node_uid="u")
    assert domain["spec"]["driver"] == "compute-domain.nvidia.com"
    assert [device["name"] for device in domain["spec"]["devices"]] == ["channel-0", "daemon-0"]
    (net,) = other_slices("net.example.com", "node-1", [{"name": "nic-0"}], pool="nics")
    assert (net["spec"]["pool"]["name"], net["spec"]["devices"]) == ("nics", [{"name": "nic-0"}])


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1", "v1"])
def test_the_exporter_reads_the_same_from_every_version_of_the_api(version: str) -> None:
    found = resource_slices(scenario("2xH100", {1: ["1g.10gb"] * 7}), "node-1")
    older = [as_version(body, version) for body in found]
    assert older[0]["apiVersion"] == f"resource.k8s.io/{version}"
    assert ("basic" in older[0]["spec"]["devices"][0]) == (version == "v1beta1")
    assert published(older) == published(found)
