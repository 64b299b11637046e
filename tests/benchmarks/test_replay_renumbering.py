"""The replay of GPUs whose names change: what is drawn, what each policy keeps, what is scored."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from benchmarks.replay import document
from benchmarks.replay.agent import Agent, Inputs, bus_id
from benchmarks.replay.drawing import DAY
from benchmarks.replay.generator import fleet, history_with
from benchmarks.replay.names import SLACK
from benchmarks.replay.peer import Peer
from benchmarks.replay.peers import DevicePlugin, DraDriver, NvSentinel
from benchmarks.replay.rates import DELAYS, H100, PROFILES, Parameters
from benchmarks.replay.scoring import Score, score_node
from benchmarks.replay.taints import Taint, Taints
from benchmarks.replay.truth import GPUS, WHOLE, Episode, Happening, NodeHistory
from tests.benchmarks.replayed import (
    BEGUN,
    REPAIRED,
    asks,
    fault,
    history,
    our_taints,
    score_of,
    taint,
    xid,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "replay.md"
RENUMBERED = Parameters(nodes=8, days=20, app_rate=50.0, mig_share=0.5, renumber_share=1.0)
OFTEN = msgspec.structs.replace(
    H100,
    rates={"gone": 1500.0, "remap-failure": 800.0, "uncontained": 800.0},
    assumed=msgspec.structs.replace(H100.assumed, crash_loop=1.0),
)
"""Boards are lost, replaced and reset several times in a node's twenty days; programs fail on."""
MOVED = 4000.0
"""Between the fault and its repair."""
UPSIDE_DOWN = tuple(reversed(range(GPUS)))
WITHOUT_0 = tuple(range(1, GPUS))


def numbered(at: float, order: tuple[int, ...] = UPSIDE_DOWN) -> Happening:
    return Happening(at=at, kind="numbered", order=order)


def moved(*episodes: Episode) -> NodeHistory:
    """Return a node whose GPU 0 becomes number 7 while it is sick, and GPU 7 number 0."""
    return history(numbered(MOVED), episodes=episodes or (fault(),))


def renumbered_nodes(parameters: Parameters = RENUMBERED) -> Iterator[NodeHistory]:
    for node in range(parameters.nodes):
        yield history_with(parameters, OFTEN, node)


def orders(node: NodeHistory) -> list[Happening]:
    return [happening for happening in node.happenings if happening.kind == "numbered"]


class TestHistories:
    def test_are_the_same_for_one_seed(self) -> None:
        assert list(renumbered_nodes()) == list(renumbered_nodes())

    def test_of_nodes_that_keep_their_numbers_are_as_they_were(self) -> None:
        half = msgspec.structs.replace(RENUMBERED, nodes=20, renumber_share=0.5)
        without = msgspec.structs.replace(half, renumber_share=0.0)
        pairs = list(zip(fleet(half, "A100"), fleet(without, "A100"), strict=True))
        kept = [pair for pair in pairs if not orders(pair[0])]

        assert 3 < len(kept) < 17
        assert all(node == before for node, before in kept)
        assert not any(orders(before) for _, before in pairs)

    def test_enumerate_before_each_boot_and_upgrade_is_over(self) -> None:
        for node in renumbered_nodes():
            assert {happening.kind for happening in node.happenings} >= {"booted", "nvml-up"}
            for before, after in pairwise(node.happenings):
                if after.kind in {"booted", "nvml-up"}:
                    assert (before.kind, before.at) == ("numbered", after.at)

    def test_give_a_sick_gpu_that_is_there_another_number_before_its_repair(self) -> None:
        changed = 0
        for node in renumbered_nodes():
            last = tuple(range(GPUS))
            for happening in orders(node):
                for episode in node.episodes:
                    there = episode.gpu in last and episode.gpu in happening.order
                    if there and episode.must and episode.begin < happening.at < episode.until:
                        was, now = last.index(episode.gpu), happening.order.index(episode.gpu)
                        changed += was != now
                last = happening.order
        assert changed > 10

    def test_leave_boards_out_and_put_them_back_while_they_are_broken(self) -> None:
        begun = {True: 0, False: 0}
        noisy = msgspec.structs.replace(RENUMBERED, app_rate=60_000.0)
        for node in renumbered_nodes(noisy):
            boots = {happening.at for happening in node.happenings if happening.kind == "booted"}
            for gpu, begin, end in _absences(node):
                begun[begin in boots] += 1
                assert any(
                    episode.must
                    and episode.gpu == gpu
                    and episode.begin < begin
                    # Its boot at the latest repairs it.
                    and end == min(episode.until, RENUMBERED.days * DAY)
                    for episode in node.episodes
                ), (node.node, gpu, begin, end)
                shown = (happening for happening in node.happenings if happening.gpu == gpu)
                assert not any(begin <= happening.at < end for happening in shown)
        assert min(begun.values()) > 3

    def test_move_those_behind_an_absent_board_up(self) -> None:
        found = {order.order for node in renumbered_nodes() for order in orders(node)}

        assert any(order == tuple(sorted(order)) and len(order) == GPUS - 1 for order in found)
        assert any(order != tuple(sorted(order)) for order in found)


