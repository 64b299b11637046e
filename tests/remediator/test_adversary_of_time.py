"""Incidents about time: wrong clocks, errors that come later, and patience."""

from datetime import timedelta

import msgspec
import pytest

from exporter.model.node_health import FabricHealth
from remediator.freshness import clock_doubt
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import WriteStatus
from tests.remediator.builders import (
    ALL_SEVEN,
    SLICE_5,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    report,
    view,
    xid,
)
from tests.remediator.playing import ENFORCE, claim, settle, tick

SLICE_3 = "gpu-0-mig-1g10gb-19-2"
CALM = action(0, -3600, 0.1)


class TestAClock:
    def test_that_was_a_year_ahead_and_is_set_right_loses_no_later_fault(self) -> None:
        stored = Stored()
        year = timedelta(days=365).total_seconds()
        odd = mig_gpu(0, xid(94, seen=year, gi=5), recovery_action=action(0, -9, year + 1))
        seen = view(odd, report=report(odd, observed_at=at(year + 1)))
        settle(stored, seen, 1)
        settle(stored, seen, 602)
        settle(stored, seen, 603)
        settle(stored, seen, 610)
        assert stored.effects() == {}
        assert not stored.incident.open

        right = mig_gpu(0, xid(94, seen=5000, gi=3), recovery_action=action(0, 4000, 5000.1))
        settle(stored, view(right, report=report(right, observed_at=at(5001))), 5001)

        assert set(stored.effects()) == {"gpu-0-mig-1g10gb-19-2"}

    def test_that_is_an_hour_behind_loses_no_contained_error(self) -> None:
        stored = Stored()
        late = mig_gpu(0, xid(94, seen=-3600, gi=5), recovery_action=action(0, -9999, -3599.9))

        for second in (1, 5):
            settle(stored, view(late, report=report(late, observed_at=at(-3599))), second)

        assert stored.effects() == {SLICE_5: "NoSchedule"}

    def test_that_is_right_makes_no_old_contained_error_fresh_again_as_its_report_ages(
        self,
    ) -> None:
        """Nothing changed since: the report is old, and the agent's Lease says what time it is."""
        stored = Stored()
        old = mig_gpu(0, xid(94, seen=0, gi=5), recovery_action=action(0, -9, 0.1))
        aged = view(old, report=report(old, observed_at=at(1)), behind=timedelta(0))

        for second in (700, 705, 890):
            settle(stored, aged, second)

        assert stored.effects() == {}
        assert stored.incidents == {}

    @pytest.mark.parametrize("behind", [None, timedelta(0)])
    def test_of_ours_that_is_an_hour_ahead_hides_no_contained_error(
        self, behind: timedelta | None
    ) -> None:
        """The node's own clock dates the error, whatever its agent's Lease says of it by ours."""
        stored, doubt = Stored(), clock_doubt(timedelta(hours=1))
        new = mig_gpu(0, xid(94, seen=0, gi=5), recovery_action=action(0, -9, 0.1))
        seen = view(new, report=report(new, observed_at=at(1)), behind=behind, clock_doubt=doubt)

        tick(stored, seen, 3601)

        assert stored.incident.open

    def test_that_is_ahead_moves_nobody_for_an_old_contained_error(self) -> None:
        stored = Stored()
        odd = mig_gpu(0, xid(94, seen=9000, gi=5), recovery_action=action(0, -9, 9001))
        seen = view(odd, report=report(odd, observed_at=at(9001)), claims=(claim(SLICE_5),))

        for second in (1, 5, 20):
            settle(stored, seen, second)

        assert stored.effects() == {SLICE_5: "NoSchedule"}


class TestAClockSetBackInAnIncident:
    """An hour, after an error of the slice of GPU instance 5."""

    AHEAD = mig_gpu(0, xid(94, seen=3600, gi=5), recovery_action=action(0, -9, 3600.1))

    def _reported(self) -> Stored:
        stored = Stored()
        for second in (1, 5):
            settle(
                stored,
                view(self.AHEAD, report=report(self.AHEAD, observed_at=at(3600 + second))),
                second,
            )
        assert set(stored.effects()) == {SLICE_5}
        return stored

    def test_hides_no_error_of_another_slice(self) -> None:
        stored = self._reported()
        records = (xid(94, seen=3600, gi=5), xid(94, seen=30, gi=3))
        both = mig_gpu(0, *records, recovery_action=action(0, -9, 31))

        for second in (32, 40):
            settle(stored, view(both, report=report(both, observed_at=at(second))), second)

        assert set(stored.effects()) == {SLICE_5, SLICE_3}

    def test_across_a_reboot_hides_none_and_the_incident_goes_on_by_the_right_clock(self) -> None:
        stored = self._reported()
        later = mig_gpu(
            0, xid(94, seen=130, gi=3), recovery_action=action(0, 60, 131), epoch_started=at(60)
        )

        for second in (132, 140):
            booted = report(later, observed_at=at(second), boot_id="boot-2")
            settle(stored, view(later, report=booted), second)

        assert set(stored.effects()) == {SLICE_5, SLICE_3}
        assert stored.incident.status.fault.seen_through == at(130)

    def test_recovers_when_nothing_is_reported_any_more(self) -> None:
        stored = self._reported()

        for second in (100, 400, 701):
            well = mig_gpu(0, recovery_action=action(0, 60, second), epoch=2)
            settle(stored, view(well, report=report(well, observed_at=at(second))), second)

        assert stored.effects() == {}
        assert not stored.incident.open

    def test_an_error_of_the_time_ahead_is_not_reported_again(self) -> None:
        """Else it would be one of whoever got the number of its slice."""
        stored = self._reported()
        anew = tuple(
            msgspec.structs.replace(instance, uuid=f"{instance.uuid[:-6]}made-2")
            for instance in self.AHEAD.instances
        )
        again = msgspec.structs.replace(
            self.AHEAD, instances=anew, recovery_action=action(0, -9, 31)
        )

        for second in (32, 40):
            settle(stored, view(again, report=report(again, observed_at=at(second))), second)

        assert stored.effects() == {}, "the slice that was hit is gone, and the new one is sound"


