"""Who holds each GPU and slice."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.join.claims import Holder, Holders, Joiner, Known, join
from exporter.agent.join.pod_facts import PodFact
from exporter.metrics.labels import agreed, text
from exporter.model.claim_objects import ClaimDetail, ClaimKey, ResultDetail
from exporter.model.device import Device
from exporter.model.hardware import Hardware, of_report
from exporter.model.node_health import GpuHealth, MigInstance, Presence
from exporter.model.readings import ClaimDevice, ContainerDevices, PluginDevice
from exporter.model.resource_slices import SliceDevice
from tests.exporter.worlds import START

GIB = 1 << 30
UID = "5b696ac1-c323-589e-a082-e6045e980bf4"
OTHER_UID = "00000000-c323-589e-a082-e6045e980bf4"


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
    assert [holder.container for holder in found.by_uuid["GPU-1"]] == ["a", "b"]


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


PARTITION = SliceDevice(
    device=Device("gpu.nvidia.com", "node-a", "gpu-0-mig-1g10gb-19-3"),
    kind="mig",
    parent_uuid="GPU-1",
    profile="1g.10gb",
    gi_profile_id=19,
    placement_start=3,
    memory=10 * GIB,
)


def part(uuid: str, gi: int, ci: int = 0, profile: int = 19, start: int = 3) -> MigInstance:
    return MigInstance(
        uuid=uuid, gi=gi, ci=ci, profile="", gi_profile_id=profile, placement_start=start
    )


def live(*parts: MigInstance, uuid: str = "GPU-1", presence: Presence = "Present") -> Hardware:
    gpu = GpuHealth(uuid=uuid, presence=presence, presence_since=START, minor=0, instances=parts)
    return of_report([gpu])


def partition_held(hardware: Hardware) -> Holders:
    known = Known(published=(PARTITION,), hardware=hardware)
    return join([holds("main", claim(PARTITION.device.device))], known=known)


def test_a_partition_of_dynamic_mig_is_the_instance_that_lives_at_its_place() -> None:
    others = (part("MIG-b", 2, start=4), part("MIG-c", 3, profile=15), part("MIG-d", 9, start=0))
    found = partition_held(live(*others, part("MIG-a", 7)))
    assert sorted(found.by_uuid) == ["MIG-a"]
    assert found.by_uuid["MIG-a"][0].profile == "1g.10gb"
    assert found.by_uuid["MIG-a"][0].declared_memory == 10 * GIB
    assert found.misses == ()


def test_the_same_place_on_another_gpu_is_another_instance() -> None:
    found = partition_held(live(part("MIG-a", 7), uuid="GPU-2"))
    assert found.by_uuid == {}


def test_an_instance_made_again_with_the_same_ids_is_another_one() -> None:
    assert sorted(partition_held(live(part("MIG-old", 7))).by_uuid) == ["MIG-old"]
    assert sorted(partition_held(live(part("MIG-new", 7))).by_uuid) == ["MIG-new"]


def test_a_partition_that_is_not_made_yet_is_reported_so() -> None:
    name = str(PARTITION.device)
    assert partition_held(live()).misses == (("not_live", name),)
    assert partition_held(Hardware()).misses == (("not_live", name),)


def test_the_compute_instances_of_a_held_instance_are_all_held() -> None:
    found = partition_held(live(part("MIG-a", 7, ci=0), part("MIG-b", 7, ci=1)))
    assert sorted(found.by_uuid) == ["MIG-a", "MIG-b"]


def test_a_slice_that_is_gone_is_no_device_though_it_is_still_published() -> None:
    static = msgspec.structs.replace(PARTITION, uuid="MIG-a")
    known = Known(published=(static,), hardware=live(part("MIG-b", 7)))
    held = [holds("main", claim(PARTITION.device.device))]
    assert join(held, known=known).misses == (("not_live", str(PARTITION.device)),)
    known = msgspec.structs.replace(known, hardware=live(part("MIG-a", 7)))
    assert sorted(join(held, known=known).by_uuid) == ["MIG-a"]


def test_a_gpu_that_nvml_lists_no_more_is_still_held() -> None:
    known = Known(published=(published("gpu-0", "GPU-1"),), hardware=live(uuid="GPU-2"))
    assert sorted(join([holds("main", claim("gpu-0"))], known=known).by_uuid) == ["GPU-1"]


def test_a_device_that_a_plugin_made_up_is_reported_as_a_miss() -> None:
    device = PluginDevice("nvidia.com/gpu", "GPU-1-3")
    pod = ContainerDevices("team", "pod", "main", (), (device,))
    found = join([pod], known=Known(hardware=live()))
    assert (found.by_uuid, found.misses) == ({}, (("not_live", "nvidia.com/gpu/GPU-1-3"),))


def test_a_gpu_that_nobody_can_read_keeps_its_holders() -> None:
    assert sorted(partition_held(live(part("MIG-a", 7), presence="Unknown")).by_uuid) == ["MIG-a"]
    assert sorted(partition_held(live(part("MIG-a", 7), presence="Lost")).by_uuid) == ["MIG-a"]


def test_a_lost_gpu_gave_up_its_number() -> None:
    device = PluginDevice("nvidia.com/gpu", "nvidia0")
    pod = ContainerDevices("team", "pod", "main", (), (device,))
    both = Hardware((*live(presence="Lost").gpus, *live(uuid="GPU-2").gpus))
    assert sorted(join([pod], known=Known(hardware=both)).by_uuid) == ["GPU-2"]


def test_a_gpu_given_to_vfio_is_elsewhere_with_its_bus_id() -> None:
    vfio = SliceDevice(
        device=Device("gpu.nvidia.com", "node-a", "gpu-vfio-0"),
        kind="vfio",
        uuid="0f0f0f0f-0000-5000-8000-000000000000",
        pci_bus_id="0000:3b:00.0",
        memory=40 * GIB,
    )
    found = join([holds("vm", claim("gpu-vfio-0"))], [vfio])
    (holder,) = found.elsewhere
    assert (holder.bus_id, holder.declared_memory) == ("0000:3b:00.0", 40 * GIB)
    assert (found.by_uuid, found.misses) == ({}, ())


def test_other_drivers_devices_are_carried_as_they_are() -> None:
    channel = ClaimDevice("c", "team", "compute-domain.nvidia.com", "node-a", "channel-0")
    cards = ContainerDevices(
        "team", "pod", "rdma", (), (PluginDevice("nvidia.com/mlnxnics", "0000:3b:00.2"),)
    )
    found = join([holds("main", channel), cards], [])
    assert [holder.dra for holder in found.elsewhere] == [channel, None]
    assert found.elsewhere[1].device_id == "0000:3b:00.2"
    assert found.misses == ()


def test_a_device_plugins_share_and_custom_resource_are_named() -> None:
    devices = (
        PluginDevice("nvidia.com/gpu.shared", "GPU-1::2"),
        PluginDevice("nvidia.com/a100", "nvidia0"),
        PluginDevice("team.example/gpu", "GPU-3"),
        PluginDevice("team.example/nic", "GPU-4"),
    )
    gpus = (*live().gpus, *live(uuid="GPU-2").gpus, *live(uuid="GPU-3").gpus)
    gpus = tuple(
        msgspec.structs.replace(gpu, number=n) for n, gpu in zip((1, 0, 2), gpus, strict=True)
    )
    known = Known(hardware=Hardware(gpus), resource_names=("team.example/gpu",))
    found = join([ContainerDevices("team", "pod", "main", (), devices)], known=known)
    reported = {
        uuid: (holder.resource, holder.replica) for uuid, (holder,) in found.by_uuid.items()
    }
    assert reported == {
        "GPU-1": ("nvidia.com/gpu.shared", "2"),
        "GPU-2": ("nvidia.com/a100", ""),
        "GPU-3": ("team.example/gpu", ""),
    }
    assert (found.elsewhere, found.misses) == ((), ())


def test_two_replicas_of_one_gpu_in_one_container_are_two_holds() -> None:
    shares = tuple(PluginDevice("nvidia.com/gpu", f"GPU-1::{n}") for n in (0, 1))
    found = join([ContainerDevices("team", "pod", "main", (), shares)], [])
    assert [holder.replica for holder in found.by_uuid["GPU-1"]] == ["0", "1"]


def test_an_instance_that_a_plugin_names_by_number_must_live() -> None:
    device = PluginDevice("nvidia.com/gpu", "nvidia0/gi7")
    pod = ContainerDevices("team", "pod", "main", (), (device,))
    found = join([pod], known=Known(hardware=live(part("MIG-a", 7))))
    assert sorted(found.by_uuid) == ["MIG-a"]
    assert join([pod], []).misses == (("not_live", "nvidia.com/gpu/nvidia0/gi7"),)


def result(device: str = "gpu-0", **fields: Any) -> ResultDetail:
    return ResultDetail(driver="gpu.nvidia.com", pool="node-a", device=device, **fields)


def detailed(held: ClaimDevice, *results: ResultDetail, **fields: Any) -> Holders:
    gpu = SliceDevice(
        device=Device("gpu.nvidia.com", "node-a", "gpu-0"),
        kind="gpu",
        uuid="GPU-1",
        memory=80 * GIB,
        shareable=bool(held.share_id),
    )
    detail = ClaimDetail(uid=UID, results=results, **fields)
    pods = {("team", "pod"): PodFact(uid="pod-uid", labels=(("team", "blue"),))}
    known = Known(published=(gpu,), details={ClaimKey("team", "claim", ""): detail}, pods=pods)
    return join([holds("main", held)], known=known)


def test_what_the_claim_and_the_pod_say_rides_along() -> None:
    requested = result(request="main/big", device_class="gpu.nvidia.com")
    found = detailed(claim("gpu-0"), requested, pod_groups=("gang",), resource="nvidia.com/gpu")
    assert found.by_uuid["GPU-1"] == (
        Holder(
            namespace="team",
            pod="pod",
            container="main",
            dra=claim("gpu-0"),
            resource="nvidia.com/gpu",
            pod_uid="pod-uid",
            claim_uid=UID,
            request="main/big",
            device_class="gpu.nvidia.com",
            pod_group="gang",
            admin=False,
            declared_memory=80 * GIB,
            pod_labels=(("team", "blue"),),
        ),
    )


def test_admin_access_looks_on_and_owns_nothing() -> None:
    found = detailed(claim("gpu-0"), result(request="watch", admin=True))
    (holder,) = found.by_uuid["GPU-1"]
    assert (holder.admin, holder.declared_memory) == (True, None)
    assert found.owners("GPU-1") == ()
    assert found.owners("GPU-9") == ()


def test_until_its_claim_was_read_a_holder_owns_and_its_access_is_unknown() -> None:
    found = join([holds("main", claim("gpu-0"))], [published("gpu-0", "GPU-1")])
    assert [holder.admin for holder in found.owners("GPU-1")] == [None]


def test_the_same_device_in_two_requests_has_a_holder_for_each() -> None:
    found = detailed(claim("gpu-0"), result(request="main"), result(request="look", admin=True))
    assert [holder.request for holder in found.by_uuid["GPU-1"]] == ["look", "main"]
    assert [holder.request for holder in found.owners("GPU-1")] == ["main"]


def test_a_share_is_worth_what_it_consumes_and_not_the_whole_device() -> None:
    share = ClaimDevice("claim", "team", "gpu.nvidia.com", "node-a", "gpu-0", "share-1")
    mine = result(share_id="share-1", memory=10 * GIB)
    others = result(share_id="share-2", memory=20 * GIB)
    (holder,) = detailed(share, mine, others).by_uuid["GPU-1"]
    assert holder.declared_memory == 10 * GIB
    (holder,) = detailed(share, others).by_uuid["GPU-1"]
    assert holder.declared_memory is None


def test_details_of_another_claim_of_the_same_name_are_not_taken() -> None:
    cdi = (f"k8s.gpu.nvidia.com/claim={OTHER_UID}-gpu-0",)
    newer = ClaimDevice("claim", "team", "gpu.nvidia.com", "node-a", "gpu-0", "", cdi)
    (holder,) = detailed(newer, result(request="main")).by_uuid["GPU-1"]
    assert (holder.claim_uid, holder.request) == (OTHER_UID, "")


def test_without_the_pod_its_uid_comes_from_the_claims_reservation() -> None:
    detail = ClaimDetail(uid=UID, results=(result(),), pods=(("pod", "reserved-uid"),))
    known = Known(
        published=(published("gpu-0", "GPU-1"),), details={ClaimKey("team", "claim", ""): detail}
    )
    (holder,) = join([holds("main", claim("gpu-0"))], known=known).by_uuid["GPU-1"]
    assert holder.pod_uid == "reserved-uid"


def test_a_container_is_no_holder_of_what_its_pod_requested_for_another() -> None:
    fact = PodFact(uid="u", requests=frozenset({("a", "claim", "first"), ("b", "claim", "second")}))
    detail = ClaimDetail(
        uid=UID, results=(result(request="first"), result("gpu-1", request="second"))
    )
    both = (claim("gpu-0"), claim("gpu-1"))
    known = Known(
        published=(published("gpu-0", "GPU-1"), published("gpu-1", "GPU-2")),
        details={ClaimKey("team", "claim", ""): detail},
        pods={("team", "pod"): fact},
    )
    found = join([holds("a", *both), holds("b", *both)], known=known)
    reported = {uuid: [holder.container for holder in many] for uuid, many in found.by_uuid.items()}
    assert reported == {"GPU-1": ["a"], "GPU-2": ["b"]}


def test_equal_news_are_not_joined_again() -> None:
    joiner = Joiner()
    first = joiner.join((holds("a", claim("gpu-0")),), Known(published=(PARTITION,)))
    again = joiner.join((holds("a", claim("gpu-0")),), Known(published=(PARTITION,)))
    assert again is first
    assert joiner.join((), Known(published=(PARTITION,))) == Holders()


NAMES = st.sampled_from(["gpu-0", "gpu-1", PARTITION.device.device, "gpu-vfio-0"])
IDS = st.sampled_from(["GPU-1", "GPU-1::1", "nvidia0/gi7", "0", "eth0"]) | st.text(max_size=9)
DRIVERS = st.sampled_from(["gpu.nvidia.com", "other.example"])
RESOURCES = st.sampled_from(["nvidia.com/gpu", "nvidia.com/x", "vendor.com/nic"])
CLAIMS = st.builds(ClaimDevice, st.just("c"), st.just("team"), DRIVERS, st.just("node-a"), NAMES)
PLUGINS = st.builds(PluginDevice, RESOURCES, IDS)
CONTAINERS = st.builds(
    ContainerDevices,
    st.just("team"),
    st.sampled_from(["p", "q"]),
    st.just("main"),
    st.lists(CLAIMS, max_size=3).map(tuple),
    st.lists(PLUGINS, max_size=3).map(tuple),
)


@given(st.lists(CONTAINERS, max_size=4), st.booleans())
def test_every_hold_is_somewhere_or_a_counted_miss(
    containers: list[ContainerDevices], nvml: bool
) -> None:
    devices = (PARTITION, published("gpu-0", "GPU-1"), published("gpu-1", None))
    known = Known(published=devices, hardware=live(part("MIG-a", 7)) if nvml else Hardware())
    found = join(containers, known=known)
    placed = [*found.elsewhere, *(holder for many in found.by_uuid.values() for holder in many)]
    missed = {name for _, name in found.misses}
    for container in containers:
        for held in container.claims:
            name = str(Device(held.driver, held.pool, held.device))
            assert name in missed or any(
                holder.dra == held and holder.pod == container.pod for holder in placed
            )
        for device in container.plugin:
            assert (
                device.resource == "vendor.com/nic"
                or f"{device.resource}/{device.id}" in missed
                or any(
                    holder.device_id == device.id and holder.pod == container.pod
                    for holder in placed
                )
            )


def test_a_share_whose_id_and_size_nobody_tells_is_not_the_whole_device() -> None:
    device = published("gpu-0", "GPU-1")
    shared = msgspec.structs.replace(device, memory=80 * GIB, shareable=True)

    (holder,) = join([holds("main", claim("gpu-0"))], [shared]).by_uuid["GPU-1"]
    assert holder.declared_memory is None
