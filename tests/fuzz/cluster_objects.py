"""What the API server says: slices, claims and pods as JSON, their join, names and quantities."""

from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from random import Random
from typing import Any, TypeVar

import msgspec

from exporter.agent.join.claims import Holders, Known, join
from exporter.agent.join.pod_facts import Allowed, PodFact, PodKey, RawPod, fact_of
from exporter.agent.join.published import published
from exporter.model import claim_objects
from exporter.model.claim_objects import ClaimDetail, ClaimKey, RawClaim
from exporter.model.device import GPU_DRIVER, NVIDIAS, Device
from exporter.model.hardware import Hardware, LiveGpu, LiveSlice
from exporter.model.mig_names import placement_of
from exporter.model.quantity import whole
from exporter.model.readings import ClaimDevice, ContainerDevices
from exporter.model.resource_slices import (
    Attribute,
    ResourceSlice,
    SliceDevice,
    incomplete,
    inventory,
)
from kubeapi.client import ApiError, error_of
from kubeapi.store import Store, key_of, meta_of
from tests.fuzz import hostile
from tests.fuzz.target import Target, demand

T = TypeVar("T")
GPU_0 = "GPU-2fa81118-6e43-4f7c-9a3f-6d0a3cf5f5a1"
MIG_0 = "MIG-5c2a1f0e-1111-4222-8333-444455556666"
UID = "d3f7a1b2-0c4e-4f6a-8b1d-2e3f4a5b6c7d"
LIVE = Hardware(
    (
        LiveGpu(
            uuid=GPU_0,
            number=0,
            slices=(
                LiveSlice(uuid=MIG_0, gi=3, ci=0, gi_profile_id=19, placement_start=4),
                LiveSlice(uuid="MIG-other", gi=4, ci=0, gi_profile_id=19, placement_start=0),
            ),
        ),
    )
)


def _content(random: Random) -> dict[str, Any]:
    kind = random.choice(("gpu", "mig", "vfio", "imex"))
    content: dict[str, Any] = {
        "attributes": {
            "type": {"string": kind},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "driverVersion": {"version": "580.95.5"},
            "index": {"int": 0},
            "resource.kubernetes.io/pciBusID": {"string": "0000:3b:00.0"},
        },
        "capacity": {"memory": {"value": random.choice(("80Gi", "81559Mi", "1e3"))}},
    }
    if random.randrange(4):
        content["attributes"]["uuid"] = {"string": random.choice((GPU_0, MIG_0, "GPU-other"))}
    if kind == "mig":
        content["attributes"]["parentUUID"] = {"string": GPU_0}
        content["attributes"]["profile"] = {"string": "1g.10gb"}
    if random.randrange(4) == 0:
        content["taints"] = [{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}]
        content["allowMultipleAllocations"] = True
    return content


_NAMES = ("gpu-0", "gpu-1", "gpu-0-mig-19-4-1", "gpu-0-mig-1g10gb-19-4", "gpu-vfio-0")


def _slice(random: Random, number: int) -> dict[str, Any]:
    devices: list[dict[str, Any]] = []
    for name in random.sample(_NAMES, random.randrange(3)):
        content = _content(random)
        # v1beta1 keeps a device's content one level deeper.
        devices.append({"name": name, **({"basic": content} if number % 2 else content)})
    pool = {"name": "node-a", "generation": random.randrange(3), "resourceSliceCount": 1}
    spec = {"driver": GPU_DRIVER, "nodeName": "node-a", "pool": pool, "devices": devices}
    return {"metadata": {"name": f"slice-{number}", "resourceVersion": "7"}, "spec": spec}


def _claim(random: Random) -> dict[str, Any]:
    result = {
        "driver": GPU_DRIVER,
        "pool": "node-a",
        "device": random.choice(_NAMES),
        "request": random.choice(("main", "main/sub", "other")),
        "adminAccess": random.choice((None, True, False)),
        "consumedCapacity": {"memory": "10Gi"},
    }
    pod = {"name": "train-0", "resource": "pods", "uid": UID}
    request = {"name": "main", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    return {
        "metadata": {"name": "train-gpu", "uid": UID, "annotations": {}},
        "spec": {"devices": {"requests": [request]}},
        "status": {
            "allocation": {"devices": {"results": [result, {**result, "request": "other"}]}},
            "reservedFor": [pod, {"name": "group", "resource": "podgroups", "uid": "7"}],
        },
    }


def _pod(random: Random) -> dict[str, Any]:
    use = {"name": "gpu", "request": random.choice(("", "main", "other"))}
    claim = {"name": "gpu", "resourceClaimName": "train-gpu"}
    mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "main"}
    labels = {hostile.text(random): hostile.text(random), "app": "train"}
    return {
        "metadata": {"name": "train-0", "namespace": "team", "uid": UID, "labels": labels},
        "spec": {
            "containers": [{"name": "main", "resources": {"claims": [use]}}],
            "resourceClaims": [claim],
        },
        "status": random.choice(
            (
                {"resourceClaimStatuses": [claim]},
                {"extendedResourceClaimStatus": {"requestMappings": [mapping]}},
            )
        ),
    }


