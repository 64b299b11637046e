"""GPUs that are not there: lost, or published and never seen in this boot.

Lost is the agent's positive finding (a live NVML that listed the GPU no longer does, while it is
still offered), and needs no XID. A GPU that was never listed since the boot is a finding too, but a
doubtful one: right after a boot the published slices may still be those of before. So it must have
been missing for a while, and it evicts no pod. Pure.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from exporter.model.node_health import GpuHealth, NodeHealth
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import Fault, Surroundings

NEVER_LISTED = "NeverListed"
"""Presence reason of a GPU that only the kernel log names (agent/report/presence.py)."""
HUNG, NOT_LISTED, NOT_ON_BUS = "Hung", "NotListed", "NotOnBus"
"""Further reasons of it: a call on the GPU hangs; a live NVML, or the kernel's PCI list, no longer
has it."""
UNPUBLISHED_LATER = "NotListedThenUnpublished"
"""NVML no longer had it while it was published, and then it was no longer published."""
NOT_REPORTED = "NotReported"
"""The same, of a GPU that only the slices name: our own word."""
MISSING_FOR = timedelta(minutes=1)
"""As long as a GPU must be missed to be lost."""


def faults(gpu: GpuHealth, around: Surroundings) -> Iterator[Fault]:
    if gpu.presence == "Lost":
        yield Fault(
            fault_class="lost",
            cause="gpu-lost",
            needs="node-reboot",
            last_seen=gpu.presence_since,
            evidence=f"the GPU is lost: {gpu.presence_reason or 'NVML no longer lists it'}",
            certain=True,
            sources=("GpuLost",),
        )
    elif gpu.presence_reason in (NEVER_LISTED, NOT_REPORTED) and _missing(gpu, around):
        yield Fault(
            fault_class="lost",
            cause="gpu-missing",
            needs="human",  # of a GPU that was here before a reboot, `needs` knows more
            last_seen=gpu.presence_since,
            evidence="the GPU is published, and a live NVML has not listed it since the boot",
            doubt="it was not seen in this boot, so what is published may be of before",
        )


def off_bus(gpu: GpuHealth) -> bool:
    """Whether PCI shows that the GPU is not there: its config space, or the kernel's list."""
    return gpu.config_space.off_bus or gpu.presence_reason == NOT_ON_BUS


def unlisted_gpus(report: NodeHealth, inventory: Iterable[SliceDevice]) -> dict[str, GpuHealth]:
    """Return entries for GPUs that a node publishes and its report misses, by UUID.

    The verdict decides whether one of them is a fault.
    """
    known = {gpu.uuid for gpu in report.gpus}
    missed = set(report.inventory.missing)
    begun = min((gpu.presence_since for gpu in report.gpus), default=report.observed_at)
    found: dict[str, GpuHealth] = {}
    for device in inventory:
        uuid = device.parent_uuid or device.uuid
        bus = device.pci_bus_id
        if device.kind not in ("gpu", "mig") or uuid is None or uuid in known or begun is None:
            continue
        if missed & {uuid, bus}:
            found[uuid] = GpuHealth(
                uuid=uuid,
                presence="Unknown",
                presence_since=begun,
                presence_reason=NOT_REPORTED,
                pci_bus_id=bus,
            )
    return found


def _missing(gpu: GpuHealth, around: Surroundings) -> bool:
    named = {gpu.uuid, gpu.pci_bus_id} & set(around.inventory.missing)
    if not named or around.up("nvml") is not True or around.reported_at is None:
        return False
    if around.inventory.unidentified:
        return False
    return around.reported_at - gpu.presence_since >= MISSING_FOR
