"""A status that was never written, or that somebody wiped: filled again from what stands."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, RecoveryAction
from exporter.model.node_health_condition import FabricHealth, MemoryHealth, NvlinkHealth
from remediator.model.incident_status import IncidentStatus
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import CreateRule, DeleteRule, OpenIncident
from remediator.plan.view import GpuPlace, NodeView
from remediator.plan.words import was_lost
from remediator.policy.table import Policy
from tests.remediator.builders import (
    ALL_SEVEN,
    LASTS,
    NODE,
    RESET,
    SLICE_5,
    Stored,
    action,
    at,
    dead,
    gpu,
    incident,
    mig_gpu,
    policy,
    report,
    report_with,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import claim, pod, settle
from tests.remediator.test_device_classes import by_class

SOAK = 600
HOUR = 3600
ENFORCE = policy()
SICK = view(gpu(0, xid(95), recovery_action=RESET), gpu(1))
WELL = view(
    gpu(0, xid(95), epoch=2, epoch_started=at(HOUR), recovery_action=action(0, HOUR, HOUR + 30))
)


def wiped(stored: Stored, name: str = "") -> Stored:
    """Take the status off an incident, as a restore of a backup without it does."""
    for known in list(stored.incidents.values()):
        if name in ("", known.name):
            stored.incidents[known.name] = msgspec.structs.replace(known, status=IncidentStatus())
    return stored


def drained(stored: Stored) -> NodeView:
    settle(stored, SICK, 1)
    for second in (5, 20, 40):
        settle(stored, SICK, second)
    return SICK


def suspected(stored: Stored) -> NodeView:
    seen = view(gpu(0, xid(95), recovery_action=RESET), gpu(1))
    step(stored, seen, 1, ENFORCE, only=(CreateRule, OpenIncident))
    return seen


def tainted(stored: Stored) -> NodeView:
    settle(stored, SICK, 1)
    return SICK


def evicting(stored: Stored) -> NodeView:
    seen = with_fields(SICK, claims=(claim("gpu-0"),))
    settle(stored, seen, 1)
    settle(stored, seen, 5)
    return seen


def verifying(stored: Stored) -> NodeView:
    drained(stored)
    settle(stored, WELL, HOUR + 60)
    return WELL


def step(
    stored: Stored, seen: NodeView, seconds: float, rules: Policy, *, only: tuple[type, ...]
) -> None:
    """Take some steps of one decision, and none after them."""
    decision = decide_node(stored.over(seen), stored.fleet(), rules, at(seconds))
    for decided in decision.steps:
        if isinstance(decided, only):
            stored.take(decided, at(seconds))


PHASES: dict[str, Callable[[Stored], NodeView]] = {
    "Suspected": suspected,
    "Tainted": tainted,
    "Evicting": evicting,
    "Drained": drained,
    "Verifying": verifying,
}


@pytest.mark.parametrize("phase", list(PHASES))
def test_a_wiped_status_takes_no_taint_down_and_costs_a_full_soak(phase: str) -> None:
    stored = Stored()
    PHASES[phase](stored)
    begun = 2 * HOUR
    effects = stored.effects()
    assert set(effects) == {"gpu-0"}

    wiped(stored)
    settle(stored, WELL, begun)
    assert stored.effects().keys() == effects.keys()
    settle(stored, WELL, begun + SOAK - 1)
    assert stored.effects().keys() == effects.keys(), "a soak of before the loss was counted"
    assert stored.incident.status.fault.fault_class == "gpu"
    assert stored.incident.status.phase == "Verifying"

    settle(stored, WELL, begun + SOAK + 60)
    assert stored.effects() == {}
    assert stored.incident.status.phase == "Recovered"


@pytest.mark.parametrize("phase", list(PHASES))
def test_a_gpu_that_is_still_sick_stays_as_it_is_after_the_loss(phase: str) -> None:
    stored = Stored()
    seen = PHASES[phase](stored)
    before = stored.effects()

    wiped(stored)
    settle(stored, seen if phase != "Verifying" else SICK, 2 * HOUR)

    assert stored.effects().items() >= before.items() or phase in ("Suspected", "Tainted")
    assert len(stored.incidents) == 1
    assert stored.incident.status.fault.cause == "xid-95"
    assert stored.incident.status.scope.hardware


def test_while_nothing_is_known_a_wiped_incident_changes_nothing() -> None:
    stored = Stored()
    drained(stored)
    before = stored.effects()

    wiped(stored)
    settle(stored, with_fields(SICK, report=None), 2 * HOUR)

    assert (stored.effects(), stored.incident.open) == (before, True)
    assert stored.incident.status.fault.fault_class == "gpu"


def test_whoever_dies_between_the_two_writes_of_an_opening_loses_nothing() -> None:
    """The rule and the object are there, and no status."""
    stored = Stored()
    step(stored, SICK, 1, ENFORCE, only=(CreateRule, OpenIncident))
    assert stored.incident.blank

    for second in (2, 6):
        settle(stored, SICK, second)

    assert (stored.incident.status.phase, stored.incident.status.fault.cause) == (
        "Evicting",
        "xid-95",
    )
    assert not was_lost(stored.incident)


def test_an_incident_without_status_rules_and_fault_is_closed_and_one_with_a_fault_is_filled() -> (
    None
):
    watching = policy(mode="incident-only")
    stored = Stored()
    step(stored, SICK, 1, watching, only=(OpenIncident,))

    settle(stored, with_fields(SICK, report=None), 2, watching)
    assert stored.incident.open, "nothing is known"
    wiped(stored)
    settle(stored, SICK, 3, watching)
    assert (stored.incident.status.fault.cause, stored.incident.open) == ("xid-95", True)
    wiped(stored)
    settle(stored, view(gpu(0), gpu(1)), 4, watching)
    assert (stored.incident.status.phase, stored.incident.open) == ("Closed", False)


def test_a_closed_incident_that_was_wiped_is_closed_again_and_goes_on_to_count() -> None:
    stored = Stored()
    verifying(stored)
    settle(stored, WELL, HOUR + 60 + SOAK + 60)
    settle(stored, WELL, HOUR + 60 + SOAK + 120)
    assert not stored.incident.open

    wiped(stored)
    settle(stored, WELL, 3 * HOUR)
    assert (stored.incident.open, stored.effects()) == (False, {})

    again = gpu(
        0,
        xid(95, seen=4 * HOUR, epoch=2),
        epoch=2,
        recovery_action=action(1, 4 * HOUR + 1, 4 * HOUR + 1),
    )
    settle(stored, view(again), 4 * HOUR + 2)
    (_, second) = sorted(stored.incidents.values(), key=lambda incident: incident.name)
    assert second.status.history.recurrence == 2


def test_the_incident_that_tells_something_leads_and_not_the_older_one_that_was_wiped() -> None:
    stored = Stored()
    verifying(stored)
    settle(stored, WELL, HOUR + 60 + SOAK + 60)
    settle(stored, WELL, HOUR + 60 + SOAK + 120)
    (first,) = stored.incidents
    again = view(
        gpu(
            0,
            xid(95, seen=4 * HOUR, epoch=2),
            epoch=2,
            recovery_action=action(1, 4 * HOUR + 1, 4 * HOUR + 1),
        )
    )
    settle(stored, again, 4 * HOUR + 2)
    (second,) = set(stored.incidents) - {first}

    wiped(stored, first)
    settle(stored, again, 4 * HOUR + 10)

    assert stored.incidents[second].open
    assert not stored.incidents[first].open
    assert stored.incidents[first].status.history.duplicate_of == ""
    assert {rule.incident for rule in stored.rules.values()} == {second}


def test_a_repair_confirmed_before_a_later_signal_frees_nothing_after_the_loss() -> None:
    stored = Stored()
    drained(stored)
    stored.intend("RepairConfirmed", LASTS)

    wiped(stored)
    settle(stored, SICK, 2 * HOUR)

    assert [intent.state for intent in stored.incident.status.policy.intents] == ["Overtaken"]
    assert set(stored.effects()) == {"gpu-0"}


def contained(seen: float, gi: int | None = 5) -> GpuHealth:
    return mig_gpu(0, xid(94, seen=seen, gi=gi))


def test_an_old_error_of_a_slice_taints_no_slice_that_has_its_number_now() -> None:
    """What was tainted stays so; the number of the instance is another slice's by now."""
    stored = Stored()
    settle(stored, view(contained(0)), 1)
    assert set(stored.effects()) == {SLICE_5}
    recut = contained(0, gi=1)

    wiped(stored)
    settle(stored, view(recut), 2 * HOUR)

    assert set(stored.effects()) == {SLICE_5}