def _absences(node: NodeHistory) -> Iterator[tuple[int, float, float]]:
    since: dict[int, float] = {}
    for happening in orders(node):
        for gpu in range(GPUS):
            if gpu not in happening.order:
                since.setdefault(gpu, happening.at)
            elif gpu in since:
                yield gpu, since.pop(gpu), happening.at
    for gpu, begin in since.items():
        yield gpu, begin, RENUMBERED.days * DAY


def test_numbers_and_names_of_a_node_change_and_its_hardware_stays() -> None:
    agent = Agent(history())
    before = {gpu.uuid: gpu.pci_bus_id for gpu in agent.report.gpus}
    agent.take(numbered(10.0))
    agent.look(10.3)
    gpus = agent.report.gpus

    assert {gpu.uuid: gpu.pci_bus_id for gpu in gpus} == before
    assert {gpu.uuid: gpu.minor for gpu in gpus} == {
        agent.uuid(gpu): 7 - gpu for gpu in range(GPUS)
    }
    assert {device.device.device: device.uuid for device in agent.inventory} == {
        f"gpu-{7 - gpu}": agent.uuid(gpu) for gpu in range(GPUS)
    }


def test_a_board_that_is_absent_at_a_boot_is_nowhere() -> None:
    agent = Agent(history())
    for happening in (
        Happening(at=10.0, kind="down"),
        numbered(300.0, WITHOUT_0),
        Happening(at=300.0, kind="booted"),
    ):
        agent.take(happening)

    assert agent.uuid(0) not in {gpu.uuid for gpu in agent.report.gpus}
    assert agent.inventory[0].device.device == "gpu-0"
    assert (agent.inventory[0].uuid, len(agent.inventory)) == (agent.uuid(1), 7)
    assert bus_id(0) not in (agent.seen.pci_gpus or ())


