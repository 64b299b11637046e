"""The replay of GPUs that are of no use though nothing fails: each is shown, one kind tainted."""

import pytest

from alerts.rule import Alert
from alerts.table import GROUPS
from benchmarks.replay.agent import Agent
from benchmarks.replay.ours import enforced, play, play_with
from benchmarks.replay.rates import Parameters
from benchmarks.replay.scripts import SCRIPTS
from benchmarks.replay.signs import CLASSES, Class, seen_of_each
from benchmarks.replay.truth import Happening, NodeHistory, State
from benchmarks.replay.unusable import UNKNOWN_XID
from exporter.model.xid import catalogue
from remediator.diagnose import xid_table
from tests.benchmarks.replayed import history, our_taints

BEGUN, OVER = 1000.0, 8000.0
STATES: dict[State, str] = {
    "fabric waits": "the fabric's service is down or never done",
    "fabric not started": "the fabric's service is down or never done",
    "fabric failed": "registration with the fabric failed",
    "nouveau": "nouveau or no driver has the GPU",
    "no driver": "nouveau or no driver has the GPU",
    "not published": "on the bus, not published",
    "off the bus": "published, not on the bus",
    "cut otherwise": "other slices than the label asks for",
}
KNOWN = {alert.name: alert for group in GROUPS for alert in group.rules if isinstance(alert, Alert)}


def in_state(state: State) -> NodeHistory:
    """Return a node of which GPU 3 is of no use for a while."""
    return history(
        Happening(at=BEGUN, kind="state", gpu=3, state=state),
        Happening(at=OVER, kind="state", gpu=3),
        mig=state == "cut otherwise",
    )


def shown(history: NodeHistory, row: Class) -> list[tuple[int, bool, bool]]:
    """Return at each moment whether the sign of GPU 3 is there, and that of GPU 4."""
    found = list[tuple[int, bool, bool]]()

    def look(agent: Agent, at: float) -> None:
        found.append((int(at), row.sign(agent, 3), row.sign(agent, 4)))

    play_with(history, enforced(), look)
    return found


@pytest.mark.parametrize("state", STATES)
def test_a_state_is_shown_from_the_next_sample_until_it_is_over(state: State) -> None:
    row = CLASSES[STATES[state]]
    by_node = row.alert in {"DraguardGpuNotPublished", "DraguardMigConfigNotApplied"}
    seen = shown(in_state(state), row)

    # The reading follows the news by less than a second; a sign that counts is of every GPU.
    assert seen[0] == (0, False, False)
    during = [pair[1:] for pair in seen if BEGUN - 0.5 < pair[0] < OVER][1:]
    assert during
    assert set(during) == {(True, by_node)}
    assert seen[-1][1:] == (False, False)


@pytest.mark.parametrize("state", STATES)
def test_only_a_registration_that_failed_is_tainted_and_nobody_is_moved(state: State) -> None:
    player = play(in_state(state), enforced())
    taints = player.store.taints.all()

    expected = [(3, False)] if state == "fabric failed" else []
    assert [(taint.device[0], taint.evicts_from < taint.end) for taint in taints] == expected
    assert all(taint.begin < BEGUN + 5.0 and OVER < taint.end < OVER + 3600.0 for taint in taints)


def test_an_unknown_xid_is_shown_and_taints_nothing() -> None:
    one = history(Happening(at=BEGUN, kind="xid", gpu=3, code=UNKNOWN_XID))
    seen = shown(one, CLASSES["an XID that no table knows"])

    assert seen[0] == (0, False, False)
    assert {pair[1:] for pair in seen[1:]} == {(True, False)}
    assert our_taints(one) == []


def test_the_unknown_xid_is_in_no_table() -> None:
    assert UNKNOWN_XID not in catalogue().keys() | xid_table.table().keys()


def test_each_class_has_a_script_and_an_alert_that_reads_its_sign() -> None:
    for row in CLASSES.values():
        assert row.kind in SCRIPTS
        assert row.metric in KNOWN[row.alert].expr


def test_a_fleet_shows_each_class_and_taints_what_is_a_fault() -> None:
    fleet = Parameters(nodes=2, days=40)
    found = {row.name: row for row in seen_of_each(fleet, "H100")}

    assert list(found) == list(CLASSES)
    for seen in found.values():
        assert seen.gpus > 0
        assert (seen.shown, seen.too_early) == (seen.gpus, 0)
        failed = seen.gpus if CLASSES[seen.name].kind == "fabric-fails" else 0
        assert (seen.incidents, seen.tainted) == (failed, failed)
        assert (seen.score.false, seen.score.demanded) == (0, seen.score.recalled)
