"""The replay is fair: the same signals and administrators for all, each scored by its own unit."""

import math
from collections.abc import Iterable
from typing import Self

import msgspec
import pytest

from benchmarks.replay import run, sources
from benchmarks.replay.agent import Agent
from benchmarks.replay.drawing import DAY
from benchmarks.replay.generator import history_with
from benchmarks.replay.ours import enforced, play
from benchmarks.replay.peer import Peer
from benchmarks.replay.peers import (
    PEERS,
    DevicePlugin,
    DevicePluginMain,
    DraDriver,
    DraDriverByAction,
    Gpud,
    NvSentinel,
)
from benchmarks.replay.rates import DELAYS, DRAIN, H100, UNSENT, Parameters
from benchmarks.replay.scoring import Score
from benchmarks.replay.truth import (
    GPUS,
    SLICES,
    WHOLE,
    Happening,
    NodeHistory,
    devices,
)
from tests.benchmarks.replayed import (
    BEGUN,
    END,
    REPAIRED,
    asks,
    cordon,
    fault,
    history,
    score_of,
    taint,
    xid,
)
from tests.remediator.builders import with_fields

SOON, LATE = DELAYS
BOOT = history().boot
EVERY = frozenset((gpu, WHOLE) for gpu in range(GPUS))


FLEET = Parameters(
    nodes=4,
    days=20,
    app_rate=30_000.0,
    churn=False,
    upgrade=False,
    mig_share=0.0,
    lemon_share=0.5,
    lemon_events=0.5,
)
OFTEN = msgspec.structs.replace(H100, rates={"uncontained": 3000.0, "gsp": 3000.0, "gone": 3000.0})
"""Each kind of fault comes several times to each node."""


def without_events(seen: NodeHistory, *codes: int) -> NodeHistory:
    return msgspec.structs.replace(seen, unsent=frozenset(codes))


def ends(policy: Peer) -> set[float]:
    return {taint.end for taint in policy.play().all()}


def tainted(policy: Peer) -> frozenset[tuple[int, int]]:
    return frozenset(taint.device for taint in policy.play().all())


class TestSignals:
    @pytest.mark.parametrize("code", sorted(UNSENT - {154}))
    def test_an_event_that_the_driver_sends_reaches_every_policy(self, code: int) -> None:
        seen = history(xid(code))

        assert _sources_of(seen, code) == ("kmsg", "nvml")
        assert tainted(DraDriver(seen))
        assert tainted(DevicePluginMain(seen))

    @pytest.mark.parametrize("code", sorted(UNSENT))
    def test_an_event_that_it_does_not_send_reaches_none_and_its_line_does(self, code: int) -> None:
        line = msgspec.structs.replace(xid(code), action=1)
        seen = without_events(history(asks(), line), code)

        assert _sources_of(seen, code) == ("kmsg",)
        for policy in (DraDriver, DraDriverByAction, DevicePlugin, DevicePluginMain):
            assert not tainted(policy(seen)), policy.name
        assert tainted(NvSentinel(seen)) == EVERY

    def test_fleets_may_be_drawn_with_drivers_that_send_no_event_of_some(self) -> None:
        sends = Parameters(nodes=1, days=1)
        silent = msgspec.structs.replace(sends, sends_all=False)

        assert history_with(sends, H100, 0).unsent == frozenset()
        assert history_with(silent, H100, 0).unsent == UNSENT

    def test_programs_go_on_and_fail_on_a_broken_gpu_unless_it_is_lost_or_hangs(self) -> None:
        failing = {"gpu-reset": 0, "XID 119": 0, "lost": 0}
        for node in range(FLEET.nodes):
            seen = history_with(FLEET, OFTEN, node)
            begun = [
                (episode.gpu, episode.begin)
                for episode in seen.episodes
                if episode.truth == "app noise"
            ]
            for broken in seen.episodes:
                if not broken.must:
                    continue
                kind = {"XID 95": "gpu-reset", "XID 119": "XID 119"}.get(broken.label, "lost")
                failing[kind] += sum(
                    gpu == broken.gpu and broken.begin < at < broken.until for gpu, at in begun
                )

        assert failing["gpu-reset"] > 3
        assert (failing["XID 119"], failing["lost"]) == (0, 0)


def _sources_of(seen: NodeHistory, code: int) -> tuple[str, ...]:
    agent = Agent(seen)
    for happening in seen.happenings:
        agent.take(happening)
    records = next(gpu for gpu in agent.report.gpus if gpu.uuid == agent.uuid(0)).xids
    return next(record.sources for record in records if record.code == code)


