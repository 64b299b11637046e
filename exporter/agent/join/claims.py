"""Who holds each GPU and each MIG slice of this node.

Joins what the kubelet says (containers and their devices, by DRA name or device
plugin id) with what the driver published, with what NVML shows now, and, where
they could be read, with the claims and pods themselves. Local to one node and
pure. What cannot be joined is counted with its reason, never guessed.

The kubelet's PodResources lists running containers and restartable init
containers only: what a plain init or an ephemeral container holds is not seen.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from exporter.agent.join import device_resolution
from exporter.agent.join.device_resolution import Miss, Resolution
from exporter.agent.join.pod_facts import PodFact, PodKey
from exporter.model.claim_objects import ClaimDetail, ClaimKey, ResultDetail, key_of
from exporter.model.device import NVIDIAS, Device, GpuDrivers
from exporter.model.hardware import Hardware
from exporter.model.readings import ClaimDevice, ContainerDevices, PluginDevice
from exporter.model.resource_slices import SliceDevice


class Holder(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """One container's hold on one device. `dra` is None with a device plugin."""

    namespace: str
    pod: str
    container: str
    dra: ClaimDevice | None = None
    resource: str = ""
    """The device plugin's resource name, or the one that an extended-resource claim stands for."""
    replica: str = ""
    """Of a time-sliced or otherwise shared device plugin id (dcgm-exporter's `vgpu`)."""
    pod_uid: str = ""
    claim_uid: str = ""
    request: str = ""
    """`main` or `main/sub` of the claim's allocation."""
    device_class: str = ""
    pod_group: str = ""
    admin: bool | None = None
    """Admin access: looks on, holds nothing. None: not known."""
    declared_memory: int | None = None
    """Bytes that the claim was given: consumed capacity of a share, else the device's memory."""
    profile: str = ""
    """MIG profile as published."""
    pod_labels: tuple[tuple[str, str], ...] = ()
    """Allowed ones, sorted, as on the pod."""
    labels_left_out: int = 0
    """Of the pod's, beyond the limits of one pod."""
    device_id: str = ""
    """A device plugin's own name of the device."""
    bus_id: str = ""
    """Of a GPU that was given to VFIO, in the form of `device.normal_bus_id`."""


class Holders(msgspec.Struct, frozen=True):
    """Holders by UUID (`GPU-…` or `MIG-…`), sorted; and what could not be joined."""

    by_uuid: dict[str, tuple[Holder, ...]] = {}
    elsewhere: tuple[Holder, ...] = ()
    """Holds on devices that NVML cannot show: of other drivers, and of GPUs given to VFIO."""
    misses: tuple[tuple[Miss, str], ...] = ()
    """(reason, device) for each hold that has no hardware known."""

    def owners(self, uuid: str) -> tuple[Holder, ...]:
        """Return who the device was given to: all holders but those that only look on."""
        return tuple(holder for holder in self.by_uuid.get(uuid, ()) if holder.admin is not True)


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known beside PodResources; each part may be missing."""

    published: tuple[SliceDevice, ...] = ()
    hardware: Hardware = Hardware()
    details: Mapping[ClaimKey, ClaimDetail] = {}
    pods: Mapping[PodKey, PodFact] = {}
    uids: Mapping[PodKey, str] = {}
    """Of pods, for those of which neither their object nor a claim tells it."""
    resource_names: Collection[str] = ()
    """More resource names of device plugins that are NVIDIA's."""
    drivers: GpuDrivers = NVIDIAS


def join(
    containers: Iterable[ContainerDevices],
    published: Iterable[SliceDevice] = (),
    known: Known | None = None,
) -> Holders:
    """Return who holds what now. `published` is for those who know nothing else."""
    return _Join(known or Known(published=tuple(published))).of(containers)


class Joiner:
    """Joins again only when something changed, so that a quiet node costs nothing."""

    def __init__(self) -> None:
        self._last: tuple[tuple[ContainerDevices, ...], Known] | None = None
        self._holders = Holders()

    def join(self, containers: tuple[ContainerDevices, ...], known: Known) -> Holders:
        """Return who holds what; the same object as before while the arguments are equal."""
        if (containers, known) != self._last:
            self._holders = join(containers, known=known)
            self._last = (containers, known)
        return self._holders


