"""The replay with fewer sources: one reset that a GPU needs, as each mode tells of it."""

import pytest

from benchmarks.replay.agent import Inputs, Log
from benchmarks.replay.ours import enforced, play
from benchmarks.replay.rates import Parameters
from benchmarks.replay.sources import MODES, shares
from benchmarks.replay.truth import Happening, NodeHistory
from tests.benchmarks.replayed import history

LINE = Happening(at=1000.0, kind="xid", gpu=0, code=95, reset=True)
RESET = Happening(at=9000.0, kind="reset", gpu=0)
ASKS = Happening(at=1000.05, kind="asks", gpu=0, action=1)


SXID = Happening(at=1000.0, kind="sxid", code=23001)
LINK_DOWN = Happening(at=1000.05, kind="link-down", gpu=0)


def outcome(received: Inputs, *, has_action: bool) -> tuple[int, int, int]:
    """Return how many taints there were, how many of them moved pods, and how many incidents."""
    happenings = (LINE, ASKS, RESET) if has_action else (LINE,)
    return counted(history(*happenings, has_action=has_action), received)


def counted(history: NodeHistory, received: Inputs) -> tuple[int, int, int]:
    player = play(history, enforced(), received)
    taints = player.store.taints.all()
    moved = sum(taint.evicts_from < taint.end for taint in taints)
    return len(taints), moved, len(player.reported)


@pytest.mark.parametrize(
    ("inputs", "has_action", "expected"),
    [
        (Inputs(), True, (1, 1, 1)),
        (Inputs(events=False), True, (1, 1, 1)),
        (Inputs(log="syslog", events=False), True, (1, 1, 1)),
        (Inputs(), False, (1, 1, 1)),
        (Inputs(events=False), False, (1, 0, 1)),
        (Inputs(log="syslog"), False, (1, 1, 1)),
        (Inputs(log="syslog", events=False), False, (0, 0, 1)),
        (Inputs(hangs=True), True, (1, 0, 1)),
        (Inputs(log="syslog", hangs=True), True, (0, 0, 1)),
    ],
)
def test_a_fault_is_moved_restricted_or_only_reported_by_its_sources(
    inputs: Inputs, has_action: bool, expected: tuple[int, int, int]
) -> None:
    assert outcome(inputs, has_action=has_action) == expected


@pytest.mark.parametrize(
    ("happenings", "log", "expected"),
    [
        ((SXID,), "kmsg", (8, 0, 8)),
        ((SXID,), "syslog", (0, 0, 8)),
        ((SXID, LINK_DOWN), "syslog", (8, 0, 8)),
    ],
)
def test_a_switch_s_fatal_error_restricts_its_gpus_where_a_program_cannot_have_made_it_up(
    happenings: tuple[Happening, ...], log: Log, expected: tuple[int, int, int]
) -> None:
    assert counted(history(*happenings), Inputs(log=log)) == expected


def test_each_mode_has_a_row() -> None:
    assert [share.mode for share in shares(Parameters(nodes=1, days=1), "H100")] == list(MODES)
