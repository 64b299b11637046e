"""A confirmation is refused where it would change nothing, with the reason."""

from typing import Any

import msgspec
import pytest

from draguard.cluster.intents import confirmation_refusal
from remediator.diagnose.fault import Fault, Healthy, Sick, Unknown, Verdict
from remediator.model.incident import Condition, IncidentStatus
from remediator.plan.board import Board
from tests.remediator.builders import T0, at, gpu, make_board, with_fields
from tests.remediator.plan.fleets import an_incident

HEALTHY = Healthy(at(0), "answers")
SICK = Sick((Fault(fault_class="gpu", cause="xid-95", last_seen=T0, evidence="XID 95 was seen"),))
UNKNOWN = Unknown("the agent of node-a has been silent")
WAITS = Condition("NeedsHuman", "True", "Sticky", T0, "3rd incident")


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


def test_not_of_a_board_that_was_taken_out() -> None:
    assert refused(case(UNKNOWN, reported=False, gpu=None)) == ""
