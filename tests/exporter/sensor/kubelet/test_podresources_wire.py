"""PodResources replies from their bytes, held against protobuf itself."""
# pyright: basic
# Reason: protobuf builds the message classes at run time.

import contextlib
import time
import uuid
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from exporter import protocol
from exporter.model.claim_objects import key_of
from exporter.model.readings import ClaimDevice, ContainerDevices, Observation, PluginDevice
from exporter.sensor.kubelet import podresources_wire as wire
from simulator import kubelet_api as api
from tests.exporter.worlds import START

NAME = st.text(max_size=12)
CDI = st.fixed_dictionaries({"name": NAME})
DEVICE = st.fixed_dictionaries(
    {"driver_name": NAME, "pool_name": NAME, "device_name": NAME},
    optional={"share_id": NAME, "cdi_devices": st.lists(CDI, max_size=2)},
)
CLAIM = st.fixed_dictionaries(
    {"claim_name": NAME, "claim_namespace": NAME, "claim_resources": st.lists(DEVICE, max_size=2)}
)
PLUGIN = st.fixed_dictionaries(
    {"resource_name": NAME, "device_ids": st.lists(NAME, max_size=3)},
    optional={"topology": st.fixed_dictionaries({"nodes": st.just([{"ID": 1}])})},
)
CONTAINER = st.fixed_dictionaries(
    {"name": NAME},
    optional={
        "devices": st.lists(PLUGIN, max_size=2),
        "cpu_ids": st.lists(st.integers(0, 2**63 - 1), max_size=4),
        "memory": st.just([{"memory_type": "memory", "size": 2**64 - 1}]),
        "dynamic_resources": st.lists(CLAIM, max_size=2),
    },
)
POD = st.fixed_dictionaries(
    {"name": NAME, "namespace": NAME, "containers": st.lists(CONTAINER, max_size=3)}
)


def encoded(*pods: dict[str, Any]) -> bytes:
    return api.ListPodResourcesResponse(pod_resources=list(pods)).SerializeToString()


def by_protobuf(reply: bytes) -> tuple[ContainerDevices, ...]:
    """Read the same with the library."""
    pods = api.ListPodResourcesResponse.FromString(reply).pod_resources
    found = [
        ContainerDevices(
            pod.namespace,
            pod.name,
            container.name,
            tuple(
                sorted(
                    ClaimDevice(
                        claim.claim_name,
                        claim.claim_namespace,
                        device.driver_name,
                        device.pool_name,
                        device.device_name,
                        device.share_id,
                        tuple(
                            cdi.name
                            for cdi in device.cdi_devices
                            if cdi.name.endswith(f"-{device.device_name}")
                        ),
                    )
                    for claim in container.dynamic_resources
                    for device in claim.claim_resources
                )
            ),
            tuple(
                sorted(
                    PluginDevice(resource.resource_name, device)
                    for resource in container.devices
                    for device in resource.device_ids
                )
            ),
        )
        for pod in pods
        for container in pod.containers
    ]
    return tuple(sorted(devices for devices in found if devices.claims or devices.plugin))


@given(st.lists(POD, max_size=3))
def test_every_reply_is_read_as_protobuf_reads_it(pods: list[dict[str, Any]]) -> None:
    reply = encoded(*pods)
    assert wire.read(reply) == wire.Reply(by_protobuf(reply), 0)