class _Join:
    def __init__(self, known: Known) -> None:
        self._known = known
        self._published = {device.device: device for device in known.published}

    def of(self, containers: Iterable[ContainerDevices]) -> Holders:
        found: dict[str, set[Holder]] = {}
        elsewhere: set[Holder] = set()
        misses: set[tuple[Miss, str]] = set()
        for container in containers:
            for where, name, holder in self._holds(container):
                for uuid in where.uuids:
                    found.setdefault(uuid, set()).add(holder)
                if where.elsewhere:
                    elsewhere.add(holder)
                if where.miss:
                    misses.add((where.miss, name))
        return Holders(
            by_uuid={uuid: tuple(sorted(found[uuid], key=_order)) for uuid in sorted(found)},
            elsewhere=tuple(sorted(elsewhere, key=_order)),
            misses=tuple(sorted(misses)),
        )

    def _holds(self, container: ContainerDevices) -> Iterator[tuple[Resolution, str, Holder]]:
        for claim in container.claims:
            where = Resolution(elsewhere=True)
            if claim.driver in self._known.drivers:
                where = device_resolution.of_claim(claim, self._published, self._known.hardware)
            name = str(Device(claim.driver, claim.pool, claim.device))
            for holder in self._claimed(container, claim, where.published):
                yield where, name, holder
        for device in container.plugin:
            where = device_resolution.of_plugin(
                device, self._known.resource_names, self._known.hardware
            )
            if where is not None:
                name = f"{device.resource}/{device.id}"
                yield where, name, self._plugged(container, device, where.replica)

    def _plugged(self, container: ContainerDevices, device: PluginDevice, replica: str) -> Holder:
        name = (container.namespace, container.pod)
        pod = self._known.pods.get(name)
        return Holder(
            namespace=container.namespace,
            pod=container.pod,
            container=container.container,
            resource=device.resource,
            replica=replica,
            device_id=device.id,
            pod_uid=pod.uid if pod else self._known.uids.get(name, ""),
            pod_labels=pod.labels if pod else (),
            labels_left_out=pod.labels_left_out if pod else 0,
        )

    def _claimed(
        self, container: ContainerDevices, claim: ClaimDevice, device: SliceDevice | None
    ) -> Iterator[Holder]:
        """Yield one holder per request that gave the device; none when the pod requested others."""
        key = key_of(claim)
        detail = self._known.details.get(key)
        pod = self._known.pods.get((container.namespace, container.pod))
        desired = (claim.driver, claim.pool, claim.device, claim.share_id)
        results = [
            result
            for result in (detail.results if detail else ())
            if (result.driver, result.pool, result.device, result.share_id) == desired
        ]
        for result in results or (None,):
            if pod and result and not pod.may_use(container.container, claim.claim, result.request):
                continue
            of_result: dict[str, Any] = {}
            if result is not None:
                of_result["request"] = result.request
                of_result["admin"] = result.admin
                of_result["device_class"] = result.device_class
            yield Holder(
                namespace=container.namespace,
                pod=container.pod,
                container=container.container,
                dra=claim,
                pod_labels=pod.labels if pod else (),
                labels_left_out=pod.labels_left_out if pod else 0,
                profile=device.profile if device else "",
                bus_id=device.pci_bus_id if device and device.kind == "vfio" else "",
                declared_memory=_declared(device, claim, result),
                **of_result,
                **_of_claim(container, key, detail, pod, result),
            )


def _of_claim(
    container: ContainerDevices,
    key: ClaimKey,
    detail: ClaimDetail | None,
    pod: PodFact | None,
    result: ResultDetail | None,
) -> dict[str, Any]:
    resource = pod.resource(container.container, result.request) if pod and result else ""
    reserved = detail.pod_uid(container.pod) if detail else ""
    return {
        "claim_uid": key.uid or (detail.uid if detail else ""),
        "pod_uid": pod.uid if pod else reserved,
        "pod_group": ",".join(detail.pod_groups) if detail else "",
        "resource": resource or (detail.resource if detail else ""),
    }


def _declared(
    device: SliceDevice | None, claim: ClaimDevice, result: ResultDetail | None
) -> int | None:
    """Return the bytes that a claim was given, None where that is not known."""
    if result is not None and (result.admin or result.memory is not None):
        return None if result.admin else result.memory
    # A share of unknown size is not the whole.
    shared = claim.share_id or (device is not None and device.shareable)
    return None if device is None or shared else device.memory


def _order(holder: Holder) -> tuple[str, ...]:
    claim = holder.dra
    named = (claim.claim, claim.device, claim.share_id) if claim else ("", "", "")
    who = (holder.namespace, holder.pod, holder.container, holder.resource)
    return (*who, *named, holder.request, holder.device_id)
