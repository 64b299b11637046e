"""Pods with claims and plugins' devices, over a real gRPC connection to the exporter's reader."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.model import hardware, plugin_ids
from exporter.sensor.kubelet.podresources import list_containers
from simulator import holdings
from simulator.board import gpus_of
from simulator.gpu import Gpu
from simulator.kubelet import Kubelet


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    kubelet.start()
    yield kubelet
    kubelet.stop()


def live(gpus: list[Gpu]) -> hardware.Hardware:
    """What the exporter would know of these GPUs."""
    return hardware.Hardware(
        tuple(
            hardware.LiveGpu(
                uuid=gpu.uuid,
                number=gpu.minor,
                slices=tuple(
                    hardware.LiveSlice(uuid=instance.uuid, gi=instance.gi, ci=instance.ci)
                    for instance in gpu.instances
                ),
            )
            for gpu in gpus
        )
    )


def test_a_container_holds_several_claims_shares_and_other_drivers_devices(
    kubelet: Kubelet,
) -> None:
    shared = holdings.claim("a", holdings.resource("gpu-1", "n", share="s-1", claim_uid="uid-1"))
    mixed = holdings.claim(
        "b",
        holdings.resource("gpu-2", "n"),
        holdings.resource("channel-0", "n", driver="compute-domain.nvidia.com"),
    )
    kubelet.set_pods([holdings.pod("p", holdings.container(claims=[shared, mixed]))])
    (found,) = list_containers(kubelet.socket)
    assert (found.pod, found.namespace, found.container) == ("p", "ml", "main")
    assert {
        (device.claim, device.device, device.driver, device.share_id) for device in found.claims
    } == {
        ("a", "gpu-1", "gpu.nvidia.com", "s-1"),
        ("b", "gpu-2", "gpu.nvidia.com", ""),
        ("b", "channel-0", "compute-domain.nvidia.com", ""),
    }
    names = {device.cdi_ids for device in found.claims if device.claim == "a"}
    assert names == {("k8s.gpu.nvidia.com/claim=uid-1-gpu-1",)}


def test_every_grammar_of_a_plugins_ids_leads_to_the_hardware() -> None:
    gpus = gpus_of("n", "2xH100", {1: ["3g.40gb", "1g.10gb"]})
    there = live(gpus)
    cases = [(gpus[0], None)] + [(gpus[1], instance) for instance in gpus[1].instances]
    for gpu, instance in cases:
        for grammar, text in holdings.plugin_ids(gpu, instance, 3).items():
            desired = plugin_ids.parse(text)
            assert desired is not None, grammar
            assert plugin_ids.uuids(desired, there) == ((instance or gpu).uuid,), grammar
            assert (desired.replica == "3") == ("::" in text or "vgpu" in text)


def test_a_container_holds_what_device_plugins_gave_it(kubelet: Kubelet) -> None:
    one = holdings.plugin("nvidia.com/gpu", "GPU-1::2", "GPU-2::0")
    two = holdings.plugin("example.com/nic", "eth1")
    kubelet.set_pods([holdings.pod("p", holdings.container(plugins=[one, two]))])
    (found,) = list_containers(kubelet.socket)
    assert {(each.resource, each.id) for each in found.plugin} == {
        ("nvidia.com/gpu", "GPU-1::2"),
        ("nvidia.com/gpu", "GPU-2::0"),
        ("example.com/nic", "eth1"),
    }
