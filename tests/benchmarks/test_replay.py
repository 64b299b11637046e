"""The replay: histories by seed with true labels, a scorer with known answers, and our policy."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from benchmarks.replay import document, run
from benchmarks.replay.agent import Agent
from benchmarks.replay.drawing import DAY
from benchmarks.replay.generator import fleet
from benchmarks.replay.ours import Player, enforced, play
from benchmarks.replay.peer import Peer
from benchmarks.replay.peers import (
    DevicePlugin,
    DraDriver,
    DraDriverByAction,
    Gpud,
    NvSentinel,
)
from benchmarks.replay.rates import A100, DELAYS, H100, PROFILES, Parameters
from benchmarks.replay.scoring import Score, joined, score_node
from benchmarks.replay.taints import FOREVER, Taints
from benchmarks.replay.truth import (
    GPUS,
    SLICES,
    WHOLE,
    Device,
    Happening,
)
from tests.benchmarks.replayed import (
    BEGUN,
    REPAIRED,
    asks,
    cordon,
    fault,
    history,
    our_taints,
    score_of,
    taint,
    xid,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "replay.md"
SMALL = Parameters(nodes=6, days=40, mig_share=0.5)


def kept(taints: Taints) -> list[tuple[Device, float, float]]:
    return [(taint.device, taint.begin, taint.end) for taint in taints.all()]


class TestHistories:
    def test_are_the_same_for_one_seed_and_others_for_another(self) -> None:
        first, again = list(fleet(SMALL, "H100")), list(fleet(SMALL, "H100"))
        other = list(fleet(msgspec.structs.replace(SMALL, seed=2), "H100"))

        assert first == again
        assert first != other

    @pytest.mark.parametrize("profile", [A100, H100])
    def test_have_the_published_rates(self, profile: object) -> None:
        name = "A100" if profile is A100 else "H100"
        parameters = Parameters(nodes=200, churn=False)
        episodes = [episode for node in fleet(parameters, name) for episode in node.episodes]
        found = Counter(episode.label for episode in episodes)
        hours = parameters.gpu_days * 24 / 1e6

        assert found["XID 31"] / hours == pytest.approx(PROFILES[name].rates["mmu"], rel=0.05)
        application = sum(found[f"XID {code}"] for code in (13, 43, 45))
        assert application / hours == pytest.approx(1000.0, rel=0.05)
        gone = found["XID 79"] + sum(episode.truth == "no-XID loss" for episode in episodes)
        assert gone / hours == pytest.approx(7.0, rel=0.3)
        if name == "A100":
            links = found["XID 74"] + found["XID 74 that passes"]
            assert links / hours == pytest.approx(200.0, rel=0.25)
            timeouts = found["XID 119"] + found["a single XID 119"]
            assert timeouts / hours == pytest.approx(401.0, rel=0.05)

    def test_give_most_memory_events_to_a_few_gpus(self) -> None:
        hit = Counter(
            (episode.node, episode.gpu)
            for node in fleet(Parameters(nodes=400), "H100")
            for episode in node.episodes
            if episode.label in {"XID 48", "XID 95", "XID 64", "XID 63"}
        )
        most = sum(count for _, count in hit.most_common(int(400 * 8 * 0.02)))

        assert most / hit.total() > 0.5

    def test_label_what_a_taint_must_hold_and_what_it_must_not(self) -> None:
        for node in fleet(Parameters(nodes=60, mig_share=0.3), "A100"):
            for episode in node.episodes:
                whole = node.devices(episode.gpu)
                if episode.truth in {"gpu-reset", "gpu-reboot", "no-XID loss", "silent corruption"}:
                    assert episode.must == whole
                elif episode.truth == "mig-contained":
                    assert len(episode.must) == 1
                    assert node.mig
                else:
                    assert not episode.must
                assert episode.signalled == (episode.truth != "silent corruption")

    def test_show_a_sign_where_an_episode_begins(self) -> None:
        for node in fleet(SMALL, "A100"):
            seen = {(happening.gpu, happening.at) for happening in node.happenings}
            begun = [episode for episode in node.episodes if episode.must and episode.signalled]
            for episode in begun:
                near = [
                    at for gpu, at in seen if gpu == episode.gpu and 0 <= at - episode.begin < 1.0
                ]
                assert near or episode.begin > SMALL.days * DAY - 1, episode

    def test_repair_everything_that_breaks_but_at_the_end(self) -> None:
        for node in fleet(Parameters(nodes=40), "A100"):
            late = 180 * DAY - 2 * DAY
            assert all(episode.until < FOREVER for episode in node.episodes if episode.begin < late)


class TestScorer:
    def test_finds_a_taint_from_first_sign_to_repair_perfect(self) -> None:
        score = score_of(history(episodes=(fault(),)), taint(0, 1001.0, 9600.0))

        assert (score.precision, score.recall) == (1.0, 1.0)
        assert (score.to_taint, score.to_free) == ([1.0], [600.0])
        assert (score.siblings, score.false_devices, score.pods_lost) == (0, 0, 0)
        assert score.lost_hours == pytest.approx(600 / 3600)

    @pytest.mark.parametrize(("begin", "end"), [(1400.0, 9600.0), (1001.0, 5000.0), (100.0, 900.0)])
    def test_recalls_nothing_that_came_late_or_went_early(self, begin: float, end: float) -> None:
        assert score_of(history(episodes=(fault(),)), taint(0, begin, end)).recall == 0.0

    def test_calls_a_taint_without_a_truth_false(self) -> None:
        score = score_of(history(), taint(3, 50.0, 3650.0, evicts=60.0))

        assert (score.right, score.false, score.precision) == (0, 1, 0.0)
        assert score.false_per_1000_gpu_days == pytest.approx(1.25)
        assert (score.false_devices, score.pods_lost) == (1, 1)
        assert score.lost_hours == pytest.approx(1.0)

    def test_counts_what_nvidia_disputes_neither_way(self) -> None:
        disputed = msgspec.structs.replace(fault(), must=frozenset(), may=frozenset({(0, WHOLE)}))
        score = score_of(history(episodes=(disputed,)), taint(0, 1001.0, 2000.0))

        assert (score.right, score.false, score.disputed) == (0, 0, 1)
        assert score.precision is None

    def test_names_a_taint_that_began_before_its_truth_false(self) -> None:
        score = score_of(history(episodes=(fault(),)), taint(0, 10.0, 9100.0))

        assert (score.right, score.false, score.recall) == (0, 1, 1.0)

    def test_counts_healthy_siblings_of_a_cordon(self) -> None:
        assert score_of(history(episodes=(fault(),)), *cordon()).siblings == 7

    def test_counts_slices_that_were_left_on_a_gpu_that_needs_a_reset(self) -> None:
        seen = history(mig=True, episodes=(fault(mig=True),))
        score = score_of(seen, *(taint(0, 1001.0, 9100.0, part) for part in range(3)))

        assert (score.slices_left, score.recall) == (4, 0.0)

    def test_keeps_faults_without_a_signal_apart(self) -> None:
        unanswered = msgspec.structs.replace(fault(gpu=2), signalled=False)
        score = score_of(history(episodes=(fault(), unanswered)), taint(0, 1001.0, 9100.0))

        assert (score.recall, score.recall_of_all) == (1.0, 0.5)

    def test_says_what_was_never_freed(self) -> None:
        score = score_of(history(episodes=(fault(),)), taint(0, 1001.0, FOREVER))

        assert (score.never_freed, score.to_free) == (1, [])

    def test_a_taint_of_a_gpu_with_a_remap_that_still_waits_at_the_end_is_not_late(self) -> None:
        waits = msgspec.structs.replace(
            fault(), begin=9000.0, until=float("inf"), must=frozenset(), resets=False
        )
        taints = taint(0, 1001.0, FOREVER)

        assert score_of(history(episodes=(fault(), waits)), taints).never_freed == 0
        carried_out = msgspec.structs.replace(waits, until=9500.0)
        assert score_of(history(episodes=(fault(), carried_out)), taints).never_freed == 1

    def test_a_taint_that_goes_on_for_a_later_disputed_fault_is_not_late(self) -> None:
        later = msgspec.structs.replace(
            fault(), begin=9000.0, until=float("inf"), must=frozenset(), may=fault().must
        )
        score = score_of(history(episodes=(fault(), later)), taint(0, 1001.0, FOREVER))

        assert score.never_freed == 0

    def test_sums_the_parts_of_a_fleet(self) -> None:
        good = score_of(history(episodes=(fault(),)), taint(0, 1001.0, 9600.0))
        bad = score_of(history(), taint(3, 50.0, 3650.0))
        whole = joined([good, bad])

        assert (whole.right, whole.false, whole.precision) == (1, 1, 0.5)
        assert whole.gpu_days == 1600.0


class TestPeers:
    def test_the_driver_of_august_lets_an_ignored_xid_free_a_sick_gpu(self) -> None:
        taints = DraDriver(history(xid(95, 10.0), xid(45, 11.0))).play()

        assert kept(taints) == [((0, WHOLE), 10.0, 11.0)]

    def test_both_drivers_drop_an_xid_without_instance_on_a_mig_gpu(self) -> None:
        seen = history(asks(10.0), xid(119, 10.1), mig=True)
        for policy in (DraDriver, DraDriverByAction):
            assert kept(policy(seen).play()) == []

    def test_the_driver_of_september_asks_for_the_recovery_action(self) -> None:
        taints = DraDriverByAction(history(xid(74, 10.0), asks(20.0), xid(74, 20.1))).play()

        assert kept(taints) == [((0, WHOLE), 20.1, 20.1 + DELAYS[0])]

    def test_a_lost_gpu_taints_the_whole_node_of_the_driver(self) -> None:
        gone = Happening(at=10.0, kind="gone", gpu=3)

        assert len(DraDriver(history(gone)).play().all()) == 8

    def test_the_device_plugin_recovers_with_the_node_only(self) -> None:
        booted = Happening(at=500.0, kind="booted")
        reset = Happening(at=100.0, kind="reset", gpu=0)
        taints = DevicePlugin(history(xid(95, 10.0), reset, booted)).play()

        assert kept(taints) == [((0, WHOLE), 10.0, 500.0)]

    def test_an_unknown_xid_cordons_a_node_of_nvsentinel_and_a_person_uncordons_it(self) -> None:
        taints = NvSentinel(history(xid(999, 10.0))).play().all()

        assert {taint.device[0] for taint in taints} == set(range(8))
        assert {(taint.begin, taint.end) for taint in taints} == {(10.0, 10.0 + DELAYS[0])}

    def test_lines_that_name_an_instance_are_not_parsed_by_nvsentinel_and_gpud(self) -> None:
        line = msgspec.structs.replace(xid(95, 10.0, gi=3), gi_printed=True)

        for policy in (NvSentinel, Gpud):
            assert kept(policy(history(line, mig=True)).play()) == []


class TestOurPolicy:
    def test_taints_a_gpu_with_all_its_slices_and_lets_go_after_the_reset(self) -> None:
        shown = (xid(95), asks(BEGUN + 0.05), Happening(at=REPAIRED, kind="reset", gpu=0))
        seen = history(*shown, mig=True, episodes=(fault(mig=True),))
        score = score_of(seen, *our_taints(seen))

        assert (score.precision, score.recall) == (1.0, 1.0)
        assert (score.siblings, score.slices_left, score.never_freed) == (0, 0, 0)

    def test_keeps_out_of_application_errors(self) -> None:
        noise = [xid(code, 1000.0 + 60.0 * number) for number, code in enumerate((13, 31, 43, 45))]

        assert our_taints(history(*noise)) == []

    def test_ends_with_a_gpu_that_is_repaired_after_the_end_only(self) -> None:
        seen = history(xid(95), has_action=False, episodes=(fault(until=FOREVER),))
        player = Player(seen, enforced())

        steps = 0
        while player.next_at is not None and steps < 200:
            player.step()
            steps += 1

        assert player.waited, "an administrator has looked"
        assert player.next_at is None
        assert player.store.rules

    def test_taints_a_loss_that_no_xid_tells_of(self) -> None:
        gone = Happening(at=1000.0, kind="gone", gpu=2, listed=False)
        (only,) = our_taints(history(gone))

        assert only.device == (2, WHOLE)
        assert 1060.0 <= only.begin <= 1100.0

    def test_recalls_every_signalled_fault_of_a_drawn_fleet(self) -> None:
        ours = _scored(SMALL, "A100")

        assert ours.demanded > 10
        assert ours.recall == 1.0
        assert (ours.siblings, ours.slices_left) == (0, 0)

    @pytest.mark.verify
    def test_broken_on_purpose_scores_worse(self) -> None:
        blind, eager = Score(policy="blind"), Score(policy="eager")
        policy = enforced()
        rows = tuple(msgspec.structs.replace(row, mode="incident-only") for row in policy.rows)
        for node in fleet(SMALL, "A100"):
            watching = play(node, msgspec.structs.replace(policy, rows=rows))
            score_node(blind, node, watching.store.taints.all(), SMALL.days * DAY)
            score_node(eager, node, _TaintsEveryXid(node).play().all(), SMALL.days * DAY)
        ours = _scored(SMALL, "A100")

        assert blind.recall == 0.0
        assert eager.precision is not None
        assert ours.precision is not None
        assert eager.precision < 0.5 < ours.precision


class _TaintsEveryXid(Peer):
    def take(self, happening: Happening) -> None:
        if happening.kind == "xid":
            self.taint(self.whole(happening.gpu), happening.at)


def _scored(parameters: Parameters, profile: str) -> Score:
    score = Score(policy="ours")
    for node in fleet(parameters, profile):
        score_node(score, node, our_taints(node), parameters.days * DAY)
    return score


def test_the_agent_names_the_slice_that_only_the_nvml_event_names() -> None:
    agent = Agent(history(mig=True))
    agent.take(xid(94, 10.0, gpu=1, gi=5))

    (record,) = next(gpu for gpu in agent.report.gpus if gpu.uuid == agent.uuid(1)).xids
    assert (record.code, record.gi, record.count) == (94, 5, 1)
    assert record.sources == ("kmsg", "nvml")


def mig_uuids(agent: Agent, gpu: int) -> set[str | None]:
    """Return what the driver publishes as the slices of a GPU; the report has the same."""
    parent = agent.uuid(gpu)
    (health,) = (found for found in agent.report.gpus if found.uuid == parent)
    published = {device.uuid for device in agent.inventory if device.parent_uuid == parent}
    assert published == {instance.uuid for instance in health.instances}
    return published


def test_the_slices_of_another_board_have_other_uuids_and_those_of_the_same_board_do_not() -> None:
    agent = Agent(history(mig=True))
    before = [mig_uuids(agent, gpu) for gpu in range(GPUS)]
    agent.take(Happening(at=10.0, kind="down"))
    agent.take(Happening(at=300.0, kind="booted", boards=(3,)))
    after = [mig_uuids(agent, gpu) for gpu in range(GPUS)]

    assert len(after[3]) == SLICES
    assert after[3].isdisjoint(before[3])
    assert after[:3] + after[4:] == before[:3] + before[4:]


def test_a_fleet_under_budgets_is_played_in_one_order_of_time() -> None:
    parameters = Parameters(nodes=3, days=20)
    found = run.with_budgets(parameters, "A100")

    assert found.incidents > 0
    assert found.score.recall == 1.0


def test_the_document_was_written_with_the_parameters_in_force() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    generated = text.partition(document.BEGIN)[2].partition(document.END)[0]

    assert document.in_words(Parameters()) in generated, "run `make replay`"
    assert all(f"### {name}: " in generated for name in PROFILES)