Objects = tuple[tuple[bytes, ...], bytes, bytes, str]
"""Slices, a claim, a pod, and the device that a container of the pod holds."""


def make_objects(random: Random) -> Objects:
    slices = tuple(
        hostile.json_of(random, _slice(random, number), 3) for number in range(random.randrange(4))
    )
    claim = hostile.json_of(random, _claim(random), 3)
    return slices, claim, hostile.json_of(random, _pod(random), 3), random.choice(_NAMES)


def check_objects(made: Objects) -> None:
    raw_slices, raw_claim, raw_pod, name = made
    slices = [
        resource_slice
        for raw in raw_slices
        if (resource_slice := decoded(raw, ResourceSlice)) is not None
    ]
    before = inventory(slices[:1], NVIDIAS)
    devices = inventory(slices, NVIDIAS, before)
    _published(devices, slices, before)
    details, pods = _details(raw_claim), _pods(raw_pod)
    held = ClaimDevice("train-gpu", "team", GPU_DRIVER, "node-a", name)
    container = ContainerDevices("team", "train-0", "main", (held,))
    known = Known(published=devices, hardware=LIVE, details=details, pods=pods)
    _held(join([container], known=known), held, {device.device: device for device in devices})


def decoded(raw: bytes, kind: type[T]) -> T | None:
    """Return an object as a watch takes it, which steps over one that is none."""
    store = Store(kind)
    given = msgspec.Raw(raw)
    try:
        changes = store.put(given)
        key = key_of(meta_of(given))
    except ApiError as error:
        demand(error.message, "a refusal without a word")
        return None
    demand(len(changes) + store.undecodable == 1, "neither taken nor counted", changes)
    demand(not store.put(given) or not meta_of(given).resource_version, "one version taken twice")
    demand(
        all(change.key == key and change.old is None for change in changes), "another key", changes
    )
    demand(error_of("GET", 500, raw).status == 500, "an error that is none")
    return changes[0].new if changes else None


def _published(
    devices: tuple[SliceDevice, ...], slices: list[ResourceSlice], before: tuple[SliceDevice, ...]
) -> None:
    names = [device.device for device in devices]
    demand(names == sorted(set(names)), "devices out of order or twice", names)
    stated = {
        (
            Device(resource_slice.spec.driver, resource_slice.spec.pool.name, raw.name),
            # Another driver's device is no GPU of NVIDIA's, whatever it states.
            _uuid(raw.content().attributes) if resource_slice.spec.driver in NVIDIAS else None,
        )
        for resource_slice in slices
        for raw in resource_slice.spec.devices or ()
    }
    for device in devices:
        demand(
            (device.device, device.uuid) in stated or device in before,
            "a device from nowhere",
            device,
        )
        demand(device.memory is None or 0 <= device.memory < 2**63, "an amount", device.memory)
    offered = published(devices)
    demand(offered.uuids >= set(offered.by_bus.values()), "a bus id of nothing", offered)
    demand(
        incomplete(slices).keys()
        <= {
            (resource_slice.spec.driver, resource_slice.spec.pool.name) for resource_slice in slices
        },
        "a pool",
    )


def _uuid(attributes: Mapping[str, Attribute] | None) -> str | None:
    named = [(attributes or {}).get(name) for name in ("uuid", f"{GPU_DRIVER}/uuid")]
    return next(
        (attribute.string for attribute in named if attribute is not None and attribute.string),
        None,
    )


def _details(raw: bytes) -> dict[ClaimKey, ClaimDetail]:
    claim = decoded(raw, RawClaim)
    if claim is None:
        return {}
    detail = claim_objects.detail_of(claim)
    claim_objects.class_of_extended(detail)
    claim_objects.is_extended(claim)
    return {ClaimKey("team", "train-gpu"): detail}


