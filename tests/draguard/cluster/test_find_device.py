"""Which devices a person's word means."""

import msgspec
import pytest

from draguard.cluster.cordon_rule import Cordon, label_value, manifest
from draguard.cluster.device_pods import EXTENDED, holders
from draguard.cluster.find_device import (
    AmbiguousDeviceError,
    NamedDevices,
    NoDeviceError,
    find_all_devices,
    find_devices,
)
from exporter.model.device import NVIDIAS, Device
from exporter.model.node_health import GpuHealth, NodeDeviceHealth, NodeHealth
from exporter.model.resource_slices import SliceDevice, inventory
from kubeapi.types import ObjectMeta
from remediator.model.claim import (
    POD_GROUPS,
    Claim,
    Toleration,
)
from remediator.model.incident_status import Target
from tests.draguard.fleet import T0
from tests.lab.foreign import decoded, foreign_slices
from tests.remediator.builders import DRIVER, gpu, mig_gpu, published, uuid, with_fields
from tests.remediator.playing import claim

WHOLE, SLICED = gpu(0), mig_gpu(1, slices=3)
PARTITION = SliceDevice(
    device=Device(DRIVER, "node-a", "gpu-2-mig-1g10gb-19-0"),
    kind="mig",
    parent_uuid=uuid(2),
    node="node-a",
)
"""Of dynamic MIG: it has no UUID of its own yet, and its GPU is published beside it."""
TWIN = SliceDevice(
    device=Device(DRIVER, "node-a", "gpu-vfio-0"),
    kind="vfio",
    uuid="of-its-address",
    pci_bus_id=WHOLE.pci_bus_id,
    node="node-a",
)
ELSEWHERE = msgspec.structs.replace(
    TWIN, device=Device(DRIVER, "node-b", "gpu-vfio-0"), node="node-b"
)
INVENTORY = (
    *published(WHOLE),
    *published(SLICED),
    *published(gpu(2)),
    PARTITION,
    TWIN,
    ELSEWHERE,
)


def reports(*gpus: GpuHealth) -> tuple[NodeDeviceHealth, ...]:
    return (NodeDeviceHealth(ObjectMeta(name="node-a"), NodeHealth(gpus=gpus)),)


def names(found: NamedDevices) -> set[str]:
    return {target.device for target in found.targets}


@pytest.mark.parametrize(
    ("word", "devices"),
    [
        (uuid(0), {"gpu-0", "gpu-vfio-0"}),
        (uuid(0).upper(), {"gpu-0", "gpu-vfio-0"}),
        ("node-a/0", {"gpu-0", "gpu-vfio-0"}),
        ("node-a/gpu-0", {"gpu-0", "gpu-vfio-0"}),
        (f"{DRIVER}/node-a/gpu-0", {"gpu-0", "gpu-vfio-0"}),
        (uuid(1), {f"gpu-1-mig-1g10gb-19-{start}" for start in range(3)}),
        ("node-a/1", {f"gpu-1-mig-1g10gb-19-{start}" for start in range(3)}),
        (f"{DRIVER}/node-a/gpu-1-mig-1g10gb-19-1", {"gpu-1-mig-1g10gb-19-1"}),
        (uuid(2), {"gpu-2", "gpu-2-mig-1g10gb-19-0"}),
        (str(PARTITION.device), {"gpu-2-mig-1g10gb-19-0"}),
        (str(TWIN.device), {"gpu-vfio-0"}),
    ],
)
def test_a_gpu_means_all_that_is_published_of_it_and_a_slice_itself(
    word: str, devices: set[str]
) -> None:
    found = find_devices(word, INVENTORY, reports(WHOLE, SLICED, gpu(2)))

    assert names(found) == devices
    assert {target.pool for target in found.targets} == {"node-a"}


def test_a_number_is_the_minor_number_where_a_report_tells_it() -> None:
    moved = msgspec.structs.replace(SLICED, minor=7)

    assert find_devices("node-a/7", INVENTORY, reports(moved)).gpu == uuid(1)


def test_a_number_does_not_mean_one_that_begins_with_it() -> None:
    ten = msgspec.structs.replace(
        published(gpu(0))[0], device=Device(DRIVER, "node-a", "gpu-10"), uuid=uuid(10)
    )

    assert names(find_devices("node-a/10", (ten,), ())) == {"gpu-10"}
    with pytest.raises(NoDeviceError):
        find_devices("node-a/1", (ten,), ())


@pytest.mark.parametrize(
    "word",
    ["", "/", "//", "node-a", "node-a/", "GPU-x", "a/b/c/d", "node-z/0", f"node-a/{5000 * '9'}"],
)
def test_what_means_nothing_is_refused_with_what_to_write(word: str) -> None:
    with pytest.raises(NoDeviceError, match="NODE/INDEX"):
        find_devices(word, INVENTORY, ())


