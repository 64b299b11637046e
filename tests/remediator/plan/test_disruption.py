"""What steps would begin to do to running pods, and what was confirmed when it began."""

import pytest

from exporter.model.device import Device
from remediator.diagnose.fault import Unknown
from remediator.model.incident_status import AffectedPod
from remediator.plan.steps import EvictPod, disruption
from tests.remediator.builders import DRIVER, at, evictions, make_board, uuid
from tests.remediator.plan.fleets import an_incident


@pytest.mark.parametrize("begun", [False, True])
def test_an_eviction_begins_where_its_incident_has_not_begun_one(*, begun: bool) -> None:
    device = Device(DRIVER, "node-a", "gpu-0")
    incident = an_incident(
        "a0",
        evicting_at=at(-60) if begun else None,
        by_device=evictions(at(-60)) if begun else (),
    )
    board = make_board(Unknown("not read"), incidents=(incident,))
    step = EvictPod(uuid(0), AffectedPod("default", "train", "train", str(device), "uid"))

    found = disruption([step], [board], ())

    assert found.devices == (frozenset() if begun else frozenset({device}))


def test_the_name_of_a_pool_may_have_slashes() -> None:
    device = Device(DRIVER, "rack-1/node-a", "gpu-0")
    step = EvictPod(uuid(0), AffectedPod("default", "train", "train", str(device), "uid"))

    assert disruption([step], (), ()).devices == {device}