class TestScorer:
    def test_finds_a_taint_that_follows_its_board_perfect(self) -> None:
        score = score_of(
            moved(), taint(0, BEGUN, MOVED + 1.0), taint(7, MOVED + 1.0, REPAIRED + 600.0)
        )

        assert (score.precision, score.recall) == (1.0, 1.0)
        assert (score.right, score.false_devices, score.never_freed) == (1, 0, 0)
        assert (score.to_taint, score.to_free) == ([0.0], [600.0])

    def test_calls_a_taint_that_stays_under_a_name_false_and_its_board_missed(self) -> None:
        score = score_of(moved(), taint(0, BEGUN, REPAIRED))

        assert (score.right, score.false, score.recall) == (1, 1, 0.0)
        assert score.siblings == 1
        (false,) = (miss for miss in score.misses if miss.what == "false taint")
        assert (false.gpu, false.at) == (7, MOVED + SLACK)
        assert score.lost_hours == pytest.approx((REPAIRED - MOVED - SLACK) / 3600)

    @pytest.mark.parametrize(("late", "recall"), [(SLACK, 1.0), (SLACK + 1.0, 0.0)])
    def test_forgives_a_sick_board_without_a_taint_for_seconds(
        self, late: float, recall: float
    ) -> None:
        there, again = taint(0, BEGUN, MOVED), taint(7, MOVED + late, REPAIRED)

        assert score_of(moved(), there, again).recall == recall

    @pytest.mark.parametrize(("late", "false"), [(SLACK, 0), (SLACK + 1.0, 1)])
    def test_forgives_a_taint_under_an_old_name_for_seconds(self, late: float, false: int) -> None:
        score = score_of(moved(), taint(0, BEGUN, MOVED + late), taint(7, MOVED, REPAIRED))

        assert (score.false, score.recall) == (false, 1.0)

    def test_counts_pods_that_a_name_evicts_from_another_board(self) -> None:
        follows = taint(7, MOVED, REPAIRED)
        stays = score_of(moved(), taint(0, BEGUN, MOVED + 60.0, evicts=BEGUN), follows)
        lowered = msgspec.structs.replace(
            taint(0, BEGUN, MOVED + 60.0, evicts=BEGUN), evicts_until=MOVED + 1.0
        )

        assert (stays.false, stays.pods_lost) == (1, 1)
        assert (score_of(moved(), lowered, follows).pods_lost) == 0

    def test_counts_pods_of_a_board_that_lost_them_under_its_second_name(self) -> None:
        healthy = history(numbered(MOVED))
        evicting = taint(7, MOVED, REPAIRED, evicts=MOVED + 5.0)
        score = score_of(healthy, taint(0, BEGUN, MOVED), evicting)

        assert (score.false, score.false_devices, score.pods_lost) == (1, 1, 1)

    def test_two_sick_boards_may_change_names_and_keep_both_taints(self) -> None:
        seen = moved(fault(0), fault(7))
        score = score_of(seen, taint(0, BEGUN, REPAIRED), taint(7, BEGUN, REPAIRED))

        assert (score.precision, score.recall, score.right) == (1.0, 1.0, 2)

    def test_demands_no_taint_of_an_absent_board_and_one_when_it_is_back(self) -> None:
        back = numbered(MOVED + 3600.0, tuple(range(GPUS)))
        seen = history(numbered(MOVED, WITHOUT_0), back, episodes=(fault(),))
        there, again = taint(0, BEGUN, MOVED), taint(0, back.at, REPAIRED)

        assert score_of(seen, there).recall == 0.0
        assert score_of(seen, there, again).recall == 1.0
        ended = history(*seen.happenings, episodes=(fault(until=back.at),))
        assert score_of(ended, there).recall == 1.0

    def test_counts_a_taint_that_begins_with_an_enumeration_for_the_new_board_alone(self) -> None:
        score = score_of(moved(), taint(0, BEGUN, MOVED), taint(7, MOVED, REPAIRED))

        assert (score.right, score.false, score.false_devices) == (1, 0, 0)


def test_a_taint_remembers_until_when_it_evicted() -> None:
    taints, device = Taints(), (0, WHOLE)
    for at, evicting in ((10.0, True), (20.0, True), (30.0, False), (40.0, False)):
        taints.taint(device, at, evicting=evicting)
    taints.free(device, 50.0)

    assert taints.all() == [Taint(device, 10.0, 50.0, evicts_from=10.0, evicts_until=30.0)]


def broken(*more: Happening) -> NodeHistory:
    reset = Happening(at=REPAIRED, kind="reset", gpu=0)
    return history(xid(95), asks(BEGUN + 0.1), *more, reset, episodes=(fault(),))