class TestDrivers:
    def test_one_that_always_answers_0_requests_nothing_and_logs_no_154(self) -> None:
        truly = msgspec.structs.replace(FLEET, no_action_share=0.0)
        zero = msgspec.structs.replace(truly, answers="always 0")
        shown = [
            {
                (happening.kind, happening.code)
                for node in range(FLEET.nodes)
                for happening in history_with(parameters, OFTEN, node).happenings
            }
            for parameters in (truly, zero)
        ]

        assert shown[0] - shown[1] == {("asks", 0), ("xid", 154)}

    def test_one_whose_answer_cannot_be_read_is_unknown_to_all(self) -> None:
        seen = msgspec.structs.replace(history(asks(), xid(95)), answers="never")
        agent = Agent(seen)
        agent.look(1.0)

        assert agent.report.gpus[0].recovery_action.supported is None
        # NVIDIA's driver then goes by its list.
        listed = msgspec.structs.replace(history(xid(63)), answers="never")
        assert tainted(DraDriverByAction(listed)) == {(0, WHOLE)}
        assert not tainted(DraDriverByAction(history(xid(63))))
        assert not tainted(NvSentinel(msgspec.structs.replace(history(asks()), answers="never")))

    @pytest.mark.parametrize("nodes", [1, 9, 16])
    def test_old_ones_are_the_share_of_nodes_that_their_row_names_and_never_none(
        self, nodes: int
    ) -> None:
        for seed in range(5):
            small = Parameters(seed=seed, nodes=nodes, days=1)
            none, tenth, third = (
                {
                    seen.node
                    for seen in sources.fleet_with(row, small, "A100")
                    if not seen.has_action
                }
                for row in ("R565 or newer", "10 % before R565", "30 % before R565")
            )

            assert (len(none), len(tenth)) == (0, math.ceil(nodes / 10))
            assert tenth <= third

    def test_a_node_with_the_same_driver_in_two_fleets_is_played_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        played: list[tuple[int, bool, str, bool]] = []

        def counts(seen: NodeHistory, end: float) -> tuple[Score, ...]:
            del end
            played.append((seen.node, seen.has_action, seen.answers, bool(seen.unsent)))
            return (Score(policy="ours", right=1),)

        monkeypatch.setattr(sources, "_by_log", counts)
        rows = list(sources.by_log(Parameters(nodes=3, days=1), "A100"))

        assert len(played) == len(set(played))
        assert [row.driver for row in rows] == list(sources.DRIVERS)
        assert all(row.scores[0].right == 3 for row in rows)


class TestAdministrators:
    @pytest.mark.parametrize("policy", PEERS, ids=lambda policy: policy.name)
    def test_a_false_taint_of_each_policy_ends_after_the_delay(self, policy: type[Peer]) -> None:
        gone = Happening(at=BEGUN, kind="gone", gpu=0)

        for delay in DELAYS:
            assert ends(policy(history(gone), delay)) == {BEGUN + delay}

    def test_ours_waits_as_long_for_the_third_fault_in_30_days(self) -> None:
        happenings: list[Happening] = []
        for number in range(3):
            at = BEGUN + number * DAY
            happenings += [xid(95, at=at), asks(at), Happening(at=at + 9000.0, kind="reset", gpu=0)]
        seen = history(*happenings)
        soon, late = (
            max(taint.end for taint in player.store.taints.all())
            for player in run.played(seen, enforced(), DELAYS)
        )

        assert late - soon == pytest.approx(LATE - SOON, abs=120.0)

    def test_a_node_that_waits_for_none_is_played_once(self) -> None:
        first, second = run.played(history(xid(13)), enforced(), DELAYS)

        assert first is second

    @pytest.mark.parametrize("policy", [NvSentinel, Gpud])
    def test_none_frees_a_node_while_a_gpu_of_it_is_faulty(self, policy: type[Peer]) -> None:
        seen = history(xid(95), episodes=(fault(until=END / 2),))

        assert ends(policy(seen, SOON)) == {END / 2}

    def test_all_policies_are_scored_with_each_delay(self) -> None:
        (result,) = run.run([Parameters(nodes=1, days=5)], "A100", workers=1)
        every = [run.OURS, *(peer.name for peer in PEERS)]

        found = [(score.delay, score.policy) for score in result.scores]
        assert found == [(delay, name) for delay in DELAYS for name in every]


def test_a_node_with_one_history_in_two_fleets_is_played_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Parameters(nodes=4, days=5, mig_share=0.0)
    others = [{"mig_share": 0.5}, {"app_rate": 9000.0}]
    fleets = [first, *(with_fields(first, **fields) for fields in others)]
    histories: list[NodeHistory] = []

    def counts(seen: NodeHistory, delays: Iterable[float], end: float) -> tuple[Score, ...]:
        histories.append(seen)
        return scored(seen, delays, end)

    scored = run.scored
    monkeypatch.setattr(run, "scored", counts)
    monkeypatch.setattr(run, "ProcessPoolExecutor", _InThisProcess)
    together = run.run(fleets, "A100", workers=1)

    cut = sum(seen.mig for seen in histories)
    assert 0 < cut < 4
    assert len(histories) == 4 + cut + 4
    alone = [result for fleet in fleets for result in run.run([fleet], "A100", workers=1)]
    for one, other in zip(together[1:], alone[1:], strict=True):
        assert one.truths == other.truths
        assert one.scores == other.scores[: len(one.scores)]


