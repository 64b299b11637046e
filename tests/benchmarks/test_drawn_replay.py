"""Replays with drawn parameters: the same by seed, right where we are right, wrong where we are."""

import random

import msgspec
import pytest

from benchmarks.replay import drawn as program
from benchmarks.replay import findings, ranges
from benchmarks.replay.drawn import Outcome, lines, play_draw, summed_up, wrongs
from benchmarks.replay.ours import NeverSettlesError, Player, enforced, play
from benchmarks.replay.ranges import Draw, drawn
from benchmarks.replay.scoring import Score
from benchmarks.replay.truth import NodeHistory, devices
from remediator.policy.table import Policy


def tiny(number: int, seed: int = 1) -> Draw:
    """Return a draw of the real ranges, on two nodes for six days and without an upgrade."""
    draw = drawn(seed, number)
    small = msgspec.structs.replace(draw.parameters, nodes=2, days=6, upgrade=False)
    return msgspec.structs.replace(draw, parameters=small)


def watching() -> Policy:
    """Return a policy that decides wrongly: it taints nothing."""
    policy = enforced()
    rows = tuple(msgspec.structs.replace(row, mode="incident-only") for row in policy.rows)
    return msgspec.structs.replace(policy, rows=rows)


def taints_too_much(history: NodeHistory, policy: Policy) -> Player:
    player = play(history, policy)
    for device in devices(5, mig=history.mig):
        player.store.taints.taint(device, 3600.0, evicting=True)
    return player


SICK = 2
"""Number of a draw that has faults in its first days."""


class TestDraws:
    def test_are_the_same_for_one_seed_and_others_for_another(self) -> None:
        assert drawn(7, 3) == drawn(7, 3)
        for other in (drawn(8, 3), drawn(7, 4)):
            assert other.parameters != drawn(7, 3).parameters
            assert other.profile != drawn(7, 3).profile

    def test_need_no_draw_before_them(self) -> None:
        alone = drawn(7, 3)
        random.seed(99)

        assert [drawn(7, number) for number in range(5)][3] == alone

    def test_reach_both_ends_of_what_they_share_out(self) -> None:
        draws = [drawn(1, number) for number in range(60)]
        for share in ("mig_share", "no_action_share", "renumber_share"):
            found = {getattr(draw.parameters, share) for draw in draws}
            assert {0.0, 1.0} < found
            assert all(0.0 <= value <= 1.0 for value in found)
        assert {draw.parameters.upgrade for draw in draws} == {True, False}
        assert {draw.profile.name for draw in draws} == {"A100", "H100"}
        rates = {draw.profile.rates["contained"] for draw in draws}
        assert 0.0 in rates
        assert max(rates) > 100.0
        assert max(rates) <= ranges.HARDWARE[1]

    def test_play_the_same_each_time(self) -> None:
        first, again = (list(lines(play_draw(tiny(SICK)))) for _ in "ab")

        assert first == again


@pytest.mark.parametrize("number", [SICK, 18])
def test_our_policy_is_right_on_a_tiny_draw(number: int) -> None:
    outcome = play_draw(tiny(number))

    assert outcome.wrong == ()
    assert outcome.score.demanded > 0
    assert (outcome.score.precision, outcome.score.recall) == (1.0, 1.0)
    (only,) = lines(outcome)
    assert "passed: precision 1.0000, recall 1.0000" in only
    assert f"repair_median {outcome.draw.parameters.repair_median:.6g}" in only


def test_a_fault_that_is_not_tainted_fails_its_draw() -> None:
    outcome = play_draw(tiny(SICK), watching())
    text = "\n".join(lines(outcome))

    assert wrongs(outcome.score)["faults missed"] == outcome.score.demanded > 0
    assert f"draw {SICK}: FAILED" in text
    assert "not recalled: node " in text
    assert f"again: python -m benchmarks.replay.drawn --seed 1 --first {SICK} --draws 1" in text


def test_a_healthy_gpu_that_is_tainted_fails_its_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "play", taints_too_much)
    outcome = play_draw(tiny(SICK))
    text = "\n".join(lines(outcome))

    assert outcome.score.precision is not None
    assert outcome.score.precision < 1.0
    assert "gpu 5 at day 0 01:00:00.00" in text
    assert "  devices wrongly tainted " in text
    assert "  false taint: node " in text


def test_what_was_shown_and_decided_before_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "SLACK", 1e9)  # as if it had gone wrong at the end
    outcome = play_draw(tiny(SICK), watching())
    (first, *_) = (text for text in outcome.wrong if text.startswith("not recalled"))

    assert " recovery action)\n    day " in first
    assert "\n    incident opened day " in first


def test_a_node_that_cannot_be_played_fails_its_draw_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def never_settles(history: NodeHistory, policy: Policy) -> Player:
        if history.node == 0:
            raise NeverSettlesError("again and again")
        return play(history, policy)

    monkeypatch.setattr(program, "play", never_settles)
    outcome = play_draw(tiny(SICK))

    (only,) = outcome.wrong
    assert only.startswith("node 0: Traceback")
    assert "again and again" in only


def test_the_program_counts_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def plays(draw: Draw) -> Outcome:
        return Outcome(draw, Score(policy="ours", right=3), ("false taints 1",)[: draw.number == 4])

    monkeypatch.setattr(program, "play_draw", plays)
    arguments = ["--seed", "9", "--workers", "1", "--draws"]

    assert program.main([*arguments, "3", "--first", "3"]) == 1
    stated = capsys.readouterr().out
    assert stated.endswith("\n2 passed, 1 failed\n")
    assert [line.split(":")[0] for line in stated.splitlines()[:2]] == ["draw 3", "draw 4"]
    assert program.main([*arguments, "2"]) == 0
    assert capsys.readouterr().out.endswith("\n2 passed, 0 failed\n")


def test_the_sum_is_of_all_draws() -> None:
    outcome = play_draw(tiny(SICK))
    score = outcome.score

    assert summed_up([outcome, outcome]).startswith(f"2 fleets: {2 * score.right} taints right, ")


def test_everything_that_can_be_wrong_is_counted() -> None:
    score = Score(
        policy="ours",
        false=1,
        false_devices=2,
        demanded=9,
        recalled=6,
        siblings=4,
        slices_left=5,
        pods_lost=6,
        never_freed=7,
    )

    assert list(wrongs(score).values()) == [1, 2, 3, 4, 5, 6, 7]
