"""That each action of the outside does in a history what its name says."""

from datetime import timedelta

import pytest

from remediator.plan.node_condition import OFF
from remediator.plan.view import WatchedKind
from remediator.policy.table import AT_ONCE, Evict, Mode
from tests.remediator.builders import uuid
from tests.remediator.histories.test_evict_histories import EvictHistory
from tests.remediator.histories.test_fleet_histories import NODES, FleetHistory
from tests.remediator.histories.test_frozen_histories import FrozenHistory
from tests.remediator.histories.test_histories import History


def one_lost_gpu() -> History:
    """Return a history whose first GPU is lost, and evicted from."""
    history = History()
    history.a_cluster(options=OFF, dynamic=False, placing=False)
    history.a_gpu_goes_or_comes(index=0, presence="Lost", then=0.1, dies=0)
    history.nothing_happens(then=11.0, dies=0)
    assert history.calm.effects() == {"gpu-0": "NoExecute"}
    return history


@pytest.mark.parametrize("mode", ["off", "incident-only", "dry-run"])
def test_another_leaders_milder_file_takes_rules_down_after_five_minutes(mode: Mode) -> None:
    history = one_lost_gpu()
    history.another_leader(mode=mode, ceiling=None, then=61.0, dies=0)
    assert history.disagrees
    assert history.calm.effects() == {"gpu-0": "NoExecute"}

    history.nothing_happens(then=601.0, dies=0)
    assert not history.disagrees
    assert history.calm.effects() != {"gpu-0": "NoExecute"}
    history.teardown()


def test_nothing_is_taken_down_where_its_file_arrives_in_time() -> None:
    history = one_lost_gpu()
    history.another_leader(mode="enforce", ceiling="observe", then=61.0, dies=0)
    assert history.disagrees
    history.its_file_arrives(then=0.1, dies=0)
    assert not history.disagrees

    history.nothing_happens(then=601.0, dies=0)
    assert history.calm.effects() == {"gpu-0": "NoExecute"}
    history.teardown()


def test_a_soak_begins_anew_once_the_leaders_clock_is_right_again() -> None:
    history = one_lost_gpu()
    history.a_gpu_goes_or_comes(index=0, presence="Present", then=1.0, dies=0)
    history.a_reset(index=0, then=1.0, dies=0)
    history.the_leaders_clock_jumps(ahead=4000.0, then=601.0, dies=0)
    assert history.view().clock_doubt
    history.the_leaders_clock_jumps(ahead=0.0, then=0.1, dies=0)
    history.nothing_happens(then=61.0, dies=0)
    assert history.calm.effects() == {"gpu-0": "NoExecute"}

    history.nothing_happens(then=601.0, dies=0)
    assert history.calm.effects() == {}
    history.teardown()


def test_a_jump_of_the_clock_takes_no_time_from_the_pods() -> None:
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(minutes=10), then="NoExecute"))
    history.a_cluster(options=OFF, dynamic=False, placing=False)
    history.a_pod_comes(index=0, part=0, pod=0, then=0.1, dies=0)
    history.a_budget_refuses_or_allows(pod=0, why="429 TooManyRequests", then=0.1, dies=0)
    history.a_gpu_goes_or_comes(index=0, presence="Lost", then=0.1, dies=0)
    history.nothing_happens(then=11.0, dies=0)
    assert history.calm.effects() == {"gpu-0": "Evict"}
    history.the_leaders_clock_jumps(ahead=8 * 86400.0, then=1.0, dies=0)
    history.the_leaders_clock_jumps(ahead=0.0, then=1.0, dies=0)
    assert history.calm.effects() == {"gpu-0": "Evict"}
    history.teardown()


def evicting(fleet: FleetHistory) -> list[str]:
    return sorted(rule.gpu for rule in fleet.stored.rules.values() if rule.effect == "NoExecute")


def test_a_board_that_waits_for_its_replacement_stops_no_eviction_on_its_node() -> None:
    fleet, order = FleetHistory(), list(NODES)
    fleet.a_board_waits_for_its_replacement(node="node-a", which=0, order=order, days=9.0, then=0.5)
    assert evicting(fleet) == [uuid(0, "node-a")]
    assert fleet.stored.evicting() == set()

    fleet.a_fault(node="node-a", which=1, code=79, order=order, then=0.5)
    fleet.a_crash(order=order, dies=0, then=11.0)
    assert evicting(fleet) == [uuid(0, "node-a"), uuid(1, "node-a")]


def test_a_replaced_node_has_no_taint_left_of_the_boards_before() -> None:
    fleet, order = FleetHistory(), list(NODES)
    fleet.a_board_waits_for_its_replacement(node="node-a", which=0, order=order, days=2.0, then=0.5)
    fleet.a_node_is_replaced(node="node-a", order=order, then=0.5)

    assert not fleet.stored.rules
    assert all(not incident.open for incident in fleet.stored.incidents.values())


def frozen_history(*kinds: WatchedKind) -> FrozenHistory:
    """Return a history whose first GPU has a user, and whose watches of some kinds then freeze."""
    history = FrozenHistory()
    history.a_policy(plan=AT_ONCE)
    history.a_cluster(options=OFF, dynamic=False, placing=False)
    history.a_pod_comes(index=0, part=0, pod=0, then=0.1, dies=0)
    history.watches_freeze(kinds=frozenset(kinds), then=0.1, dies=0)
    return history


def test_nobody_is_evicted_for_a_name_that_a_frozen_watch_still_shows() -> None:
    history = frozen_history("slices")
    history.other_numbers(then=0.1, dies=0)
    history.a_gpu_goes_or_comes(index=0, presence="Lost", then=0.1, dies=0)
    history.nothing_happens(then=11.0, dies=0)
    assert history.unconfirmed
    assert history.calm.effects() == {"gpu-0": "NoSchedule"}
    assert history.machine.tenants.users() == ("pod-0",)

    history.watches_go_on(then=11.0, dies=0)
    history.nothing_happens(then=11.0, dies=0)
    assert history.calm.effects()["gpu-1"] == "NoExecute"
    assert history.machine.tenants.users() == ("pod-0",)
    history.teardown()


def test_one_list_after_a_long_silence_shows_what_a_frozen_watch_has_missed() -> None:
    history = frozen_history("claims")
    history.a_pod_comes(index=0, part=0, pod=1, then=0.1, dies=0)
    history.a_gpu_goes_or_comes(index=0, presence="Lost", then=0.1, dies=0)
    history.nothing_happens(then=61.0, dies=0)
    assert history.calm.effects() == {"gpu-0": "NoSchedule"}

    history.nothing_happens(then=601.0, dies=0)
    assert history.calm.effects() == {"gpu-0": "NoExecute"}
    history.teardown()
