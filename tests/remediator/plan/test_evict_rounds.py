"""Whom a claim that is joined again and again stops from being evicted, and until when."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from exporter.model.node_health import XidRecord
from remediator.model.incident_caps import cut_to_limits
from remediator.plan.evictions import FREE_FOR
from remediator.plan.stages import ROUNDS
from remediator.plan.view import NodeView
from remediator.policy.table import Evict
from tests.remediator.builders import (
    SLICE_5,
    Stored,
    action,
    at,
    mig_gpu,
    policy,
    until,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.evict_first import (
    REFUSED,
    START,
    WITHIN,
    begun,
    blocked,
    play,
    requested,
    rows,
    seen,
    shared,
)
from tests.remediator.playing import claim, pod, tick

OTHER = "gpu-0-mig-1g10gb-19-0"
TWO_MINUTES = timedelta(minutes=2)
FREE = FREE_FOR.total_seconds()
FIRST, SECOND = xid(94, gi=5), xid(94, seen=100, gi=1)


def slices(
    *records: XidRecord, joined: Iterable[str] = (), other: Iterable[str] = (), **fields: Any
) -> NodeView:
    """A GPU of which one slice, or two, has failed, and who holds the two."""
    sick = mig_gpu(0, *records, recovery_action=action(observed=101))
    claims = [claim(SLICE_5, name) for name in joined] + [claim(OTHER, name) for name in other]
    return view(
        sick, claims=tuple(claims), pods=tuple(pod(name) for name in (*joined, *other)), **fields
    )


def joined_too_often(first: float = START) -> Stored:
    """A slice whose pods are followed by others until nothing is requested there any more."""
    stored = begun(slices(FIRST, joined=["p-0"], other=["b"]), rows("wait"))
    for number in range(4):
        one = slices(FIRST, joined=[f"p-{number}"], other=["b"])
        tick(stored, one, first + number * 5, rows("wait"))
    assert stored.incident.status.phase == "NeedsHuman"
    return stored


class TestOtherDevices:
    def test_a_slice_that_fails_later_is_evicted_from_whatever_was_joined_before(self) -> None:
        stored = joined_too_often()

        two = slices(FIRST, SECOND, joined=["p-3"], other=["b"])
        decisions = play(stored, two, rows("wait"), 100, 150)

        assert {name for each in decisions for name in requested(each)} == {"b"}
        rounds = {entry.device: entry.rounds for entry in stored.incident.status.eviction.by_device}
        assert [rounds[f"gpu.nvidia.com/node-a/{name}"] for name in (SLICE_5, OTHER)] == [4, 1]

    def test_they_are_evicted_at_the_usual_pace_and_count_in_the_budget(self) -> None:
        stored = joined_too_often()
        assert (stored.fleet_evicts(), "more than 3 rounds" in blocked(stored)) == (0, True)

        two = slices(FIRST, SECOND, joined=["p-3"], other=["b"])
        play(stored, two, rows("wait"), 100, 150)

        assert blocked(stored) == ""
        assert (stored.fleet_evicts(), stored.incident.status.phase) == (1, "Evicting")
        play(stored, slices(FIRST, SECOND, joined=["p-3"]), rows("wait"), 155, 155)
        assert "more than 3 rounds of evictions: team/p-3 (" in blocked(stored)
        assert stored.incident.status.phase == "NeedsHuman"

    def test_only_who_holds_the_joined_device_is_named_before_the_time_is_over(self) -> None:
        refused = {"u-b": REFUSED}
        stored, short = joined_too_often(), policy(evict=Evict(within=TWO_MINUTES, then="wait"))
        assert "team/b" not in blocked(stored)
        two = slices(FIRST, SECOND, joined=["p-3"], other=["b"], refusals=refused)

        # What is new is tainted and settled first, and gets the whole time from then on.
        play(stored, two, short, 30, 30 + 115)
        assert blocked(stored) == ""
        play(stored, two, short, 30 + 120, 30 + 140)

        assert "team/p-3 (" in blocked(stored)
        assert f"team/b (not Ready): {REFUSED}" in blocked(stored)


class TestTheirEnd:
    def over(self) -> Stored:
        """A whole GPU whose claim was joined too often."""
        stored = begun(shared("p-0")[0], rows("wait"))
        for number in range(4):
            tick(stored, shared(f"p-{number}")[0], START + number * 5, rows("wait"))
        assert stored.incident.status.eviction.by_device[0].rounds == ROUNDS + 1
        return stored

    def test_they_are_not_counted_beyond_the_first_that_is_too_many(self) -> None:
        stored = self.over()
        for number in range(4, 8):
            tick(stored, shared(f"p-{number}")[0], START + number * 5, rows("wait"))

        assert [entry.rounds for entry in stored.incident.status.eviction.by_device] == [ROUNDS + 1]

    def test_noexecute_follows_after_the_time_to_evict_all_the_same(self) -> None:
        stored, asks = begun(shared("p-0")[0], rows("NoExecute")), rows("NoExecute")
        for number in range(4):
            tick(stored, shared(f"p-{number}")[0], START + number * 5, asks)
        assert "more than 3 rounds" in blocked(stored)

        left = shared("p-3")[0]
        play(stored, left, asks, START + 20, START + WITHIN.total_seconds() - 5)
        assert set(stored.effects().values()) == {"Evict"}
        play(stored, left, asks, START + WITHIN.total_seconds(), START + WITHIN.total_seconds())

        assert set(stored.effects().values()) == {"NoExecute"}

    def test_they_are_forgotten_once_nobody_has_held_the_device_for_a_minute(self) -> None:
        stored, asks = self.over(), rows("wait")

        play(stored, seen(claims=()), asks, 100, 100 + FREE)
        assert (stored.incident.status.eviction.by_device, blocked(stored)) == ((), "")
        later = play(stored, shared("late")[0], asks, 400, 405)

        assert [requested(each) for each in later] == [["late"], ["late"]]
        assert [rounds.rounds for rounds in stored.incident.status.eviction.by_device] == [1]

    def test_who_looks_only_when_somebody_came_back_counts_the_minute_too(self) -> None:
        stored, asks = self.over(), rows("wait")

        tick(stored, seen(claims=()), 100, asks)

        assert requested(tick(stored, shared("late")[0], 100 + FREE, asks)) == ["late"]

    def test_a_device_that_was_free_for_a_moment_only_is_joined_again(self) -> None:
        """A scheduler that does not know of taints gives it to the next pod at once."""
        stored, asks = self.over(), rows("wait")

        play(stored, seen(claims=()), asks, 100, 100 + FREE / 2)
        again = tick(stored, shared("late")[0], 101 + FREE / 2, asks)

        assert requested(again) == []
        assert stored.incident.status.phase == "NeedsHuman"

    def test_a_claim_that_is_allocated_and_reserved_for_nobody_holds_its_device(self) -> None:
        stored, asks = self.over(), rows("wait")
        one = claim("gpu-0", "p-0")
        assert one.status is not None
        kept = msgspec.structs.replace(
            one, status=msgspec.structs.replace(one.status, reserved_for=())
        )

        play(stored, seen(claims=(kept,)), asks, 100, 100 + 2 * FREE)

        assert requested(tick(stored, shared("late")[0], 400, asks)) == []

    @pytest.mark.parametrize("fields", [{"blind": {"claims": "refused"}}, {"stale": "silent"}])
    def test_not_knowing_frees_nothing(self, fields: dict[str, object]) -> None:
        stored, asks = self.over(), rows("wait")

        play(stored, seen(claims=(), **fields), asks, 100, 100 + 2 * FREE)

        assert requested(tick(stored, shared("late")[0], 400, asks)) == []

    def test_a_hold_keeps_them(self) -> None:
        stored, asks = self.over(), rows("wait")
        stored.intend("Hold", until(300))

        play(stored, shared("p-3")[0], asks, 100, 295)

        assert requested(tick(stored, shared("p-3")[0], 305, asks)) == []

    def test_who_came_while_the_fault_was_ignored_was_there_at_first(self) -> None:
        stored, asks = self.over(), rows("wait")
        stored.intend("Ignore", until(300))

        play(stored, shared("p-3")[0], asks, 100, 295)
        after = play(stored, shared("p-3")[0], asks, 305, 320)

        assert requested(after[-1]) == ["p-3"]


def test_no_more_devices_are_counted_than_the_crd_takes() -> None:
    stored = joined_too_often()
    status = stored.incident.status

    assert cut_to_limits(status) == status
    (one,) = status.eviction.by_device
    many = tuple(
        msgspec.structs.replace(one, device=f"d-{number}", free_since_time=at(number))
        for number in range(300)
    )
    assert len(cut_to_limits(with_fields(status, by_device=many)).eviction.by_device) == 256
