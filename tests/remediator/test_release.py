"""Moments in which a sick device could be set free, or held without a reason."""

import msgspec
import pytest

from exporter.model.node_health import MemoryHealth
from exporter.model.node_health_words import answer
from remediator.policy.file import read
from tests.remediator.builders import (
    ALL_SEVEN,
    RESET,
    SLICE_5,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    policy,
    published,
    report_with,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import EVICTS_LATER, settle, tick


class TestRelease:
    def test_a_gap_of_not_knowing_starts_the_soak_anew(self) -> None:
        stored = Stored()
        settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), 1, EVICTS_LATER)
        mended = view(gpu(0, xid(95), recovery_action=action(0, 10, 10)))
        settle(stored, mended, 10)
        settle(stored, with_fields(mended, stale="silent"), 300)

        settle(stored, mended, 650)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        settle(stored, mended, 1249)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        settle(stored, mended, 1250)
        assert stored.effects() == {}

    def test_a_node_whose_clock_is_behind_does_not_shorten_the_soak(self) -> None:
        stored = Stored()
        sick = view(gpu(0, xid(95, seen=-900), recovery_action=action(1, -900, -899)))
        for second in (1, 5):
            settle(stored, sick, second)

        late = view(gpu(0, xid(95, seen=-900), recovery_action=action(0, -890, -889)))
        late = with_fields(late, report=report_with(late, observed_at=at(-889)))
        settle(stored, late, 9)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    @pytest.mark.parametrize("state", [None, False])
    def test_a_failed_row_remap_heals_only_when_it_is_read_and_soaked(
        self, state: bool | None
    ) -> None:
        stored, rows = Stored(), policy(sticky=False)
        settle(stored, view(gpu(0, memory=MemoryHealth(row_remap_failed="True"))), 1, rows)
        assert stored.effects() == {"gpu-0": "NoSchedule"}

        later = view(gpu(0, memory=MemoryHealth(row_remap_failed=answer(state))))
        settle(stored, later, 5, rows)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        settle(stored, later, 700, rows)
        assert bool(stored.effects()) is (state is None)

    def test_rules_whose_incident_somebody_deleted_get_an_incident_and_a_soak(self) -> None:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), second)
        stored.incidents.clear()
        mended = view(gpu(0, recovery_action=action(0, 10, 10)))

        settle(stored, mended, 20)
        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert stored.incident.status.fault.cause == "xid-95"
        settle(stored, mended, 620)
        assert stored.effects() == {}

    def test_a_lesser_fault_later_does_not_narrow_the_scope(self) -> None:
        stored = Stored()
        whole = view(mig_gpu(0, recovery_action=RESET))
        settle(stored, whole, 1)
        settle(stored, whole, 5)
        later = view(mig_gpu(0, xid(94, seen=30, gi=5), recovery_action=action(0, 20, 31)))

        settle(stored, later, 40)

        assert set(stored.effects()) == ALL_SEVEN
        assert stored.incident.status.fault.fault_class == "gpu"

    def test_devices_published_without_a_uuid_keep_their_rules(self) -> None:
        stored = Stored()
        sick = mig_gpu(0, recovery_action=RESET)
        settle(stored, view(sick), 1)
        nameless = tuple(
            msgspec.structs.replace(device, uuid=None, parent_uuid=None)
            for device in published(sick)
        )

        settle(stored, view(sick, inventory=nameless), 5)
        settle(stored, view(sick, inventory=()), 6)

        assert set(stored.effects()) == ALL_SEVEN

    def test_a_fault_that_stands_again_after_closing_opens_an_incident(self) -> None:
        stored = Stored()
        settle(stored, view(gpu(0, recovery_action=RESET)), 1)
        mended = view(gpu(0, recovery_action=action(0, 10, 10)))
        for second in (10, 700):
            settle(stored, mended, second)
        assert stored.effects() == {}

        for second in (801, 805):
            settle(stored, view(gpu(0, recovery_action=action(1, 0.5, 800))), second)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert len(stored.incidents) == 2

    def test_an_incident_is_closed_only_when_its_rules_are_gone(self) -> None:
        stored = Stored()
        settle(stored, view(gpu(0, recovery_action=RESET)), 1)
        mended = view(gpu(0, recovery_action=action(0, 10, 10)))
        settle(stored, mended, 10)

        tick(stored, mended, 700)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert stored.incident.status.recovery.released_at == at(700)
        tick(stored, mended, 700)
        assert (stored.effects(), stored.incident.open) == ({}, True)
        tick(stored, mended, 700)
        assert not stored.incident.open


class TestClassesTogether:
    def test_a_milder_class_does_not_hide_a_contained_error(self) -> None:
        stored = Stored()
        sick = mig_gpu(
            0,
            xid(94, gi=5),
            memory=MemoryHealth(row_remap_failed="True"),
            recovery_action=action(observed=0.1),
        )

        settle(stored, view(sick), 1)
        settle(stored, view(sick), 5)

        assert stored.effects() == {
            name: "NoExecute" if name == SLICE_5 else "NoSchedule" for name in ALL_SEVEN
        }

    def test_a_class_in_incident_only_does_not_switch_off_an_enforced_one(self) -> None:
        stored = Stored()
        mixed = read(
            "{defaults: {soak: 10m}, classes: {gpu: {mode: enforce}, contained: {mode: enforce}}}"
        )
        sick = gpu(0, xid(95), xid(79), recovery_action=RESET)

        settle(stored, view(sick), 2, mixed)
        settle(stored, view(sick), 6, mixed)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_doubtful_repeat_does_not_stop_a_certain_eviction(self) -> None:
        stored = Stored()
        for second in range(1, 12):
            storm = gpu(0, xid(119, seen=second - 0.1), recovery_action=action(1, 0.5, 0.5))
            settle(stored, view(storm), second)

        assert stored.effects() == {"gpu-0": "NoExecute"}