@given(st.lists(POD, max_size=2), st.data())
def test_a_damaged_reply_is_read_or_refused_and_never_more(pods: Any, data: Any) -> None:
    reply = bytearray(encoded(*pods))
    for _ in range(data.draw(st.integers(1, 4))):
        if reply:
            reply[data.draw(st.integers(0, len(reply) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = wire.read(bytes(reply))
    except (wire.Malformed, wire.TooLarge):
        return
    try:
        expected = by_protobuf(bytes(reply))
    except DecodeError:
        return  # the library reads, and refuses, fields that nobody here needs
    assert found.refused or found.containers == expected


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(reply: bytes) -> None:
    with contextlib.suppress(wire.Malformed):
        assert all(devices.claims or devices.plugin for devices in wire.read(reply).containers)


def holding(name: str) -> dict[str, Any]:
    plugin = {"resource_name": "nvidia.com/gpu", "device_ids": ["GPU-1"]}
    return {"name": "pod", "namespace": "team", "containers": [{"name": name, "devices": [plugin]}]}


def test_a_container_whose_name_is_no_name_is_left_out_and_counted() -> None:
    long, good = holding("x" * (wire.MAX_TEXT + 1)), holding("main")
    found = wire.read(encoded(long, good))
    assert ([devices.container for devices in found.containers], found.refused) == (["main"], 1)
    no_text = encoded(holding("\u00e9")).replace("\u00e9".encode(), b"\xff\xff")
    assert wire.read(no_text) == wire.Reply((), 1)


def test_more_than_any_node_has_is_refused_before_it_is_built() -> None:
    ids = [f"GPU-{n:0500}" for n in range(5000)]
    many = holding("main")
    many["containers"][0]["devices"] = [{"resource_name": "nvidia.com/gpu", "device_ids": ids}]
    with pytest.raises(wire.TooLarge, match="2 MiB"):
        wire.read(encoded(many))
    with pytest.raises(wire.TooLarge, match="fields"):
        wire.read(b"\x0a\x00" * (wire.MAX_FIELDS + 1))


def full_node(containers: int, devices: int) -> list[dict[str, Any]]:
    """Return pods with a claim each; names are as long as those of large clusters."""

    def resource(pod: int, number: int) -> dict[str, Any]:
        uid = uuid.UUID(int=pod + (1 << 100))
        name = "gpu-{}-mig-1g10gb-19-{}".format
        ids = [f"k8s.gpu.nvidia.com/claim={uid}-{name(n, n)}" for n in range(number + 1)]
        return {
            "driver_name": "gpu.nvidia.com",
            "pool_name": "ip-10-0-113-204.eu-central-1.compute.internal-a-rack-of-many",
            "device_name": name(number, number),
            "share_id": str(uuid.UUID(int=8 * pod + number + (1 << 90))),
            "cdi_devices": [{"name": cdi} for cdi in ids],
        }

    pods: list[dict[str, Any]] = []
    for pod in range(containers):
        claim = {
            "claim_name": f"train-{pod:040}-gpus-{pod:05}",
            "claim_namespace": f"team-{pod % 20:030}",
            "claim_resources": [resource(pod, number) for number in range(devices)],
        }
        container = {"name": "main", "dynamic_resources": [claim]}
        named = {"name": f"train-{pod:040}", "namespace": f"team-{pod % 20:030}"}
        pods.append({**named, "containers": [container]})
    return pods


def test_a_thousand_containers_with_eight_devices_are_read_and_fit_into_a_message() -> None:
    reply = encoded(*full_node(1000, 8))
    begun = time.thread_time()

    found = wire.read(reply)

    assert time.thread_time() - begun < 5.0
    assert (len(found.containers), found.refused) == (1000, 0)
    assert {len(devices.claims) for devices in found.containers} == {8}
    # One CDI id a device: its own, which names the claim.
    seventh = next(devices for devices in found.containers if devices.pod == f"train-{7:040}")
    uids = {key_of(claim).uid for claim in seventh.claims}
    assert uids == {str(uuid.UUID(int=7 + (1 << 100)))}
    assert {len(claim.cdi_ids) for devices in found.containers for claim in devices.claims} == {1}
    observed = protocol.Observed(Observation(at=START, containers=found.containers))
    assert len(protocol.encode(observed)) < protocol.MAX_FRAME


@pytest.mark.parametrize(
    "reply",
    [
        b"\x0a\x05ab",  # a pod longer than the reply
        b"\x0a\x02\x1a\x09" + b"x" * 20,  # a container longer than its pod
        b"\x02\x00",  # field number 0
        b"\x0d\x00",  # a fixed32 of one byte
        b"\x0b\x0c",  # a group
        b"\x0a",  # no length
        b"\x08" + b"\x80" * 11,  # a number without end
    ],
)
def test_a_reply_that_contradicts_itself_is_malformed(reply: bytes) -> None:
    with pytest.raises(wire.Malformed):
        wire.read(reply)


def test_fields_of_a_fixed_size_that_a_later_kubelet_adds_are_stepped_over() -> None:
    device = {"resource_name": "nvidia.com/gpu", "device_ids": ["GPU-1"]}
    container = {"name": "c", "devices": [device]}
    known = encoded({"name": "p", "namespace": "n", "containers": [container]})
    fixed32, fixed64 = bytes([15 << 3 | 5]) + bytes(4), bytes([15 << 3 | 1]) + bytes(8)

    assert wire.read(fixed32 + fixed64 + known) == wire.read(known) != wire.read(b"")
