"""The GPUs and MIG slices that are live on this node, as far as names lead to them.

A slice is found by where it lies (GPU, profile, placement) or by the ids NVML
gave it. Both are used again after a slice is destroyed, so nothing is kept here
from one look to the next: a slice made again is another one, with its own
UUID. Pure.
"""

from collections.abc import Iterable

import msgspec

from exporter.model.node_health import GpuHealth


class LiveSlice(msgspec.Struct, frozen=True, kw_only=True):
    """A MIG device that exists now; the fields are those of `report.MigInstance`."""

    uuid: str
    gi: int
    ci: int
    gi_profile_id: int | None = None
    placement_start: int | None = None


class LiveGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A physical GPU."""

    uuid: str
    number: int | None = None
    """N of /dev/nvidiaN (nvmlDeviceGetMinorNumber)."""
    slices: tuple[LiveSlice, ...] = ()


class Hardware(msgspec.Struct, frozen=True):
    """Everything live, in one lookup."""

    gpus: tuple[LiveGpu, ...] = ()

    @property
    def uuids(self) -> frozenset[str]:
        """Of the GPUs and of all slices."""
        slices = (part.uuid for gpu in self.gpus for part in gpu.slices)
        return frozenset((*(gpu.uuid for gpu in self.gpus), *slices))

    def by_uuid(self, uuid: str) -> LiveGpu | None:
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def by_number(self, number: int) -> LiveGpu | None:
        """Return the GPU behind /dev/nvidiaN; None as well when two claim to be it."""
        found = [gpu for gpu in self.gpus if gpu.number == number]
        return found[0] if len(found) == 1 else None

    def placed(self, parent: str, gi_profile_id: int, start: int) -> tuple[str, ...]:
        """Return the UUIDs of what lives at a place: each compute instance of one GPU instance."""
        gpu = self.by_uuid(parent)
        return tuple(
            part.uuid
            for part in (gpu.slices if gpu else ())
            if (part.gi_profile_id, part.placement_start) == (gi_profile_id, start)
        )


def of_report(gpus: Iterable[GpuHealth]) -> Hardware:
    """Take what the node's report knows now.

    A GPU that hangs or that nobody can read keeps its last slices there, so that affected pods stay
    known; each reading replaces them. A lost GPU gave up its number, another may have it.
    """
    return Hardware(
        tuple(
            LiveGpu(
                uuid=gpu.uuid,
                number=None if gpu.presence == "Lost" else gpu.minor,
                slices=tuple(
                    LiveSlice(
                        uuid=part.uuid,
                        gi=part.gi,
                        ci=part.ci,
                        gi_profile_id=part.gi_profile_id,
                        placement_start=part.placement_start,
                    )
                    for part in gpu.instances
                ),
            )
            for gpu in gpus
        )
    )