def test_a_gpu_that_was_tainted_whole_is_not_narrowed_after_the_loss() -> None:
    stored = Stored()
    settle(stored, view(contained(0, gi=None)), 1)
    settle(stored, view(contained(0, gi=None)), 10)
    assert set(stored.effects()) == ALL_SEVEN

    wiped(stored)
    settle(stored, view(contained(0, gi=None)), 2 * HOUR)
    named = mig_gpu(0, xid(94, seen=2 * HOUR + 1, gi=5))
    settle(stored, view(named), 2 * HOUR + 2)

    assert set(stored.effects()) == ALL_SEVEN


@pytest.mark.parametrize("phase", list(PHASES))
def test_whichever_write_after_a_loss_is_the_last_nothing_is_untainted(phase: str) -> None:
    stored = Stored()
    PHASES[phase](stored)
    wiped(stored)
    for seconds in range(2 * HOUR, 2 * HOUR + 50, 5):
        decision = decide_node(stored.over(WELL), stored.fleet(), ENFORCE, at(seconds))
        assert not any(isinstance(step, DeleteRule) for step in decision.steps)
        for step in decision.steps[:1]:
            stored.take(step, at(seconds))
        if seconds % 2 == 0:
            wiped(stored)

    assert set(stored.effects()) == {"gpu-0"}