class TestPolicies:
    def test_ours_follows_the_board(self) -> None:
        seen = broken(numbered(MOVED))
        taints = our_taints(seen)
        score = score_of(seen, *taints)

        assert [taint.device for taint in taints] == [(0, WHOLE), (7, WHOLE)]
        assert (score.precision, score.recall) == (1.0, 1.0)
        assert (score.false_devices, score.pods_lost, score.never_freed) == (0, 0, 0)

    def test_ours_follows_a_board_that_cannot_be_read(self) -> None:
        seen = broken(numbered(MOVED))
        taints = our_taints(seen, Inputs(hangs=True))
        score = score_of(seen, *taints)

        assert [taint.device for taint in taints] == [(0, WHOLE), (7, WHOLE)]
        assert (score.precision, score.recall) == (1.0, 1.0)

    def test_ours_verifies_a_board_under_the_name_that_a_boot_gave_it(self) -> None:
        down, booted = Happening(at=MOVED - 300.0, kind="down"), Happening(at=MOVED, kind="booted")
        seen = broken(down, numbered(MOVED), booted)
        first, second = our_taints(seen)

        assert (first.device, second.device) == ((0, WHOLE), (7, WHOLE))
        assert first.end == second.begin == MOVED
        assert second.end > MOVED + 180.0

    def test_ours_is_right_where_boards_are_lost_replaced_and_renumbered(self) -> None:
        ours, by_name = Score(policy="ours"), Score(policy="by name")
        end = RENUMBERED.days * DAY
        for node in renumbered_nodes():
            score_node(ours, node, our_taints(node), end)
            score_node(by_name, node, _KeepsTheName(node).play().all(), end)

        assert ours.demanded > 50
        assert (ours.precision, ours.recall) == (1.0, 1.0)
        assert (ours.siblings, ours.slices_left, ours.pods_lost, ours.never_freed) == (0, 0, 0, 0)
        assert by_name.precision is not None
        assert by_name.recall is not None
        assert max(by_name.precision, by_name.recall) < 0.9

    def test_one_that_taints_a_name_and_looks_no_more_is_wrong_twice(self) -> None:
        seen = broken(numbered(MOVED))
        score = score_of(seen, *_KeepsTheName(seen).play().all())

        assert (score.false, score.recall) == (1, 0.0)

    def test_the_drivers_plugin_restarts_for_new_names_and_has_no_taints(self) -> None:
        (only,) = DraDriver(broken(numbered(MOVED))).play().all()

        assert (only.begin, only.end) == (BEGUN, MOVED)

    def test_the_device_plugin_goes_by_uuid(self) -> None:
        first, second = DevicePlugin(broken(numbered(MOVED)), DELAYS[-1]).play().all()

        assert (first.device, first.begin, first.end) == ((0, WHOLE), BEGUN, MOVED)
        # The administrator's day began with the first of them.
        assert (second.device, second.begin) == ((7, WHOLE), MOVED)
        assert second.end == BEGUN + DELAYS[-1]

    def test_a_cordon_holds_under_all_names(self) -> None:
        taints = NvSentinel(broken(numbered(MOVED, WITHOUT_0))).play().all()

        assert {taint.device[0] for taint in taints} == set(range(GPUS))
        assert all(taint.begin == BEGUN and taint.end > MOVED for taint in taints)


class _KeepsTheName(Peer):
    """Taints a name for a fault, until its GPU is reset or the node is booted."""

    def take(self, happening: Happening) -> None:
        if happening.kind in {"asks", "gone"}:
            self.taint(self.whole(happening.gpu), happening.at)
        elif happening.kind in {"booted", "nvml-up"}:
            self.free_all_but(frozenset(), happening.at)
        elif happening.kind == "reset":
            for part in range(-1, 7):
                self.taints.free((happening.gpu, part), happening.at)


def test_the_document_shows_renumbered_fleets_of_each_profile() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    begin, end = document.RENUMBERED
    generated = text.partition(begin)[2].partition(end)[0]
    shown = document.in_words(Parameters(nodes=32, renumber_share=1.0))

    assert generated.count(shown) == len(PROFILES)
    assert generated.count("\n| Draguard | 1.0000 | 1.0000 |") == len(PROFILES) * len(DELAYS)
