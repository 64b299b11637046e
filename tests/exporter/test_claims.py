"""Who holds each GPU and slice."""

from exporter.claims import join
from exporter.device import Device
from exporter.labels import agreed, text
from exporter.readings import ClaimDevice, ContainerDevices, PluginDevice
from exporter.slices import SliceDevice


def claim(device: str, name: str = "claim") -> ClaimDevice:
    return ClaimDevice(name, "team", "gpu.nvidia.com", "node-a", device)


def holds(container: str, *claims: ClaimDevice) -> ContainerDevices:
    return ContainerDevices("team", "pod", container, tuple(claims))


def published(name: str, uuid: str | None) -> SliceDevice:
    return SliceDevice(device=Device("gpu.nvidia.com", "node-a", name), kind="gpu", uuid=uuid)


def test_full_gpus_and_static_slices_are_joined_by_uuid() -> None:
    found = join(
        [holds("main", claim("gpu-0"), claim("gpu-1-mig", "other"))],
        [published("gpu-0", "GPU-1"), published("gpu-1-mig", "MIG-1")],
    )
    assert sorted(found.by_uuid) == ["GPU-1", "MIG-1"]
    assert found.by_uuid["MIG-1"][0].dra == claim("gpu-1-mig", "other")
    assert found.misses == ()


def test_a_shared_claim_has_a_holder_per_container() -> None:
    found = join(
        [holds("a", claim("gpu-0")), holds("b", claim("gpu-0"))], [published("gpu-0", "GPU-1")]
    )
    assert [one.container for one in found.by_uuid["GPU-1"]] == ["a", "b"]


def test_what_cannot_be_joined_is_counted_with_its_reason() -> None:
    plugin = ContainerDevices("team", "old", "main", (), (PluginDevice("nvidia.com/gpu", "0"),))
    found = join(
        [holds("main", claim("gpu-7"), claim("dynamic")), plugin], [published("dynamic", None)]
    )
    assert [reason for reason, _ in found.misses] == ["no_uuid", "not_published", "unknown_id"]
    assert found.by_uuid == {}


def test_another_drivers_devices_are_not_ours() -> None:
    channel = ClaimDevice("c", "team", "compute-domain.nvidia.com", "node-a", "channel-0")
    nic = ContainerDevices("team", "pod", "main", (), (PluginDevice("vendor.com/nic", "eth0"),))
    assert join([holds("main", channel), nic], []).misses == ()


def test_a_device_plugin_names_the_uuid_itself() -> None:
    pod = ContainerDevices("team", "old", "main", (), (PluginDevice("nvidia.com/gpu", "GPU-1"),))
    assert join([pod], []).by_uuid["GPU-1"][0].resource == "nvidia.com/gpu"


def test_only_labels_on_which_all_holders_agree_ride_on_the_series() -> None:
    found = join(
        [holds("a", claim("gpu-0")), holds("b", claim("gpu-0"))], [published("gpu-0", "GPU-1")]
    )
    on_series = agreed(found.by_uuid["GPU-1"])
    assert on_series["pod"] == "pod"
    assert "container" not in on_series
    assert agreed([]) == {}


def test_label_values_are_escaped() -> None:
    assert text([("a", 'x"y\\z\n'), ("b", "")]) == 'a="x\\"y\\\\z\\n"'