@pytest.mark.parametrize("opening", [{"training"}, set[str]()])
def test_claims_after_the_loss_change_nothing_either(opening: set[str]) -> None:
    """A class whose pods have gone is remembered, and no later claim takes a taint down."""
    stored, rows = Stored(), by_class("enforce", "incident-only")
    seen = msgspec.structs.replace(
        SICK, places={uuid(0): GpuPlace(node=NODE, classes=frozenset(opening))}
    )
    for second in (1, 5):
        settle(stored, seen, second, rows)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    wiped(stored)
    tenant = GpuPlace(node=NODE, classes=frozenset({"interactive"}))
    settle(stored, msgspec.structs.replace(SICK, places={uuid(0): tenant}), 2 * HOUR, rows)

    assert set(stored.effects()) == {"gpu-0"}
    assert set(stored.incident.status.policy.device_classes) == opening


def test_a_gpu_that_waits_for_a_user_waits_for_one_after_the_loss() -> None:
    worn = view(gpu(0, memory=msgspec.structs.replace(gpu(0).memory, row_remap_failed="True")))
    stored = Stored()
    settle(stored, worn, 1)
    settle(stored, worn, 60)
    assert stored.incident.status.recovery.untaint == "OnConfirmation"

    wiped(stored)
    settle(stored, worn, 2 * HOUR)

    assert stored.incident.status.recovery.untaint == "OnConfirmation"
    assert stored.effects() == {"gpu-0": "NoSchedule"}


def test_an_ignore_that_was_overtaken_before_the_loss_stays_so() -> None:
    """Without end it was for the fabric. In force it would leave no rule: so it was overtaken."""
    unwell = FabricHealth(state=3, status=0, health_summary=2)
    mild, worse = view(gpu(0, fabric=unwell)), view(with_fields(dead(0), fabric=unwell))
    stored = Stored()
    for second in (1, 5):
        settle(stored, mild, second)
    stored.intend("Ignore", LASTS)
    settle(stored, mild, 20)
    assert stored.effects() == {}
    for second in (100, 105, 130):
        settle(stored, worse, second)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    wiped(stored)
    for second in (1000, 1010, 90000):
        settle(stored, worse, second)

    assert stored.effects() == {"gpu-0": "NoExecute"}


LINKS_DOWN = {"nvlink": NvlinkHealth(up=(0, 1), down=(3,), failed=(3,))}
FABRIC_BAD = {"fabric": FabricHealth(state=3, status=0, health_summary=2)}