class _InThisProcess:
    def __init__(self, workers: int) -> None:
        del workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    map = map


class TestPolicies:
    def test_nvsentinel_takes_45_for_harmless(self) -> None:
        assert not tainted(NvSentinel(history(xid(45))))

    def test_a_driver_upgrade_is_no_fault_to_nvsentinel(self) -> None:
        down = Happening(at=BEGUN, kind="nvml-down")
        up = Happening(at=BEGUN + 240.0, kind="nvml-up")

        assert not tainted(NvSentinel(history(down, up)))

    def test_the_released_device_plugin_marks_one_slice_per_gpu_and_main_all(self) -> None:
        seen = history(xid(95), mig=True)

        assert len(tainted(DevicePlugin(seen))) == 1
        assert tainted(DevicePluginMain(seen)) == devices(0, mig=True)

    def test_an_event_of_a_slice_is_dropped_by_the_released_plugin_unless_it_kept_it(self) -> None:
        each = [history(xid(94, gi=gi), mig=True) for gi in range(1, SLICES + 1)]

        assert sum(len(tainted(DevicePlugin(seen))) for seen in each) == 1
        assert [tainted(DevicePluginMain(seen)) for seen in each] == [
            frozenset({(0, part)}) for part in range(SLICES)
        ]

    @pytest.mark.parametrize("policy", [DevicePlugin, DevicePluginMain])
    @pytest.mark.parametrize("lost", [xid(79), Happening(at=BEGUN, kind="gone", gpu=0)])
    def test_a_wait_that_fails_and_a_handle_without_uuid_mark_all_devices(
        self, policy: type[Peer], lost: Happening
    ) -> None:
        assert tainted(policy(history(lost))) == EVERY


class TestScores:
    def test_a_cordon_for_one_gpu_is_right_for_its_node_and_wrong_for_seven_gpus(self) -> None:
        score = score_of(history(episodes=(fault(),)), *cordon())

        assert (score.right, score.false) == (1, 7)
        assert (score.node_precision, score.node_recall) == (1.0, 1.0)

    def test_a_cordon_for_nothing_is_one_false_taint_of_a_node(self) -> None:
        score = score_of(history(), *cordon())

        assert (score.false, score.node_false, score.node_precision) == (8, 1, 0.0)

    def test_one_slice_in_time_recalls_a_fault_of_the_node_and_not_of_the_gpu(self) -> None:
        whole = msgspec.structs.replace(fault(), must=devices(0, mig=True))
        score = score_of(history(mig=True, episodes=(whole,)), taint(0, BEGUN, REPAIRED, part=1))

        assert (score.recall, score.node_recall) == (0.0, 1.0)

    def test_a_reboot_that_the_hardware_needs_costs_its_healthy_siblings(self) -> None:
        score = score_of(history(episodes=(fault(needs="reboot"), fault(1))))

        assert score.rebooted == 6
        assert score.reboot_hours == pytest.approx(6 * (DRAIN + BOOT) / 3600)

    @pytest.mark.parametrize(("by_reset", "expected"), [(True, 0), (False, 7)])
    def test_a_reboot_in_place_of_a_reset_is_charged_to_the_policy_that_needs_it(
        self, by_reset: bool, expected: int
    ) -> None:
        assert score_of(history(episodes=(fault(),)), by_reset=by_reset).rebooted == expected

    def test_what_was_tainted_before_a_reboot_is_not_charged_twice(self) -> None:
        score = score_of(history(episodes=(fault(needs="board"),)), *cordon())

        assert (score.rebooted, score.reboot_hours) == (7, 0.0)

    def test_ours_is_charged_where_the_driver_does_not_report_a_reset(self) -> None:
        found: list[int] = []
        for has_action in (True, False):
            seen = history(has_action=has_action, episodes=(fault(),))
            score = Score(policy="ours")
            run.score_ours(score, seen, play(seen, enforced()), END)
            found.append(score.rebooted)

        assert found == [0, 7]

    def test_a_drawn_fault_says_what_it_needs_whatever_is_done_for_it(self) -> None:
        old = msgspec.structs.replace(FLEET, no_action_share=1.0)
        needs = {
            episode.label: episode.needs
            for node in range(old.nodes)
            for episode in history_with(old, OFTEN, node).episodes
            if episode.must
        }

        assert needs["XID 95"] == "reset"
        assert needs["XID 79"] == "reboot"
