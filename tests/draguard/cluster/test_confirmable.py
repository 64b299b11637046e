"""A confirmation is refused where it would change nothing, with the reason."""

from typing import Any

import msgspec
import pytest

from draguard.cluster.intents import confirmation_refusal
from exporter.model.node_health import RecoveryAction
from remediator.diagnose.fault import Fault, Healthy, Sick, Unknown, Verdict
from remediator.model.incident import with_intent
from remediator.model.incident_status import Condition, IncidentStatus
from remediator.plan.board import Board
from remediator.plan.boards import bind_boards
from tests.remediator.builders import (
    LASTS,
    NO_ACTION_FIELD,
    T0,
    Stored,
    at,
    gpu,
    make_board,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.fleets import an_incident
from tests.remediator.playing import settle

HEALTHY = Healthy(at(0), "answers")
SICK = Sick((Fault(fault_class="gpu", cause="xid-95", last_seen=T0, evidence="XID 95 was seen"),))
UNKNOWN = Unknown("the agent of node-a has been silent")
WAITS = Condition("NeedsHuman", "True", "Sticky", T0, "3rd incident")
SILENT = Condition("NeedsHuman", "True", "NoSource", T0, "the driver has no recovery action")
UNREAD = gpu(0, recovery_action=RecoveryAction())
"""For five hours; its recovery action was never read."""


def case(verdict: Verdict, **more: Any) -> Board:
    standard = {"gpu": gpu(0), "reported": True, "believed": True, "nvml_up": True}
    fields: dict[str, Any] = {**standard, "confirmable": True, **more}
    return make_board(verdict, **fields)


def refused(judged: Board | None, **status: object) -> str:
    stored = with_fields(IncidentStatus(phase="Tainted"), **status)
    return confirmation_refusal(msgspec.structs.replace(an_incident("a0"), status=stored), judged)


@pytest.mark.parametrize("phase", ["Tainted", "NeedsHuman"])
def test_of_a_gpu_that_is_still_sick(phase: str) -> None:
    why = refused(case(SICK), phase=phase, untaint="OnConfirmation")

    assert why == "the GPU is still sick: XID 95 was seen; repair it first"


@pytest.mark.parametrize("one", [case(HEALTHY), case(UNKNOWN), None], ids=["well", "?", "unread"])
def test_where_recovery_alone_untaints(one: Board | None) -> None:
    assert "needs no confirmation (phase Tainted)" in refused(one)


@pytest.mark.parametrize("one", [case(HEALTHY), case(UNKNOWN), None], ids=["well", "?", "unread"])
@pytest.mark.parametrize(
    "status",
    [
        {"untaint": "OnConfirmation"},
        {"phase": "NeedsHuman"},
        {"needs": "Human"},
        {"conditions": (WAITS,)},
    ],
    ids=str,
)
def test_not_where_a_user_is_waited_for(one: Board | None, status: dict[str, object]) -> None:
    assert refused(one, **status) == ""


def test_not_of_an_agent_that_cannot_confirm_a_soak_itself() -> None:
    assert refused(case(HEALTHY, confirmable=False)) == ""


def test_where_a_user_is_needed_for_want_of_a_reading_and_more_than_that_is_unknown() -> None:
    why = refused(case(UNKNOWN), phase="NeedsHuman", conditions=(SILENT,))

    assert why == "the GPU would stay unknown: the agent of node-a has been silent"
    assert refused(case(HEALTHY), phase="NeedsHuman", conditions=(SILENT,)) == ""
    assert refused(case(UNKNOWN), untaint="OnConfirmation", conditions=(WAITS,)) == ""


@pytest.mark.parametrize(("reported", "fits"), [(3600, True), (-14401, False)])
def test_not_where_it_stands_for_a_recovery_action_that_is_not_read(
    reported: float, fits: bool
) -> None:
    one = case(HEALTHY, gpu=UNREAD, reported_at=at(reported))

    assert (refused(one) == "") is fits


@pytest.mark.parametrize("sources", [("kmsg", "nvml"), ("kmsg",)], ids=["two", "log alone"])
@pytest.mark.parametrize("code", [48, 62, 74, 95, 119])
@pytest.mark.parametrize("seconds", [20, 7200], ids=["at once", "when a user is needed"])
def test_not_of_a_reset_that_no_driver_before_r565_reports(
    seconds: float, code: int, sources: tuple[str, ...]
) -> None:
    stored = Stored()
    fault = xid(code, count=3, sources=sources)
    seen = view(gpu(0, fault, recovery_action=NO_ACTION_FIELD))
    for second in (1, 10, seconds):
        settle(stored, seen, second)

    written = with_intent(stored.incident, "RepairConfirmed", LASTS)
    stored.put_incident(written)
    (board,) = bind_boards(stored.over(seen), at(seconds))

    assert confirmation_refusal(written, board) == ""


def test_not_of_a_board_that_was_taken_out() -> None:
    assert refused(case(UNKNOWN, reported=False, gpu=None)) == ""
