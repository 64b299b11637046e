"""The errors of a made-up node: what their codes mean, and who has recorded them."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from exporter.model.node_health import GpuHealth
from remediator.model.incident import Incident

APPLICATION = (13, 31, 43, 45, 69)
INFORMATION = (37, 44, 92, 9999)
"""Codes that must never taint anything, whatever their number; 9999 is in no catalogue."""
GPU_WIDE = (79, 95, 119, 48, 120, 63, 160, 64)
PENDING = frozenset({63, 160})
"""Of those, what waits for a reset: the GPU is sound until then."""
CONTAINED = (94,)
NODE_WIDE, NODE_ACTIONS = (79,), (2, 7)
"""Codes, and recovery actions, after which the node is to be rebooted in spite of its pods."""
SIGNALS = (*APPLICATION, *INFORMATION, *GPU_WIDE, *CONTAINED)


def of_the_whole(health: GpuHealth, after: datetime | None) -> frozenset[int]:
    """Return the errors of the whole GPU that its report has in this epoch, since a moment."""
    here = (it for it in health.xids if it.code in GPU_WIDE and it.epoch == health.epoch)
    return frozenset(it.code for it in here if after is None or it.last_seen > after)


def places(health: GpuHealth) -> set[int]:
    """Return the memory slices that records of contained errors name."""
    found = [it.placement for it in health.xids if it.code in CONTAINED and it.placement]
    return {start for place in found for start in range(place.start, place.start + place.size)}


def unrecorded(health: GpuHealth, incidents: Iterable[Incident]) -> GpuHealth:
    """Return a GPU with those contained errors alone that no incident has recorded."""
    mine = [
        known.status.fault.seen_signals for known in incidents if known.spec.uuid == health.uuid
    ]
    recorded = {(it.code, it.gpu_instance) for signals in mine for it in signals or ()}
    new = (it for it in health.xids if it.code in CONTAINED and (it.code, it.gi) not in recorded)
    return msgspec.structs.replace(health, xids=tuple(new))
