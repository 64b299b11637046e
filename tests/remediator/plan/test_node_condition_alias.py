"""The words of other node repairs, by option, and how everything is taken back."""

import msgspec
import pytest

from remediator.model.node import HARDWARE_READY, REPAIR_NEEDED
from remediator.plan.node_condition import (
    MESSAGE_LIMIT,
    OFF,
    HandoverOptions,
)
from remediator.plan.stages import Deferral, Planned
from tests.remediator.plan.handover import (
    EKS,
    ON,
    UNKNOWN,
    node,
    pair,
    pod,
    repair,
    reported,
    stored,
)
from tests.remediator.playing import claim


def test_switched_off_it_only_takes_back() -> None:
    assert reported(node(), pair(), options=OFF) == {}

    found = reported(
        node(stored(), stored("False", HARDWARE_READY)), pair(verdict=UNKNOWN), options=OFF
    )

    assert {kind: (condition.status, condition.reason) for kind, condition in found.items()} == {
        REPAIR_NEEDED: ("False", "HandoverOff"),
        HARDWARE_READY: ("True", "HandoverOff"),
    }


def test_by_option_the_alias_says_it_in_the_other_polarity() -> None:
    found = reported(node(), pair(), options=EKS)

    assert found[HARDWARE_READY].status == "False"
    assert found[HARDWARE_READY].reason == "NvidiaXID79Error"
    assert found[HARDWARE_READY].message == f"Draguard: {found[REPAIR_NEEDED].message}"


@pytest.mark.parametrize("cause", ["gpu-lost", "xid-", "xid-what"])
def test_a_cause_that_is_no_xid_has_a_reason_of_its_own(cause: str) -> None:
    found = reported(node(), pair(cause=cause), options=EKS)

    assert found[HARDWARE_READY].reason == "NvidiaDeviceRepairNeeded"


def test_the_alias_names_no_xid_of_a_gpu_that_waits_and_is_not_in_the_call() -> None:
    board, waiting = pair(0, cause="xid-119")
    call = Deferral("Maintenance", "maintenance")
    granted = msgspec.structs.replace(waiting.granted, call=call)
    apart = (board, Planned(granted=granted))

    found = reported(node(), apart, pair(1, cause="recovery-action-7"), options=EKS)

    assert "xid-119" not in found[REPAIR_NEEDED].message
    assert found[HARDWARE_READY].reason == "NvidiaDeviceRepairNeeded"


def test_without_the_option_there_is_no_alias_and_an_old_one_is_taken_back() -> None:
    assert reported(node(), pair()).keys() == {REPAIR_NEEDED}

    found = reported(node(stored("False", HARDWARE_READY)), pair())

    assert (found[HARDWARE_READY].status, found[HARDWARE_READY].reason) == ("True", "HandoverOff")


def test_the_alias_is_not_added_while_neighbours_are_waited_for() -> None:
    seen = node(pods=(pod("train-0"),), claims=(claim("gpu-1"),))

    assert reported(seen, pair(), options=EKS).keys() == {REPAIR_NEEDED}


@pytest.mark.parametrize("options", [EKS, ON, OFF])
def test_what_another_agent_says_is_neither_answered_nor_taken_back(
    options: HandoverOptions,
) -> None:
    theirs = stored("False", HARDWARE_READY, reason="NvidiaNVLinkError", message="theirs")
    seen = node(stored("False"))
    assert seen.facts is not None
    facts = msgspec.structs.replace(seen.facts, others=(theirs,))

    for answer in (pair(), pair(closing=True)):
        found = reported(msgspec.structs.replace(seen, facts=facts), answer, options=options)
        assert HARDWARE_READY not in found


def test_a_message_fits_whatever_it_is_about() -> None:
    crowd = tuple(pod(f"p-{'x' * 240}-{n}") for n in range(200))
    claims = tuple(claim("gpu-1", facts.name) for facts in crowd)

    found = repair(node(pods=crowd, claims=claims), *(pair(n) for n in range(16)))

    assert len(found.message.encode()) <= MESSAGE_LIMIT
    assert "and 11 more" in found.message
