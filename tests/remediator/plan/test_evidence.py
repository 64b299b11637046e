"""What an incident tells as its evidence: the lines of XIDs stay, and with them what they ask."""

import msgspec

from exporter.model.node_health import FabricHealth
from tests.remediator.builders import (
    NO_ACTION_FIELD,
    RESET,
    Stored,
    action,
    at,
    fault,
    gpu,
    mig_gpu,
    uuid,
    view,
    xid,
)
from tests.remediator.playing import settle

UNREGISTERED = gpu(recovery_action=NO_ACTION_FIELD, fabric=FabricHealth(state=3, status=15))
WELL = gpu(recovery_action=NO_ACTION_FIELD, fabric=FabricHealth(state=3, status=0))


def codes(stored: Stored) -> list[str]:
    return [" ".join(line.split()[:2]) for line in stored.incident.status.fault.evidence]


def test_an_old_driver_owes_a_new_epoch_for_an_xid_that_it_tells_no_more() -> None:
    stored = Stored()
    lost = gpu(presence="Lost", presence_since=at(0), recovery_action=NO_ACTION_FIELD)
    settle(stored, view(lost), 1)
    settle(stored, view(gpu(0, xid(95, seen=2), recovery_action=NO_ACTION_FIELD)), 3)
    for second in (4, 9):
        settle(stored, view(UNREGISTERED), second)
    assert "XID 95" in codes(stored)

    for second in (20, 700):
        settle(stored, view(WELL), second)
    assert stored.effects(), "nobody has seen the end of the XID"
    assert "no new epoch" in stored.incident.status.message

    reset = gpu(recovery_action=NO_ACTION_FIELD, fabric=WELL.fabric, epoch=2)
    for second in (710, 720, 1400):
        settle(stored, view(reset), second)
    assert not stored.effects()


def test_each_code_has_one_line_however_its_sources_change() -> None:
    stored = Stored()
    settle(stored, view(gpu(0, xid(95), xid(48), recovery_action=RESET)), 1)
    received = msgspec.structs.replace(xid(95), sources=("kmsg", "nvml"))
    settle(stored, view(gpu(0, received, recovery_action=RESET)), 2)

    assert codes(stored).count("XID 95") == codes(stored).count("XID 48") == 1
    assert any("kmsg and nvml" in line for line in stored.incident.status.fault.evidence)


def test_a_suspicion_of_before_asks_for_no_new_epoch() -> None:
    stored = Stored()
    seen = "XID 31 within a day under 2 owners"
    suspect = fault("suspect", "xid-31-repeated", xid=31, evidence=seen)
    settle(stored, view(UNREGISTERED, suspects={uuid(0): suspect}), 1)
    settle(stored, view(UNREGISTERED), 2)
    settle(stored, view(UNREGISTERED), 9)
    assert "XID 31" in codes(stored)

    for second in (20, 700):
        settle(stored, view(WELL), second)

    assert not stored.effects()
    assert not stored.incident.open


def test_with_a_recovery_action_a_line_of_before_holds_nothing_back() -> None:
    stored = Stored()
    settle(stored, view(mig_gpu(0, xid(95), recovery_action=RESET)), 1)
    settle(stored, view(mig_gpu(recovery_action=action(0, 5, 5))), 6)
    settle(stored, view(mig_gpu(recovery_action=action(0, 5, 5))), 700)

    assert not stored.incident.open
