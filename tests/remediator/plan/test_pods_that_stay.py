"""Pods that nothing removes are left to a user, and their GPU leaves the budget."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from exporter.model.device import Device
from remediator.model.claim import Toleration
from remediator.model.incident_status import EVICTION_BLOCKED
from remediator.plan.view import NodeView
from remediator.policy.limits import Cap, Caps, Limits
from remediator.policy.table import Evict, Policy
from tests.remediator.builders import (
    Stored,
    at,
    dead,
    gpu,
    policy,
    report_with,
    uuid,
    view,
    with_fields,
)
from tests.remediator.plan.evict_first import REFUSED, START, WITHIN, begun, play, rows, seen
from tests.remediator.playing import ENFORCE, claim, pod, settle, tick

RAISED, TEN_MINUTES, DAY = 5.0, 600.0, 86400.0
OVER = START + WITHIN.total_seconds()
"""When the time for evictions by request is over."""
FOR_EVER = (Toleration(operator="Exists", effect="NoExecute"),)


def on_dead_gpu(*pods: str, grace_ends: float | None = None, tolerant: str = "") -> NodeView:
    """A dead GPU, and pods on it by a claim each."""
    terminating = {"terminating": True, "grace_ends": at(grace_ends)} if grace_ends else {}
    claims = (
        claim("gpu-0", name, tolerations=FOR_EVER if name == tolerant else ()) for name in pods
    )
    return view(dead(), pods=tuple(pod(name, **terminating) for name in pods), claims=tuple(claims))


def under_no_execute(seen: NodeView, asks: Policy = ENFORCE) -> Stored:
    stored = Stored()
    for second in (1.0, RAISED):
        for _ in range(3):  # requests for evictions never settle
            tick(stored, seen, second, asks)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    return stored


def block_of(stored: Stored) -> tuple[str, str]:
    """Return reason and message of the condition that evictions are blocked."""
    found = stored.incident.status.conditions
    return next(
        (condition.reason, condition.message)
        for condition in found
        if condition.type == EVICTION_BLOCKED
    )


class TestAPodThatDoesNotEnd:
    HANGS = on_dead_gpu("big", grace_ends=60)

    def test_is_reported_once_noexecute_has_stood_for_ten_minutes(self) -> None:
        stored = under_no_execute(self.HANGS)

        settle(stored, self.HANGS, RAISED + TEN_MINUTES - 1)
        assert block_of(stored)[0] == "AsExpected"

        settle(stored, self.HANGS, RAISED + TEN_MINUTES)
        reason, message = block_of(stored)
        assert reason == "PodsStay"
        assert message.startswith("team/big: it is terminating and has not ended since ")

    def test_is_not_reported_while_its_grace_period_lasts(self) -> None:
        saving = on_dead_gpu("big", grace_ends=3600)
        stored = under_no_execute(saving)

        settle(stored, saving, 3600)
        assert block_of(stored)[0] == "AsExpected"
        settle(stored, saving, 3601)
        assert block_of(stored)[0] == "PodsStay"

    def test_stays_reported_while_nothing_is_known(self) -> None:
        stored = under_no_execute(self.HANGS)
        settle(stored, self.HANGS, RAISED + TEN_MINUTES)
        before = block_of(stored)

        settle(stored, with_fields(self.HANGS, stale="silent"), RAISED + 2 * TEN_MINUTES)

        assert block_of(stored) == before

    def test_is_reported_on_a_node_that_died_with_its_agent(self) -> None:
        stored = under_no_execute(on_dead_gpu("big"))
        died = with_fields(self.HANGS, stale="silent")
        settle(stored, died, RAISED + TEN_MINUTES - 1)
        assert stored.fleet_evicts() == 1

        settle(stored, died, RAISED + TEN_MINUTES)

        assert (block_of(stored)[0], stored.fleet_evicts()) == ("PodsStay", 0)

    def test_stays_in_the_budget_no_longer_for_a_grace_period_of_years(self) -> None:
        stored = under_no_execute(years := on_dead_gpu("big", grace_ends=1000 * DAY))

        settle(stored, years, RAISED + TEN_MINUTES)
        assert block_of(stored)[1].startswith("team/big: its grace period lasts until 2028-10-01T")
        assert stored.fleet_evicts() == 0
        settle(stored, years, 999.5 * DAY)
        assert stored.fleet_evicts() == 1, "it ends within a day"

    def test_is_not_reported_beside_one_that_noexecute_still_removes(self) -> None:
        both = on_dead_gpu("stays", "goes", tolerant="stays")
        stored = under_no_execute(both)

        settle(stored, both, RAISED + TEN_MINUTES)

        assert block_of(stored)[0] == "AsExpected"


def test_a_pod_that_tolerates_it_for_a_time_will_be_removed() -> None:
    an_hour = (Toleration(operator="Exists", effect="NoExecute", toleration_seconds=3600),)
    seen = view(dead(), pods=(pod("big"),), claims=(claim("gpu-0", "big", tolerations=an_hour),))
    stored = under_no_execute(seen)

    settle(stored, seen, RAISED + TEN_MINUTES)

    assert block_of(stored)[0] == "AsExpected"


def test_a_pod_that_tolerates_noexecute_is_reported_as_well() -> None:
    seen = on_dead_gpu("big", tolerant="big")
    stored = under_no_execute(seen)

    settle(stored, seen, RAISED + TEN_MINUTES)

    assert block_of(stored) == ("PodsStay", "team/big: it tolerates NoExecute")


def test_one_that_tolerates_it_for_years_is_waited_for_on_the_last_day() -> None:
    years = (Toleration(operator="Exists", effect="NoExecute", toleration_seconds=9 * 10**7),)
    seen = view(dead(), pods=(pod("big"),), claims=(claim("gpu-0", "big", tolerations=years),))
    stored = under_no_execute(seen)

    settle(stored, seen, RAISED + TEN_MINUTES)
    assert block_of(stored)[1] == "team/big: it tolerates NoExecute for 1041 more days"
    assert stored.fleet_evicts() == 0
    settle(stored, seen, RAISED + 9e7 - DAY)
    assert stored.fleet_evicts() == 1


class TestAPodOnADeviceThatIsNotEvictedFrom:
    """A second driver has published the lost GPU as well, and is away when NoExecute begins."""

    TWIN = Device("gpu.example.com", "rack", "board-0")
    HELD = on_dead_gpu("big")
    FIRST = HELD.slices.inventory
    BOTH = (*FIRST, msgspec.structs.replace(FIRST[0], device=TWIN))
    AWAY = with_fields(HELD, claims=(claim("board-0", "big", driver=TWIN.driver, pool=TWIN.pool),))

    def begun(self) -> Stored:
        stored = Stored()
        settle(stored, with_fields(self.AWAY, inventory=self.BOTH), 1)
        for second in (RAISED, 60, 120):
            settle(stored, self.AWAY, second)
        assert stored.effects() == {"gpu-0": "NoExecute", "board-0": "NoSchedule"}
        assert stored.incident.status.phase == "Evicting"
        return stored

    def test_keeps_its_gpu_in_the_budget_for_ten_minutes_and_no_longer(self) -> None:
        stored = self.begun()

        settle(stored, self.AWAY, RAISED + TEN_MINUTES - 1)
        assert stored.fleet_evicts() == 1
        settle(stored, self.AWAY, RAISED + TEN_MINUTES)

        assert stored.fleet_evicts() == 0
        assert block_of(stored) == ("PodsStay", f"team/big: nothing evicts it from {self.TWIN}")

    def test_counts_again_once_its_device_is_evicted_from(self) -> None:
        stored = self.begun()
        settle(stored, self.AWAY, RAISED + TEN_MINUTES)

        back = with_fields(self.AWAY, inventory=self.BOTH)
        settle(stored, back, RAISED + TEN_MINUTES + 60)

        assert stored.effects() == {"gpu-0": "NoExecute", "board-0": "NoExecute"}
        assert stored.fleet_evicts() == 1

    def test_has_ten_minutes_from_when_it_came(self) -> None:
        stored = self.begun()
        late = with_fields(self.AWAY, pods=(pod("big", started=at(1000)),))

        settle(stored, late, 1000 + TEN_MINUTES - 1)
        assert stored.fleet_evicts() == 1
        settle(stored, late, 1000 + TEN_MINUTES)

        assert stored.fleet_evicts() == 0

    def test_goes_with_its_other_device_that_is_evicted_from(self) -> None:
        stored = self.begun()
        other = claim("gpu-0", "big")
        other = msgspec.structs.replace(
            other, metadata=msgspec.structs.replace(other.metadata, name="another")
        )
        settle(stored, with_fields(self.AWAY, claims=(*self.AWAY.usage.claims, other)), 9000)

        assert block_of(stored)[0] == "AsExpected"
        assert stored.fleet_evicts() == 1


def test_a_pod_that_runs_on_without_its_device_fills_no_budget_for_ever() -> None:
    stored = under_no_execute(on_dead_gpu("big"))

    settle(stored, with_fields(on_dead_gpu("big"), claims=()), RAISED + TEN_MINUTES)

    assert stored.fleet_evicts() == 0
    assert block_of(stored)[1].startswith("team/big: nothing evicts it from ")


def test_a_claim_that_no_pod_uses_is_not_waited_for_without_end() -> None:
    unused = view(dead(), pods=(), claims=(claim("gpu-0", reserved=()),))
    stored = under_no_execute(unused)
    assert stored.fleet_evicts() == 1

    settle(stored, unused, RAISED + TEN_MINUTES)

    assert block_of(stored) == (
        "PodsStay",
        "claim team/claim-of-train-0: no pod is left, and it stays allocated",
    )
    assert stored.fleet_evicts() == 0


def test_a_pod_that_is_not_listed_may_be_there_until_it_is_proven_to_be_gone() -> None:
    unlisted = view(dead(), pods=(), claims=(claim("gpu-0"),))
    stored = under_no_execute(on_dead_gpu("train-0"))

    settle(stored, unlisted, RAISED + TEN_MINUTES)
    assert stored.fleet_evicts() == 1
    settle(stored, with_fields(unlisted, pods_gone=frozenset({"u-train-0"})), RAISED + 2000)

    assert stored.fleet_evicts() == 0


class TestUnderWait:
    """Evictions by request, and no NoExecute after them."""

    ASKS = rows("wait")

    def begun(self, **fields: Any) -> Stored:
        return begun(seen(pod(**fields)), self.ASKS)

    def test_a_pod_that_does_not_end_leaves_the_budget_when_its_time_is_over(self) -> None:
        stored = self.begun()
        hangs = seen(pod(terminating=True, grace_ends=at(START + 30)))
        play(stored, seen(pod()), self.ASKS, START, START)

        play(stored, hangs, self.ASKS, START + 5, OVER - 5)
        assert stored.fleet_evicts() == 1
        play(stored, hangs, self.ASKS, OVER, OVER)

        assert stored.fleet_evicts() == 0
        reason, message = block_of(stored)
        assert reason == "DisruptionBudget"
        assert message.startswith("team/train-0 (not Ready): it is terminating and has not ended")

    def test_it_makes_room_for_the_next_gpu(self) -> None:
        one = Limits(evict=Caps(cluster=Cap(1)))
        asks = policy(one, evict=Evict(within=WITHIN, then="wait"))
        claims = claim("gpu-0", "hangs"), claim("gpu-1", "next")
        hangs = pod("hangs", terminating=True, grace_ends=at(60))
        stored = Stored()
        play(stored, view(dead(0), gpu(1), claims=claims, pods=(pod("hangs"),)), asks, 0, 15)

        both = view(dead(0), dead(1), claims=claims, pods=(hangs, pod("next")))
        play(stored, both, asks, 20, 500)
        assert stored.effects() == {"gpu-0": "Evict", "gpu-1": "NoSchedule"}
        play(stored, both, asks, 505, 700)

        assert stored.effects() == {"gpu-0": "Evict", "gpu-1": "Evict"}
        assert stored.fleet_evicts() == 1

    def test_one_whose_eviction_was_granted_at_last_counts_while_it_ends(self) -> None:
        refused = seen(pod(), refusals={"u-train-0": REFUSED})
        stored = begun(refused, self.ASKS)
        play(stored, refused, self.ASKS, START, OVER)
        assert stored.fleet_evicts() == 0

        play(
            stored,
            seen(pod(terminating=True, grace_ends=at(OVER + 35))),
            self.ASKS,
            OVER + 5,
            OVER + 30,
        )
        assert stored.fleet_evicts() == 1

    def test_while_nothing_is_requested_of_a_gpu_that_is_unknown_it_counts_for_ten_minutes(
        self,
    ) -> None:
        one, silent = seen(pod()), with_fields(seen(pod()), stale="silent")
        stored = begun(one, self.ASKS)
        play(stored, one, self.ASKS, START, START + 60)

        play(stored, silent, self.ASKS, START + 65, START + 660)
        assert stored.fleet_evicts(START + 660) == 1
        play(stored, silent, self.ASKS, START + 665, START + 1200)
        assert stored.fleet_evicts(START + 1200) == 0
        tick(stored, one, START + 1205, self.ASKS)

        assert stored.fleet_evicts(START + 1205) == 1

    def test_while_no_remediator_leads_it_counts(self) -> None:
        one = seen(pod())
        stored = begun(one, self.ASKS)
        play(stored, one, self.ASKS, START, START + 60)

        assert stored.fleet_evicts(START + DAY) == 1


class TestExtendedResources:
    """NoExecute does not reach these pods, so their eviction is requested."""

    HELD = (claim("gpu-0", extended=True),)
    GRANTED = with_fields(view(dead(), claims=HELD), pods=(pod(),))
    REFUSED = with_fields(GRANTED, refusals={"u-train-0": REFUSED})
    DELETES = policy(evict=Evict(within=timedelta(), extended_resources="delete"))

    def test_a_pod_whose_eviction_is_refused_leaves_the_budget_after_ten_minutes(self) -> None:
        stored = under_no_execute(self.REFUSED)

        settle_requests(stored, self.REFUSED, RAISED + TEN_MINUTES - 1)
        assert stored.fleet_evicts() == 1
        settle_requests(stored, self.REFUSED, RAISED + TEN_MINUTES)

        assert stored.fleet_evicts() == 0
        assert block_of(stored) == ("PodsStay", f"team/train-0 (not Ready): {REFUSED}")

    def test_its_eviction_is_requested_on_and_counts_again_once_it_is_granted(self) -> None:
        stored = under_no_execute(self.REFUSED)
        decision = settle_requests(stored, self.REFUSED, RAISED + TEN_MINUTES)
        assert [step.pod.pod for step in decision.steps] == ["train-0"]

        ends = with_fields(self.GRANTED, pods=(pod(terminating=True, grace_ends=at(700)),))
        settle_requests(stored, ends, RAISED + TEN_MINUTES + 5)

        assert stored.fleet_evicts() == 1

    def test_one_that_came_later_has_its_own_ten_minutes(self) -> None:
        late = with_fields(self.REFUSED, pods=(pod(started=at(1000)),))
        stored = under_no_execute(self.REFUSED)

        settle_requests(stored, late, 1000 + TEN_MINUTES - 1)
        assert stored.fleet_evicts() == 1
        settle_requests(stored, late, 1000 + TEN_MINUTES)

        assert stored.fleet_evicts() == 0

    @pytest.mark.parametrize(("refusals", "counts"), [({}, 1), ({"u-train-0": "forbidden"}, 0)])
    def test_one_that_is_deleted_counts_unless_that_is_refused(
        self, refusals: dict[str, str], counts: int
    ) -> None:
        deleted = with_fields(self.GRANTED, refusals=refusals)
        stored = under_no_execute(deleted, self.DELETES)

        settle_requests(stored, deleted, RAISED + TEN_MINUTES, self.DELETES)

        assert stored.fleet_evicts() == counts

    def test_one_that_slurm_drains_leaves_the_budget_too(self) -> None:
        slurms = with_fields(self.GRANTED, pods=(pod(owner_kind="NodeSet.slinky.slurm.net"),))
        stored = under_no_execute(self.GRANTED)

        settle(stored, slurms, RAISED + TEN_MINUTES)

        assert stored.fleet_evicts() == 0


def settle_requests(stored: Stored, seen: NodeView, seconds: float, asks: Policy = ENFORCE) -> Any:
    """Reconcile twice: requests for evictions go on at every look."""
    tick(stored, seen, seconds, asks)
    return tick(stored, seen, seconds, asks)


def test_pods_on_the_board_that_has_its_names_now_are_none_of_a_board_that_left() -> None:
    """Or it would use up the node's budget for as long as its successor is in use."""
    one, before = policy(Limits(evict=Caps(node=Cap(1)))), view(dead(), gpu(1))
    first, *_ = before.slices.inventory
    twin = msgspec.structs.replace(first, device=Device("gpu.example.com", "rack", "board-0"))
    before = with_fields(before, inventory=(*before.slices.inventory, twin))
    stored = Stored()
    for second in (1, 5, 20):
        settle(stored, before, second, one)
    assert set(stored.effects().values()) == {"NoExecute"}

    # Another board in another slot gets one of the names, and is lost as well.
    after = dead(7, minor=0, pci_bus_id="0000:77:00.0", presence_since=at(700))
    used = view(after, gpu(1), claims=(claim("gpu-0"),), pods=(pod(),))
    used = with_fields(used, report=report_with(used, boot_id="boot-2"))
    for second in (710, 720, 730):
        settle(stored, used, second, one)

    effects = {rule.device.device: (rule.gpu, rule.effect) for rule in stored.rules.values()}
    assert effects == {"gpu-0": (uuid(7), "NoExecute"), "board-0": (uuid(0), "NoExecute")}
