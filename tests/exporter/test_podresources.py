"""What the kubelet says, over real gRPC on a unix socket."""

import pytest

from exporter.podresources import PodResourcesError, list_containers
from exporter.readings import ClaimDevice, ContainerDevices, PluginDevice
from simulator.node import SimulatedNode

POD = {
    "name": "train-0",
    "namespace": "team",
    "containers": [
        {"name": "sidecar"},
        {
            "name": "main",
            "devices": [{"resource_name": "nvidia.com/gpu", "device_ids": ["GPU-1", "GPU-2"]}],
            "dynamic_resources": [
                {
                    "claim_name": "claim-0",
                    "claim_namespace": "team",
                    "claim_resources": [
                        {
                            "driver_name": "gpu.nvidia.com",
                            "pool_name": "node-a",
                            "device_name": "gpu-0",
                            "share_id": "share-1",
                            "cdi_devices": [{"name": "k8s.gpu.nvidia.com/claim=uid-gpu-0"}],
                        }
                    ],
                }
            ],
        },
    ],
}


def test_claims_and_device_plugin_ids_are_read_and_idle_containers_left_out(
    node: SimulatedNode,
) -> None:
    node.kubelet.set_pods([POD])
    (found,) = list_containers(node.kubelet.socket)
    cdi = ("k8s.gpu.nvidia.com/claim=uid-gpu-0",)
    claim = ClaimDevice("claim-0", "team", "gpu.nvidia.com", "node-a", "gpu-0", "share-1", cdi)
    plugin = tuple(PluginDevice("nvidia.com/gpu", uuid) for uuid in ("GPU-1", "GPU-2"))
    assert found == ContainerDevices("team", "train-0", "main", (claim,), plugin)


def test_an_answer_above_grpcs_usual_limit_is_read(node: SimulatedNode) -> None:
    node.kubelet.set_pods([POD])
    node.kubelet.swell(5 << 20)
    assert len(list_containers(node.kubelet.socket)) == 1


def reason(node: SimulatedNode) -> str:
    with pytest.raises(PodResourcesError) as caught:
        list_containers(node.kubelet.socket, deadline=0.5)
    assert str(node.kubelet.socket) in str(caught.value)
    return caught.value.reason


def test_each_failure_has_a_word_and_a_sentence(node: SimulatedNode) -> None:
    node.kubelet.hang()
    assert reason(node) == "Timeout"
    node.kubelet.heal()
    node.kubelet.fail("UNIMPLEMENTED")
    assert reason(node) == "Unsupported"
    node.kubelet.fail("INTERNAL")
    assert reason(node) == "Unavailable"
    node.kubelet.heal()
    node.kubelet.swell(17 << 20)
    assert reason(node) == "TooLarge"
    node.kubelet.stop()
    assert reason(node) == "NotFound"
