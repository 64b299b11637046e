"""The replay of row remaps: what is pending ends by a reset, a boot or a driver load alone."""

from collections import Counter
from functools import partial

import msgspec
import pytest

from benchmarks.replay.agent import Agent
from benchmarks.replay.drawing import DAY, SOONEST, NodeDrawing
from benchmarks.replay.generator import history_with
from benchmarks.replay.rates import H100, Parameters, Profile
from benchmarks.replay.scoring import Score, score_node
from benchmarks.replay.scripts import SCRIPTS
from benchmarks.replay.truth import Happening, NodeHistory
from tests.benchmarks.replayed import history, our_taints

WORN: Profile = msgspec.structs.replace(H100, rates={"dbe": 2000.0, "remap": 5000.0})
"""Memory that is worn out: a remap comes beside many a repair."""
FLEET = Parameters(
    nodes=3,
    days=30,
    app_rate=0.0,
    churn=False,
    mig_share=1.0,
    lemon_share=0.5,
    lemon_events=0.5,
)
NEVER = FLEET.days * DAY + 1.0
NEW_EPOCHS = frozenset({"reset", "booted", "nvml-up"})


def histories(*, without_action: float) -> list[NodeHistory]:
    parameters = msgspec.structs.replace(FLEET, no_action_share=without_action)
    return [history_with(parameters, WORN, node) for node in range(parameters.nodes)]


def ends(seen: NodeHistory) -> Counter[str]:
    """Return by what the remaps of a node ended, "" where nothing shows it."""
    shown = {
        (happening.at, gpu): happening.kind
        for happening in seen.happenings
        if happening.kind in NEW_EPOCHS
        for gpu in ((happening.gpu,) if happening.kind == "reset" else range(8))
    }
    return Counter(
        shown.get((episode.until, episode.gpu), "")
        for episode in seen.episodes
        if episode.label == "XID 63" and episode.until < FLEET.days * DAY
    )


def kinds(seen: NodeHistory) -> list[str]:
    """Return what happened to a node, without lines of its log."""
    return [happening.kind for happening in seen.happenings if happening.kind != "xid"]


def drawing(*, old_driver: bool) -> NodeDrawing:
    parameters = msgspec.structs.replace(FLEET, no_action_share=float(old_driver))
    return NodeDrawing(parameters, WORN, 0)


def test_a_pending_remap_ends_by_a_reset_a_boot_or_a_driver_load_that_the_node_shows() -> None:
    found = sum((ends(seen) for seen in histories(without_action=0.5)), Counter[str]())

    assert set(found) == NEW_EPOCHS
    assert found.total() > 50


def test_no_remap_is_pending_for_weeks() -> None:
    for seen in histories(without_action=0.5):
        early = (episode for episode in seen.episodes if episode.begin < (FLEET.days - 14) * DAY)
        assert all(episode.until < FLEET.days * DAY for episode in early)


def test_a_driver_that_would_not_report_a_reset_is_rebooted_for_a_remap() -> None:
    found = Counter(kind for seen in histories(without_action=1.0) for kind in kinds(seen))

    assert found["reset"] == 0
    assert found["booted"] > 10


@pytest.mark.parametrize(
    ("old_driver", "expected"),
    [(False, ["asks", "reset", "reset"]), (True, ["down", "booted"])],
)
def test_a_reboot_for_a_remap_waits_for_the_repair_of_another_gpu_and_a_reset_does_not(
    old_driver: bool, expected: list[str]
) -> None:
    node = drawing(old_driver=old_driver)

    def breaks(at: float) -> None:
        node.breaks("gpu-reset", "XID 95", 0, at, "reset")
        node.ask(0, at, 1)

    node.later(1000.0, breaks)
    node.later(1100.0, partial(node.remap_pends, 1, wait=60.0))
    seen = node.run()
    fault, remap = seen.episodes

    assert kinds(seen) == expected
    assert fault.until > 1000.0 + SOONEST
    assert remap.until == (fault.until if old_driver else 1160.0)


def test_a_remap_of_a_gpu_that_is_away_is_carried_out_once_by_its_repair() -> None:
    node = drawing(old_driver=False)
    node.later(1000.0, partial(node.remap_pends, 1, wait=60.0))
    node.later(1010.0, lambda at: node.breaks("gpu-reset", "XID 95", 1, at, "reset"))
    seen = node.run()
    remap, fault = seen.episodes

    assert kinds(seen) == ["reset"]
    assert remap.until == fault.until


def test_a_remap_that_comes_while_a_repair_is_verified_keeps_no_taint_for_ever() -> None:
    def drawn(*, remap_at: float) -> NodeHistory:
        node = drawing(old_driver=True)
        node.later(1000.0, partial(SCRIPTS["dbe"], node, 0))
        node.later(remap_at, partial(SCRIPTS["remap"], node, 0))
        return node.run()

    (booted,) = (seen.at for seen in drawn(remap_at=NEVER).happenings if seen.kind == "booted")
    seen = drawn(remap_at=booted + 120.0)
    score = Score(policy="ours")
    score_node(score, seen, our_taints(seen), FLEET.days * DAY)

    assert kinds(seen).count("booted") == 2
    assert (score.precision, score.recall, score.never_freed) == (1.0, 1.0, 0)
    # Such a driver reports no end, so a user confirms the repair long before the remap is done.
    assert score.to_free[0] < seen.episodes[-1].until - booted


def test_a_failed_remap_does_not_end_the_pending_one() -> None:
    agent = Agent(history())
    for failure in (False, True):
        agent.take(Happening(at=10.0, kind="remap", gpu=1, failure=failure))
    agent.look(11.0)
    memory = agent.report.gpus[1].memory

    assert (memory.row_remap_pending, memory.row_remap_failed) == ("True", "True")