@pytest.mark.parametrize("lost", ["status", "incident"])
@pytest.mark.parametrize(
    ("sick", "silent", "well"),
    [
        (
            LINKS_DOWN,
            {"nvlink": NvlinkHealth(up=(0, 1), down=(3,))},
            {"nvlink": NvlinkHealth(up=(0, 1, 3))},
        ),
        (
            FABRIC_BAD,
            {"fabric": FabricHealth(state=2)},
            {"fabric": FabricHealth(state=3, status=0, health_summary=1)},
        ),
    ],
    ids=["nvlink", "fabric"],
)
def test_the_end_that_a_fault_awaits_is_known_by_its_rule(
    sick: dict[str, object], silent: dict[str, object], well: dict[str, object], lost: str
) -> None:
    """After a reboot the link does not come up, or the fabric manager hangs: nothing is read."""
    stored = Stored()

    def look(second: float, **parts: Any) -> None:
        since = 0 if parts == sick else 590
        answers = action(0, since, second)
        board = gpu(0, presence_since=at(since), recovery_action=answers, **parts)
        boot = "boot-1" if parts == sick else "boot-2"
        settle(stored, view(board, report=report(board, boot_id=boot)), second)

    for second in (1, 5, 20):
        look(second, **sick)
    look(600, **silent)
    if lost == "status":
        wiped(stored)
    else:
        stored.incidents.clear()

    for second in range(640, 5000, 60):
        look(second, **silent)
    assert stored.effects() == {"gpu-0": "NoSchedule"}

    for second in range(5000, 7000, 60):
        look(second, **well)
    assert stored.effects() == {}


def test_an_older_incident_that_comes_back_takes_over_what_the_younger_one_waits_for() -> None:
    """It was closed, and a backup has it open. The younger one waits for a user."""
    exceeded = gpu(0, memory=MemoryHealth(sram_threshold_exceeded="True"))
    mended = gpu(0, memory=MemoryHealth(sram_threshold_exceeded="False"), presence_since=at(590))
    older = incident(0, 1, made=-9000, fault_class="suspect", cause="xid-13-repeated")
    older = msgspec.structs.replace(
        older, status=with_fields(older.status, phase="Suspected", phase_since=at(-9000))
    )
    stored = Stored()
    stored.put_incident(
        msgspec.structs.replace(
            older, status=with_fields(older.status, phase="Closed", closed_at=at(-8000))
        )
    )
    for second in (1, 5, 20):
        settle(stored, view(exceeded), second)
    assert stored.effects() == {"gpu-0": "NoSchedule"}

    stored.put_incident(msgspec.structs.replace(stored.incidents[older.name], status=older.status))
    for second in range(600, 3000, 30):
        settle(stored, view(mended), second)

    leading = stored.incidents[older.name].status
    assert (leading.recovery.untaint, leading.fault.fault_class) == ("OnConfirmation", "memory")
    assert stored.effects() == {"gpu-0": "NoSchedule"}


def test_what_a_gpu_needs_that_is_gone_with_its_status_a_user_has_to_find_out() -> None:
    """It was missing after a reboot, and needed a replacement."""
    stored, without = Stored(), view(gpu(1))
    without = with_fields(without, report=report_with(without, boot_id="boot-2"))
    for second in (1, 5, 30):
        settle(stored, view(dead(0), gpu(1)), second)
    for second in (100, 200):
        settle(stored, without, second)
    assert stored.incident.status.repair.needs == "Replacement"

    wiped(stored)
    for second in (4000, 9000):
        settle(stored, without, second)

    assert stored.incident.status.repair.needs == "Human"


@pytest.mark.parametrize("started", [1200, -1200], ids=["came after it", "was there"])
@pytest.mark.parametrize("lost", ["status", "incident"])
def test_an_old_error_whose_record_is_gone_evicts_no_pod_that_came_after_it(
    lost: str, started: float
) -> None:
    """The driver has no recovery action. A user had confirmed the repair, a day ago."""

    def look(second: float, **usage: Any) -> None:
        unsupported = RecoveryAction(support="Unsupported", observed_at=at(second))
        board = gpu(0, xid(95), recovery_action=unsupported)
        seen = view(board, report=report(board, observed_at=at(second)), **usage)
        settle(stored, seen, second)

    stored = Stored()
    for second in (1, 5, 20):
        look(second)
    stored.intend("RepairConfirmed", LASTS)
    for second in range(60, 900, 20):
        look(second)
    assert stored.incident.status.phase == "Recovered"
    busy = {"claims": (claim("gpu-0"),), "pods": (pod(started=at(started)),)}
    look(86400, **busy)

    if lost == "status":
        wiped(stored)
    else:
        stored.incidents.clear()
    for second in (86401, 86410, 86500):
        look(second, **busy)

    evicts = started < 0
    assert stored.effects() == {"gpu-0": "NoExecute" if evicts else "NoSchedule"}
