"""Families on who holds what, and how much of it is used. Pure."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from exporter.agent.join.claims import Holder
from exporter.metrics import labels
from exporter.metrics.metric import Metric, Sample
from exporter.metrics.shares import ClaimMemory, PodShare, claim_memory, pod_shares
from exporter.metrics.view import View
from exporter.model.node_health import GpuHealth, MigInstance
from exporter.model.readings import GpuReading, MigReading

_DEVICE = ("UUID", "GPU_I_PROFILE", "GPU_I_ID", "dra_mig_device_uuid", "Hostname")
HOLDER = (
    "pod", "namespace", "container", "vgpu", "dra_claim_name", "dra_claim_namespace",
    "dra_driver_name", "dra_pool_name", "dra_device_name",
)  # fmt: skip
_CLAIM = (
    "dra_claim_uid", "dra_request_name", "dra_device_class", "dra_share_id", "pod_uid",
    "pod_group", "resource",
)  # fmt: skip


def _allocations(view: View) -> Iterator[Sample]:
    gpus = {row.gpu.uuid: row.gpu for row in view.known}
    parts = {part.uuid: (gpu, part) for gpu in gpus.values() for part in gpu.instances}
    for uuid, holders in view.snapshot.holders.by_uuid.items():
        gpu, part = parts.get(uuid, (gpus.get(uuid), None))
        device = labels.text(_device(view, uuid, gpu, part))
        for holder in holders:
            yield labels.joined(device, labels.text(_holder(view, holder))), 1
    for holder in view.snapshot.holders.elsewhere:
        place = labels.text((("pci_bus_id", labels.nvml_bus_id(holder.bus_id)), view.options.host))
        yield labels.joined(place, labels.text(_holder(view, holder))), 1


def _device(view: View, uuid: str, gpu: GpuHealth | None, part: MigInstance | None) -> labels.Pairs:
    yield view.options.named("UUID"), gpu.uuid if gpu else uuid
    yield "pci_bus_id", labels.nvml_bus_id(gpu.pci_bus_id) if gpu else ""
    yield "model_name", view.options.model(gpu.product) if gpu else ""
    yield "GPU_I_PROFILE", part.profile if part else ""
    yield "GPU_I_ID", str(part.gi) if part else ""
    yield "dra_mig_device_uuid", uuid if uuid.startswith("MIG-") else ""
    yield view.options.host


def _holder(view: View, holder: Holder) -> labels.Pairs:
    for name, value in labels.holder_pairs(holder).items():
        yield view.options.named(name), value
    yield from labels.claim_pairs(holder).items()
    yield "admin", "" if holder.admin is None else str(holder.admin).lower()


def _place(view: View, gpu: GpuReading, part: MigReading | None) -> labels.Pairs:
    yield view.options.named("UUID"), gpu.uuid
    yield "GPU_I_PROFILE", part.profile if part else ""
    yield "GPU_I_ID", str(part.gi) if part else ""
    yield "dra_mig_device_uuid", part.uuid if part else ""
    yield view.options.host


def _labels_left_out(view: View) -> Iterator[Sample]:
    held = view.snapshot.holders
    holders = chain(held.elsewhere, *held.by_uuid.values())
    of_pods = {(holder.namespace, holder.pod): holder.labels_left_out for holder in holders}
    yield labels.text((("limit", "pod"),)), sum(of_pods.values())
    rows = (*view.devices, *view.links)
    yield labels.text((("limit", "page"),)), sum(row.labels_left_out for row in rows)


def _of_pods(value: Callable[[PodShare], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterator[Sample]:
        nvml = view.snapshot.nvml
        for share in pod_shares(nvml, view.snapshot.holders) if nvml else ():
            read = value(share)
            if read is not None:
                pod = (
                    (view.options.named("pod"), share.pod),
                    (view.options.named("namespace"), share.namespace),
                    ("pod_uid", share.pod_uid),
                )
                yield labels.text((*_place(view, share.gpu, share.part), *pod)), read

    return samples


def _of_claims(value: Callable[[ClaimMemory], int | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterator[Sample]:
        nvml = view.snapshot.nvml
        for memory in claim_memory(nvml, view.snapshot.holders) if nvml else ():
            read, claim = value(memory), memory.holder.dra
            if read is not None and claim is not None:
                named = (
                    ("dra_claim_name", claim.claim),
                    ("dra_claim_namespace", claim.claim_namespace),
                    ("dra_claim_uid", memory.holder.claim_uid),
                    ("dra_device_name", claim.device),
                    ("dra_share_id", claim.share_id),
                )
                yield labels.text((*_place(view, memory.gpu, memory.part), *named)), read

    return samples


METRICS: tuple[Metric, ...] = (
    Metric(
        name="draguard_device_allocation_info",
        type="gauge",
        help="One row per container and device that it uses; admin: by admin access. "
        "Devices that NVML cannot show (VFIO, other drivers) have no UUID.",
        labels=(
            "UUID",
            "pci_bus_id",
            "model_name",
            "GPU_I_PROFILE",
            "GPU_I_ID",
            "dra_mig_device_uuid",
            "Hostname",
            *HOLDER,
            *_CLAIM,
            "admin",
        ),
        source="kubelet PodResources, ResourceSlices, ResourceClaims",
        needs="API server",
        samples=_allocations,
    ),
    Metric(
        name="draguard_pod_labels_left_out",
        type="gauge",
        help="Labels of pods that are not on this page. pod: beyond the limit of one pod, summed "
        "over pods that hold devices. page: labels of all pods together do not fit, and each "
        "series has an equal part; summed over devices and links.",
        labels=("limit",),
        source="the exporter",
        kept=True,
        samples=_labels_left_out,
    ),
    Metric(
        name="draguard_pod_memory_used_bytes",
        type="gauge",
        help="Framebuffer memory that a pod's processes use on a device that it holds; 0 for a pod "
        "without processes. No sample: not known.",
        labels=(*_DEVICE, "pod", "namespace", "pod_uid"),
        source="nvmlDeviceGetComputeRunningProcesses, cgroups",
        needs="host pids",
        samples=_of_pods(lambda share: share.memory),
    ),
    Metric(
        name="draguard_pod_sm_utilization_ratio",
        type="gauge",
        help="Share of SM time that a pod's processes had on a GPU that it holds. NVML has none "
        "for MIG slices.",
        labels=(*_DEVICE, "pod", "namespace", "pod_uid"),
        source="nvmlDeviceGetProcessUtilization, cgroups",
        needs="host pids",
        samples=_of_pods(lambda share: None if share.sm_util is None else share.sm_util / 100),
    ),
    Metric(
        name="draguard_claim_memory_declared_bytes",
        type="gauge",
        help="Memory of a device that a claim was given: the consumed capacity of a share, else "
        "all that the device has.",
        labels=(
            *_DEVICE,
            "dra_claim_name",
            "dra_claim_namespace",
            "dra_claim_uid",
            "dra_device_name",
            "dra_share_id",
        ),
        source="ResourceSlices, ResourceClaims",
        needs="API server",
        samples=_of_claims(lambda memory: memory.declared),
    ),
    Metric(
        name="draguard_claim_memory_used_bytes",
        type="gauge",
        help="Memory of a device that a claim's pods use; on a device that claims share, by their "
        "processes.",
        labels=(
            *_DEVICE,
            "dra_claim_name",
            "dra_claim_namespace",
            "dra_claim_uid",
            "dra_device_name",
            "dra_share_id",
        ),
        source="nvmlDeviceGetMemoryInfo, nvmlDeviceGetComputeRunningProcesses, cgroups",
        samples=_of_claims(lambda memory: memory.used),
    ),
)
