"""PodResources over a real gRPC connection on a unix socket."""
# pyright: basic
# Reason: grpcio has no types, and the PodResources messages are built at run time.

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from simulator import kubelet_api as api
from simulator.kubelet import Kubelet, KubeletError

POD = {
    "name": "train-0",
    "namespace": "ml",
    "containers": [
        {
            "name": "main",
            "devices": [{"resource_name": "nvidia.com/gpu", "device_ids": ["GPU-1", "GPU-2"]}],
            "dynamic_resources": [
                {
                    "claim_name": "train-0-gpu",
                    "claim_namespace": "ml",
                    "claim_resources": [
                        {
                            "driver_name": "gpu.nvidia.com",
                            "pool_name": "node-1",
                            "device_name": "gpu-3",
                            "share_id": "s",
                            "cdi_devices": [{"name": "k8s.gpu.nvidia.com/claim=uid-gpu-3"}],
                        },
                        {"driver_name": "d", "pool_name": "p", "device_name": "e"},
                    ],
                }
            ],
        }
    ],
}


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    kubelet.start()
    yield kubelet
    kubelet.stop()


def listed(kubelet: Kubelet, method: str = api.LIST_METHOD, timeout: float = 60.0) -> Any:
    options = [("grpc.max_receive_message_length", 16 * 1024 * 1024)]
    with grpc.insecure_channel(f"unix:{kubelet.socket}", options=options) as channel:
        call = channel.unary_unary(
            method,
            request_serializer=api.ListPodResourcesRequest.SerializeToString,
            response_deserializer=api.ListPodResourcesResponse.FromString,
        )
        return call(api.ListPodResourcesRequest(), timeout=timeout)


def test_a_pod_with_devices_and_claims_comes_back_as_it_was_set(kubelet: Kubelet) -> None:
    assert len(listed(kubelet).pod_resources) == 0
    kubelet.set_pods([POD])
    (pod,) = listed(kubelet).pod_resources
    assert (pod.name, pod.namespace) == ("train-0", "ml")
    (container,) = pod.containers
    assert list(container.devices[0].device_ids) == ["GPU-1", "GPU-2"]
    (claim,) = container.dynamic_resources
    first, second = claim.claim_resources
    assert (first.driver_name, first.pool_name, first.device_name, first.share_id) == (
        *("gpu.nvidia.com", "node-1", "gpu-3"),
        "s",
    )
    assert first.cdi_devices[0].name == "k8s.gpu.nvidia.com/claim=uid-gpu-3"
    assert first.HasField("share_id")
    assert not second.HasField("share_id")


def test_field_numbers_are_those_of_the_kubelet() -> None:
    """The bytes that a kubelet sends for one claim of one pod, written by hand."""
    resource = b"\x12\x01d\x1a\x01p\x22\x01e\x2a\x01s"
    claim = b"\x12\x01c\x1a\x01n\x22" + bytes([len(resource)]) + resource
    container = b"\x0a\x01m\x2a" + bytes([len(claim)]) + claim
    pod = b"\x0a\x01a\x12\x01b\x1a" + bytes([len(container)]) + container
    message = api.ListPodResourcesResponse.FromString(b"\x0a" + bytes([len(pod)]) + pod)
    found = message.pod_resources[0].containers[0].dynamic_resources[0]
    assert (found.claim_name, found.claim_namespace) == ("c", "n")
    assert str(found.claim_resources[0]).split() == [
        *("driver_name:", '"d"', "pool_name:", '"p"', "device_name:", '"e"'),
        *("share_id:", '"s"'),
    ]


def test_fields_that_a_newer_kubelet_adds_do_no_harm() -> None:
    message = api.ListPodResourcesResponse.FromString(b"\x0a\x06\x0a\x01a\xfa\x01\x00")
    assert message.pod_resources[0].name == "a"


@pytest.mark.parametrize("method", ["Get", "GetAllocatableResources"])
def test_other_methods_are_unimplemented(kubelet: Kubelet, method: str) -> None:
    with pytest.raises(grpc.RpcError) as reported:
        listed(kubelet, f"/{api.SERVICE}/{method}")
    assert reported.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_it_can_fail_and_heal(kubelet: Kubelet) -> None:
    kubelet.set_pods([POD])
    kubelet.fail("RESOURCE_EXHAUSTED", "too many requests")
    with pytest.raises(grpc.RpcError) as reported:
        listed(kubelet)
    assert reported.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reported.value.details() == "too many requests"
    kubelet.heal()
    assert len(listed(kubelet).pod_resources) == 1


def test_it_can_hang_until_it_is_healed(kubelet: Kubelet) -> None:
    kubelet.hang()
    with pytest.raises(grpc.RpcError) as reported:
        listed(kubelet, timeout=0.2)
    assert reported.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    kubelet.heal()
    assert len(listed(kubelet).pod_resources) == 0
    assert kubelet.calls in (1, 2), "the first may have been given up before it arrived"


def test_it_can_answer_more_than_grpc_takes_by_default(kubelet: Kubelet) -> None:
    kubelet.swell(5 * 1024 * 1024)
    assert len(listed(kubelet).pod_resources[0].name) == 5 * 1024 * 1024


def test_a_socket_that_cannot_be_bound_says_what_to_do(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "no" / "kubelet.sock")
    with pytest.raises(KubeletError, match="choose a folder that is writable"):
        kubelet.start()
    kubelet.stop()