class TestAnotherContainedError:
    def test_frees_no_slice_that_an_earlier_one_has_hit(self) -> None:
        stored = Stored()
        first = mig_gpu(0, xid(94, seen=-400, gi=5), recovery_action=action(0, -3600, 0))
        settle(stored, view(first), 1)
        settle(stored, view(first), 5)
        assert stored.effects() == {SLICE_5: "NoSchedule"}
        booted = mig_gpu(0, xid(94, seen=120, gi=3), recovery_action=action(0, 60, 120.1))
        seen = view(booted, report=report(booted, boot_id="boot-2"))

        settle(stored, seen, 121)

        assert set(stored.effects()) == {SLICE_5, "gpu-0-mig-1g10gb-19-2"}


class TestPatience:
    def test_is_given_to_a_new_doubtful_fault_in_an_open_incident(self) -> None:
        stored = Stored()
        first = mig_gpu(0, xid(94, gi=5), recovery_action=CALM)
        settle(stored, view(first), 1)
        settle(stored, view(first), 5)
        unplaced = mig_gpu(0, xid(94, gi=5), xid(94, seen=100), recovery_action=CALM)

        settle(stored, view(unplaced), 100.5)
        assert set(stored.effects()) == {SLICE_5}
        read = action(0, -3600, 100.5)
        placed = mig_gpu(0, xid(94, gi=5), xid(94, seen=100, gi=3), recovery_action=read)
        settle(stored, view(placed), 101)

        assert set(stored.effects()) == {SLICE_5, "gpu-0-mig-1g10gb-19-2"}

    def test_ends_though_the_signal_repeats(self) -> None:
        stored = Stored()
        first = mig_gpu(0, xid(94, gi=5), recovery_action=CALM)
        settle(stored, view(first), 1)
        settle(stored, view(first), 5)
        for second in range(100, 108):
            again = mig_gpu(0, xid(94, gi=5), xid(94, seen=second), recovery_action=CALM)
            settle(stored, view(again), second + 0.5)

        assert set(stored.effects()) == ALL_SEVEN

    def test_ends_though_the_signal_comes_and_goes(self) -> None:
        stored = Stored()
        bad, good = FabricHealth(state=3, status=15), FabricHealth(state=3, status=0)
        for second in range(1, 9):
            fabric = bad if second % 2 else good
            settle(stored, view(gpu(0, fabric=fabric)), second)

        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_begins_anew_where_the_gpu_was_healthy_in_between(self) -> None:
        """Nobody looks at the node meanwhile, so its incident goes on saying that it waits."""
        stored = Stored()
        for second, read in ((0.1, -1), (0.5, 0.4), (3.5, 3.4)):
            one = gpu(0, xid(74), recovery_action=action(0, -3600, read))
            settle(stored, view(one), second)
        waits = {
            condition.type: condition.status for condition in stored.incident.status.conditions
        }
        assert waits["AwaitingEvidence"] == "True"

        for second, read in ((400.1, 399), (400.5, 400.4), (403.6, 403.5)):
            again = gpu(0, xid(74, seen=400, count=2), recovery_action=action(0, -3600, read))
            settle(stored, view(again), second)
            assert stored.effects() == {}

    def test_and_ends_if_it_stays(self) -> None:
        stored = Stored()
        for second, read in ((0.1, -1), (0.5, 0.4), (3.5, 3.4)):
            settle(stored, view(gpu(0, xid(74), recovery_action=action(0, -3600, read))), second)
        again = gpu(0, xid(74, seen=400, count=2), recovery_action=action(0, -3600, 399))

        for second in (400.1, 403.2):
            settle(stored, view(again), second)

        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_is_given_again_long_after_a_taint(self) -> None:
        stored = Stored()
        bad, good = FabricHealth(state=3, status=15), FabricHealth(state=3, status=0)
        for second in (1, 5):
            settle(stored, view(gpu(0, fabric=bad)), second)
        settle(stored, view(gpu(0, fabric=good)), 100)

        waits = {
            condition.type: condition.status for condition in stored.incident.status.conditions
        }

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert waits["AwaitingEvidence"] == "False"

    def test_ends_where_a_status_cannot_be_written(self) -> None:
        stored = Stored()
        seen = view(mig_gpu(0, xid(94), recovery_action=CALM))
        for second in (1, 2, 5):
            now = at(second)
            for step in decide_node(stored.over(seen), stored.fleet(), ENFORCE, now).steps:
                if not isinstance(step, WriteStatus):
                    stored.take(step, now)

        assert set(stored.effects()) == ALL_SEVEN
