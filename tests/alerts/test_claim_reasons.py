"""Each reason for which a claim waits raises one alert at most, and is one that there is."""

from typing import get_args

from alerts.claim_reasons import CANNOT, NOT_PREPARED, QUIET
from alerts.table import alerts
from allocation.layers.finding import WaitReason
from allocation.reasons import Why
from allocation.summary import Verdict

EVERY = {reason for part in get_args(WaitReason) for reason in get_args(part)}
BY_THEMSELVES = {
    "Allocatable", "Allocated", "Capacity", "Counters", "Tainted", "TooFewTogether",
    "PoolIncomplete", "ClaimElsewhere", "NodeAffinity", "NodeCordoned", "NodeNotReady",
    "NodeTainted", "NoNodeChosen", "OtherResources",
}  # fmt: skip
"""What others end: pods, nodes, repairs, a driver that goes on publishing."""
NEVER_FIRST = {"ClassSelector", "OtherNode"}
"""Such devices are none of the candidates."""


def test_every_reason_in_a_table_is_one_that_there_is() -> None:
    assert {*CANNOT, *QUIET, *NOT_PREPARED} <= EVERY


def test_no_reason_of_a_pending_claim_is_in_two_tables() -> None:
    assert not {*CANNOT} & {*QUIET}


def test_each_reason_of_the_allocation_is_judged() -> None:
    """A new one has to be put where it belongs."""
    of_allocation = {*get_args(Why), *get_args(Verdict)} - NEVER_FIRST

    assert of_allocation == BY_THEMSELVES | (of_allocation & {*CANNOT, *QUIET})
    assert not BY_THEMSELVES & {*CANNOT, *QUIET}


def test_the_expressions_are_made_of_the_tables() -> None:
    exprs = {alert.name: alert.expr for alert in alerts()}

    for reason in CANNOT:
        assert f"{reason}|" in exprs["DraguardClaimCannotBeAllocated"].replace('"}', "|")
    for reason in (*CANNOT, *QUIET):
        assert f"{reason}|" in exprs["DraguardClaimPending"].replace('"}', "|")
