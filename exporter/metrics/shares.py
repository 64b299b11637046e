"""How much of a shared GPU or slice each pod uses, and how much of its memory each claim.

A process belongs to a pod by its cgroup. A holder without a process uses nothing,
but only if every process on the device is known to be somebody's; what is not known
has no share. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from exporter.agent.join.claims import Holder, Holders
from exporter.model.readings import GpuReading, MigReading, NvmlReading, ProcessReading

_CLEARLY_USED = 1 << 30
"""Bytes of framebuffer in use that are somebody's; what a driver keeps for itself is less."""


class PodShare(msgspec.Struct, frozen=True):
    """What one pod uses of one device."""

    gpu: GpuReading
    part: MigReading | None
    namespace: str
    pod: str
    pod_uid: str
    memory: int | None
    """Bytes of framebuffer."""
    sm_util: int | None
    """Percent of SM time; not on MIG."""


class ClaimMemory(msgspec.Struct, frozen=True):
    """Memory of one device that one claim was given, and that its pods use."""

    gpu: GpuReading
    part: MigReading | None
    holder: Holder
    """One of the claim's holders."""
    declared: int | None
    used: int | None


def pod_shares(reading: NvmlReading, holders: Holders) -> Iterator[PodShare]:
    """Return what each pod with a known UID uses of each device that it was given."""
    for gpu, part, uuid in _devices(reading):
        processes = _processes(gpu, part)
        if processes is None:
            continue
        pods = {holder.pod_uid: holder for holder in holders.owners(uuid) if holder.pod_uid}
        for pod_uid, holder in pods.items():
            yield PodShare(
                gpu=gpu,
                part=part,
                namespace=holder.namespace,
                pod=holder.pod,
                pod_uid=pod_uid,
                memory=_used(processes, pod_uid, [process.memory for process in processes]),
                sm_util=None
                if part
                else _used(processes, pod_uid, [process.sm_util for process in processes]),
            )


def claim_memory(reading: NvmlReading, holders: Holders) -> Iterator[ClaimMemory]:
    """Return memory declared and used by claim, for each device that a claim has."""
    for gpu, part, uuid in _devices(reading):
        owners = [holder for holder in holders.owners(uuid) if holder.dra is not None]
        by_claim: dict[tuple[str, ...], list[Holder]] = {}
        for holder in owners:
            if claim := holder.dra:
                key = (claim.claim_namespace, claim.claim, claim.share_id)
                by_claim.setdefault(key, []).append(holder)
        for group in by_claim.values():
            others = [holder for holder in owners if holder not in group]
            used = _claim_used(gpu, part, group, others)
            yield ClaimMemory(gpu, part, group[0], group[0].declared_memory, used)


def _claim_used(
    gpu: GpuReading, part: MigReading | None, group: Sequence[Holder], others: Sequence[Holder]
) -> int | None:
    if not others:
        return part.fb_used if part else gpu.fb_used
    processes = _processes(gpu, part)
    pods = {holder.pod_uid for holder in group}
    # A pod with two claims on one device could be using either.
    if processes is None or "" in pods or pods & {holder.pod_uid for holder in others}:
        return None
    parts = [
        _used(processes, uid, [process.memory for process in processes]) for uid in sorted(pods)
    ]
    return None if None in parts else sum(amount for amount in parts if amount is not None)


def _used(
    processes: Sequence[ProcessReading], pod_uid: str, amounts: Iterable[int | None]
) -> int | None:
    """Return the sum over a pod's processes, None where it is not known."""
    own = [
        amount
        for process, amount in zip(processes, amounts, strict=True)
        if process.pod_uid == pod_uid
    ]
    if not own and any(not process.pod_uid for process in processes):
        return None
    known = [amount for amount in own if amount is not None]
    return sum(known) if len(known) == len(own) else None


def _devices(reading: NvmlReading) -> Iterator[tuple[GpuReading, MigReading | None, str]]:
    for gpu in reading.gpus:
        if not gpu.instances:
            yield gpu, None, gpu.uuid
        for part in gpu.instances or ():
            yield gpu, part, part.uuid


def _processes(gpu: GpuReading, part: MigReading | None) -> list[ProcessReading] | None:
    """Return the processes on a device, None where they are not known.

    A device that is clearly in use has processes: an empty list then tells of none that we see.
    """
    if gpu.processes is None:
        return None
    found = list(gpu.processes)
    if part is not None:
        if any(process.gi is None for process in found):
            return None
        found = [
            process for process in found if process.gi == part.gi and process.ci in (None, part.ci)
        ]
    used = part.fb_used if part else gpu.fb_used
    return None if not found and (used or 0) > _CLEARLY_USED else found
