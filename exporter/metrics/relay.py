"""GPUs as DCGM calls them, for the DCGM_* series of a page without NVML. Pure.

A host engine may read GPUs that this process cannot: another container's, or another
machine's. The values are DCGM's and so is the number in `gpu`. Nothing here says that a
GPU is there or healthy: reports and draguard_* families are made from NVML alone. What
NVML called lost, hung or let go before it went down stays away from the page.
"""

from collections.abc import Iterable, Iterator

from exporter.agent.report import gpu_state
from exporter.model.node_health import GpuHealth
from exporter.model.readings import (
    STARTING,
    DcgmGpu,
    GpuReading,
    MigReading,
    NvmlReading,
    Observation,
)

REASON = "WithoutNvml"
"""Reason of the source `dcgm` on the page while its GPUs are shown under its own numbers."""

_AWAY = frozenset(
    {
        gpu_state.DUPLICATE_UUID,
        gpu_state.HUNG,
        gpu_state.NOT_IDENTIFIED,
        gpu_state.NOT_LISTED,
        gpu_state.NOT_ON_BUS,
        gpu_state.NOT_PUBLISHED,
        gpu_state.RELEASED,
        gpu_state.SET_ASIDE,
        gpu_state.UNPUBLISHED_LATER,
    }
)
"""Reasons of a GPU in the report for which DCGM's word on it is not shown."""
_WHOLE_NODE = frozenset({gpu_state.RELEASED, STARTING})
"""Reasons of NVML's own silence that are no outage: it was sent away, or is about to speak."""


def silent(seen: Observation, before: frozenset[str]) -> frozenset[str]:
    """Return the UUIDs of GPUs that NVML lists and cannot read, as it said last.

    The report forgets why a GPU was silent once NVML is down as a whole.
    """
    if seen.nvml is None:
        return before | ({seen.hang.uuid} if seen.hang and seen.hang.uuid else frozenset[str]())
    return frozenset(
        gpu.uuid for gpu in seen.nvml.gpus if gpu.lost or gpu.hung_call or gpu.released
    )


def relayed(
    seen: Observation, known: Iterable[GpuHealth], unanswered: frozenset[str] = frozenset()
) -> NvmlReading | None:
    """Return the GPUs that DCGM names; None while NVML speaks, or while DCGM does not.

    `known` is what the report has of each GPU, `unanswered` which of them NVML could not read.
    """
    down = any(
        source.name == "nvml" and not source.up and source.reason not in _WHOLE_NODE
        for source in seen.sources
    )
    any_may_hang = seen.hang is not None and not seen.hang.uuid
    if seen.nvml is not None or seen.dcgm is None or not down or any_may_hang:
        return None
    away = {gpu.uuid for gpu in known if gpu.presence == "Lost" or gpu.presence_reason in _AWAY}
    away |= {seen.hang.uuid} if seen.hang else set[str]()
    away.update(unanswered, seen.dcgm.detached)
    gpus = tuple(
        GpuReading(
            index=gpu.id,
            uuid=gpu.uuid,
            bus_id=gpu.bus_id,
            product=gpu.product,
            instances=tuple(_parts(gpu)) or None,
        )
        for gpu in seen.dcgm.identities
        if gpu.uuid not in away
    )
    return NvmlReading(at=seen.dcgm.at, gpus=gpus) if gpus else None


def sentence(reading: NvmlReading, seen: Observation) -> str:
    """Say in a log what the page shows now, and why."""
    why = next((source.reason for source in seen.sources if source.name == "nvml"), "")
    return (
        f"NVML is not available ({why}) and DCGM answers: the DCGM_* series of {len(reading.gpus)} "
        "GPUs are shown under DCGM's own GPU ids; no draguard_* family and no report is made "
        "from them"
    )


def _parts(gpu: DcgmGpu) -> Iterator[MigReading]:
    """Give each compute instance, under the profile of its GPU instance where it has none."""
    profiles = {part.gi: part.profile for part in gpu.parts if part.ci is None}
    for part in gpu.parts:
        if part.ci is not None:
            profile = part.profile or profiles.get(part.gi, "")
            yield MigReading(uuid="", gi=part.gi, ci=part.ci, profile=profile)
    whole = {part.gi for part in gpu.parts} - {part.gi for part in gpu.parts if part.ci is not None}
    for gi in sorted(whole):
        yield MigReading(uuid="", gi=gi, ci=0, profile=profiles.get(gi, ""))