def _pods(raw: bytes) -> dict[PodKey, PodFact]:
    pod = decoded(raw, RawPod)
    return {} if pod is None else {("team", "train-0"): fact_of(pod, Allowed())}


def _held(holders: Holders, held: ClaimDevice, devices: dict[Device, SliceDevice]) -> None:
    device = devices.get(Device(held.driver, held.pool, held.device))
    for uuid, found in holders.by_uuid.items():
        there = device is not None and uuid in (device.uuid, MIG_0)
        demand(there, "booked to hardware of another name", uuid)
        place = device and (device.gi_profile_id, device.placement_start)
        demand(device and (device.uuid or place == (19, 4)), "booked to another place", device)
        demand(all(holder.dra == held for holder in found), "a hold from nowhere", found)
    for holder in (*holders.elsewhere, *(owner for by in holders.by_uuid.values() for owner in by)):
        demand(
            (holder.pod, holder.namespace, holder.container) == ("train-0", "team", "main"),
            "who",
            holder,
        )
    if device is None:
        demand(not holders.by_uuid, "hardware of a device that nobody publishes", holders)


def make_mig_name(random: Random) -> tuple[str, tuple[int, int, int] | None]:
    """Make a device's name and, where it was left as it is, what it says."""
    minor, profile, start = (random.choice((0, 4, 9, 19, 123_456_789)) for _ in range(3))
    size = random.choice(("1g10gb", "1g24gb-me", "1c.3g.40gb", "2c3g40gb", "7g141gb-me-all"))
    named = f"gpu-{minor}-mig-{size}-{profile}-{start}"
    numbered = f"gpu-{minor}-mig-{profile}-{start}-{random.randrange(9)}"
    good = random.choice((named, numbered))
    if "." not in good and random.randrange(3) == 0:
        return good, (minor, profile, start)
    raw = hostile.mutated(random, good.encode(), 3, (named.encode(), numbered.encode()))
    return raw.decode("utf-8", "replace"), None


def check_mig_name(made: tuple[str, tuple[int, int, int] | None]) -> None:
    name, built = made
    found = placement_of(name)
    reported = None if found is None else (found.minor, found.gi_profile_id, found.start)
    if built is not None:
        demand(reported == built, "another place", reported)
    elif found is not None:
        demand(name.startswith(f"gpu-{found.minor}-mig-"), "another GPU", found)
        numbers = f"-{found.gi_profile_id}-{found.start}"
        demand(numbers in name, "numbers from nowhere", found)


_POWERS = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "m": -3, "u": -6, "n": -9}


def make_quantity(random: Random) -> tuple[Any, str | None]:
    """Make a quantity and, where it was left as it is, its value as a decimal number."""
    digits = str(random.randrange(10 ** random.choice((1, 3, 9, 19))))
    if random.randrange(2):
        digits += f".{random.randrange(1000)}"
    if random.randrange(2):
        suffix = random.choice(list(_POWERS))
        good, value = digits + suffix, Decimal(digits).scaleb(_POWERS[suffix])
    else:
        power = random.randrange(1, 7)
        good = digits + "KMGTPE"[power - 1] + "i"
        value = Context(prec=60).multiply(Decimal(digits), Decimal(1024**power))
    kind = random.randrange(3)
    if kind == 0:
        return good, str(value)
    if kind == 1:
        return hostile.value(random, 0), None
    return hostile.mutated(random, good.encode(), 3).decode("utf-8", "replace"), None


def check_quantity(made: tuple[Any, str | None]) -> None:
    given, value = made
    found = whole(given)
    demand(found is None or 0 <= found < 2**63, "out of bounds", found)
    if value is not None:
        expected = int(Context(prec=60).to_integral_exact(_ceiling(Decimal(value))))
        demand(found == (expected if expected < 2**63 else None), "another amount", found)


def _ceiling(value: Decimal) -> Decimal:
    return value.to_integral_value(rounding=ROUND_CEILING, context=Context(prec=80))


_MAKERS: dict[str, tuple[int, Callable[[Random], Any], Callable[[Any], None]]] = {
    "slices-claims-pods": (50, make_objects, check_objects),
    "mig-name": (45, make_mig_name, check_mig_name),
    "quantity": (50, make_quantity, check_quantity),
}
TARGETS = tuple(Target(name, *maker) for name, maker in _MAKERS.items())