@pytest.mark.parametrize("part", ["driver", "pool", "device"])
def test_a_cordon_without_a_part_of_its_name_cannot_be_made(part: str) -> None:
    target = with_fields(Target(DRIVER, "node-a", "gpu-0", uuid(0)), **{part: " "})
    cordon = Cordon(target=target, gpu=uuid(0), effect="NoSchedule", by="ana", reason="x")

    with pytest.raises(ValueError, match="would match other devices"):
        manifest(cordon, "v1", T0)


@pytest.mark.parametrize(
    ("who", "label"),
    [
        ("ana", "ana"),
        ("ana@example.com", "ana-example.com"),
        ("system:serviceaccount:ops:bot", "system-serviceaccount-ops-bot"),
        ("ü" * 9, "unnamed"),
        ("", "unnamed"),
        ("a" * 70, "a" * 63),
        (f"{'a' * 62}:b", "a" * 62),
    ],
)
def test_who_cordoned_is_a_label_whatever_the_name(who: str, label: str) -> None:
    assert label_value(who) == label


def tolerating(**more: object) -> Toleration:
    content = {
        "key": "draguard.dev/maintenance",
        "operator": "Exists",
        "effect": "NoExecute",
    }
    return Toleration(**{**content, **more})  # pyright: ignore[reportArgumentType] - as the rows say


@pytest.mark.parametrize(
    ("one", "stays", "after"),
    [
        (claim("gpu-0"), "", 0),
        (claim("gpu-0", admin_access=True), "", 0),
        (claim("gpu-0", extended=True), EXTENDED, 0),
        (claim("gpu-0", tolerations=(tolerating(key=""),)), "tolerates the taint", 0),
        (claim("gpu-0", tolerations=(Toleration(operator="Exists"),)), "", 0),
        (claim("gpu-0", tolerations=(tolerating(key="draguard.dev/lost"),)), "", 0),
        (claim("gpu-0", tolerations=(tolerating(toleration_seconds=30),)), "", 30),
        (claim("gpu-0", tolerations=(tolerating(toleration_seconds=0),)), "", 0),
        (claim("gpu-0", tolerations=(tolerating(toleration_seconds=-5),)), "", 0),
        (
            claim("gpu-0", tolerations=(tolerating(operator="Equal", value="ana"),)),
            "tolerates the taint",
            0,
        ),
        (claim("gpu-0", tolerations=(tolerating(operator="Equal", value="ben"),)), "", 0),
    ],
)
def test_who_an_eviction_by_taint_moves(one: Claim, stays: str, after: int) -> None:
    (found,) = holders([one], {Device(DRIVER, "node-a", "gpu-0"): "ana"})

    assert (found.stays, found.goes_after) == (stays, after)


def test_a_claim_for_a_group_of_pods_is_not_taken_for_one_without_pods() -> None:
    one = claim("gpu-0", "batch", resource=POD_GROUPS)

    (found,) = holders([one], {Device(DRIVER, "node-a", "gpu-0"): "ana"})

    assert (found.pod, found.stays) == ("podgroups/batch", "")


def test_a_gpu_that_is_reported_and_not_published_is_not_called_cordoned() -> None:
    with pytest.raises(NoDeviceError, match="no driver in gpuDrivers publishes it"):
        find_devices("node-a/0", (), reports(WHOLE))


@pytest.mark.parametrize(
    "reported",
    [
        (WHOLE, msgspec.structs.replace(SLICED, minor=0)),
        (msgspec.structs.replace(SLICED, minor=0),),
    ],
    ids=["two of one number", "an old report"],
)
def test_a_number_that_may_be_either_of_two_gpus_is_neither(
    reported: tuple[GpuHealth, ...],
) -> None:
    """One that fell off the bus keeps its number in the report, and the next one is given it."""
    with pytest.raises(AmbiguousDeviceError, match=f"{uuid(0)} or {uuid(1)}; give the UUID"):
        find_devices("node-a/0", INVENTORY, reports(*reported))


def test_a_device_that_is_no_slice_is_not_called_one() -> None:
    assert find_devices(str(TWIN.device), INVENTORY, ()).what == "this device only"
    assert find_devices(str(PARTITION.device), INVENTORY, ()).what == "one slice"


def test_a_node_has_no_foreign_device_to_cordon() -> None:
    foreign = inventory(decoded(foreign_slices("node-a", [])), NVIDIAS)
    alone = find_all_devices((), "node-a", (*published(WHOLE), *foreign), ())

    assert [names(found) for found in alone] == [{"gpu-0"}]
    with pytest.raises(NoDeviceError, match="publishes no GPU: it has nothing to cordon"):
        find_all_devices((), "node-a", foreign, ())


def test_a_foreign_device_cannot_be_cordoned_by_its_name() -> None:
    foreign = inventory(decoded(foreign_slices("node-a", [])), NVIDIAS)

    for part in foreign:
        with pytest.raises(NoDeviceError, match=f"{part.device.driver} is not among .* gpuDrivers"):
            find_devices(str(part.device), foreign, ())
