"""A rule that somebody deletes is made again, and pods are not moved to what it taints."""

import pytest

from exporter.model.device import Device
from exporter.model.node_health import XidRecord
from tests.remediator.builders import DRIVER, NODE, SLICE_5, Stored, action, mig_gpu, view, xid
from tests.remediator.playing import settle, tick

SLICE_2 = "gpu-0-mig-1g10gb-19-1"


def reported(stored: Stored, second: float, *records: XidRecord, once: bool = False) -> None:
    seen = view(mig_gpu(0, *records, recovery_action=action(observed=second - 0.1)))
    (tick if once else settle)(stored, seen, second)


def two_failed_slices() -> Stored:
    """Slice 2 has failed, its agent forgot that; slice 5 fails and is about to be emptied."""
    stored = Stored()
    for second in (1, 5):
        reported(stored, second, xid(94, gi=2))
    reported(stored, 60.2, xid(94, seen=60, gi=5))
    assert stored.effects() == {SLICE_2: "NoExecute", SLICE_5: "NoSchedule"}
    return stored


@pytest.mark.parametrize("deleted_at", [61.0, 64.0])
def test_what_is_made_again_settles_before_pods_are_evicted_from_its_sibling(
    deleted_at: float,
) -> None:
    stored, failed = two_failed_slices(), xid(94, seen=60, gi=5)

    del stored.rules[Device(DRIVER, NODE, SLICE_2)]
    reported(stored, deleted_at, failed, once=True)
    assert stored.effects() == {SLICE_2: "NoSchedule", SLICE_5: "NoSchedule"}
    reported(stored, deleted_at + 1, failed)
    assert stored.effects() == {SLICE_2: "NoSchedule", SLICE_5: "NoSchedule"}

    reported(stored, deleted_at + 4, failed)
    assert stored.effects()[SLICE_5] == "NoExecute"
