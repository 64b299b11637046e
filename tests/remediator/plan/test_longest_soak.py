"""An incident is soaked for as long as any class that was found in it, and not the worst alone."""

from typing import Any

import msgspec
import pytest

from exporter.model.node_health import MemoryHealth
from remediator.diagnose.fault import FaultClass
from remediator.model.incident_status import with_changes
from remediator.policy.table import Policy
from tests.remediator.builders import Stored, action, at, gpu, report, soaking, view, xid
from tests.remediator.playing import settle

HOUR = 3600.0
SOUND = MemoryHealth(
    row_remap_failed="False", sram_threshold_exceeded="False", remap_observed_at=at(600)
)
WORN = msgspec.structs.replace(SOUND, sram_threshold_exceeded="True")
LONG = soaking("memory", 24 * HOUR)


def of_class(rows: Policy, fault_class: FaultClass, **fields: Any) -> Policy:
    changed = tuple(
        msgspec.structs.replace(row, **fields) if row.fault_class == fault_class else row
        for row in rows.rows
    )
    return msgspec.structs.replace(rows, rows=changed)


def worn(*codes: int) -> Stored:
    """Return what stands for a GPU over its SRAM threshold, with XIDs on top."""
    stored = Stored()
    for seconds in (0.0, 5.0, 10.0):
        answer = action(1, 1, seconds + 1) if codes else action(0, -HOUR, seconds)
        sick = gpu(0, *(xid(code, 0) for code in codes), memory=WORN, recovery_action=answer)
        settle(stored, view(sick, report=report(sick, observed_at=at(seconds))), seconds, LONG)
    assert stored.effects()
    return stored


def stands(stored: Stored, hours: float, rows: Policy = LONG) -> bool:
    """Play a reboot and some time; return whether the taint still stands."""
    for hour in (0.0, hours / 2, hours):
        seconds = 600 + hour * HOUR
        well = gpu(
            0,
            presence_since=at(590),
            epoch_started=at(590),
            memory=SOUND,
            recovery_action=action(0, 590, seconds),
        )
        seen = report(well, observed_at=at(seconds), boot_id="boot-2")
        settle(stored, view(well, report=seen), seconds, rows)
    return bool(stored.effects())


@pytest.mark.parametrize("codes", [(), (95,), (79,)], ids=["alone", "XID 95 leads", "XID 79 leads"])
def test_a_worse_class_does_not_shorten_the_soak_of_a_milder_one(codes: tuple[int, ...]) -> None:
    assert stands(worn(*codes), 23)
    assert not stands(worn(*codes), 25)


def test_the_classes_are_recorded_from_the_least_to_the_worst() -> None:
    assert worn(95).incident.status.fault.classes == ("memory", "gpu")


@pytest.mark.parametrize("change", [{"mode": "off"}, {"ceiling": "observe"}])
def test_a_class_that_the_policy_spares_by_now_lengthens_no_soak(change: dict[str, str]) -> None:
    assert not stands(worn(95), 1, of_class(LONG, "memory", **change))


def test_while_two_policies_disagree_its_soak_counts() -> None:
    off = of_class(LONG, "memory", mode="off")
    assert stands(worn(95), 1, msgspec.structs.replace(off, disagrees="another leader's"))


def test_the_class_of_a_taint_counts_where_an_older_version_recorded_none() -> None:
    stored = worn()
    incident = stored.incident
    older = with_changes(incident.status, fault={"classes": (), "fault_class": "suspect"})
    stored.put_incident(msgspec.structs.replace(incident, status=older))

    assert stands(stored, 23)
