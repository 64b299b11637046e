"""A GPU that its node offers and NVML never listed, and boards that moved."""

from typing import Any

import msgspec
import pytest

from exporter.model.node_health import (
    GpuHealth,
    Inventory,
    MemoryHealth,
    SourceHealth,
)
from remediator.diagnose.fault import Sick, Surroundings, Unknown
from remediator.diagnose.readings import NEVER_LISTED, NOT_REPORTED, unlisted_gpus
from remediator.diagnose.verdict import verdict
from remediator.plan.boards import bind_boards
from remediator.plan.view import NodeView
from tests.remediator.builders import (
    BOOT,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    published,
    report,
    report_with,
    uuid,
    view,
    with_fields,
)
from tests.remediator.playing import settle

NVML_UP = (SourceHealth(name="nvml", state="Up"),)


class TestMissing:
    LATE = Surroundings(
        reported_at=at(60), sources=NVML_UP, inventory=Inventory(missing=("0000:01:00.0",))
    )

    def never(self) -> GpuHealth:
        return gpu(0, presence="Unknown", presence_reason=NEVER_LISTED, presence_since=at(0))

    def test_a_gpu_that_was_never_listed_is_lost_and_doubtful(self) -> None:
        judged = verdict(self.never(), self.LATE)

        assert isinstance(judged, Sick)
        (fault,) = judged.faults
        assert (fault.fault_class, fault.cause) == ("lost", "gpu-missing")
        assert fault.needs == "human"
        assert not fault.certain
        assert "may be of before" in fault.doubt

    @pytest.mark.parametrize(
        "fields",
        [
            {"reported_at": at(59)},
            {"reported_at": None},
            {"sources": ()},
            {"sources": (SourceHealth(name="nvml", state="Down"),)},
            {"inventory": Inventory()},
            {"inventory": Inventory(missing=("0000:01:00.0",), unidentified=1)},
        ],
    )
    def test_short_of_a_live_nvml_that_misses_it_for_a_minute_nobody_knows(
        self, fields: dict[str, object]
    ) -> None:
        around = with_fields(self.LATE, **fields)

        assert isinstance(verdict(self.never(), around), Unknown)

    @pytest.mark.parametrize("reason", ["Hung", "Released", "NotPublished", "DriverReloaded"])
    def test_another_reason_not_to_see_it_is_no_finding(self, reason: str) -> None:
        one = msgspec.structs.replace(self.never(), presence_reason=reason)

        assert isinstance(verdict(one, self.LATE), Unknown)

    def test_only_what_is_published_and_missed_gets_an_entry(self) -> None:
        reported = report(gpu(0))
        inventory = (*published(gpu(0)), *published(gpu(1)), *published(mig_gpu(2)))
        by_bus = with_fields(reported, inventory=Inventory(missing=("0000:02:00.0",)))
        by_uuid = with_fields(reported, inventory=Inventory(missing=(uuid(2),)))

        assert unlisted_gpus(reported, inventory) == {}
        assert set(unlisted_gpus(by_bus, inventory)) == {uuid(1)}
        assert set(unlisted_gpus(by_uuid, inventory)) == {uuid(2)}
        entry = unlisted_gpus(by_bus, inventory)[uuid(1)]
        assert (entry.presence, entry.presence_reason) == ("Unknown", NOT_REPORTED)
        assert entry.presence_since == BOOT

    def test_it_is_missed_since_the_first_gpu_of_the_node_was_seen(self) -> None:
        """A neighbour that came later must not make a GPU that never came look young."""
        others = (gpu(0, presence_since=at(-900)), gpu(2, presence_since=at(-5)))
        missing = Inventory(missing=("0000:02:00.0",))
        reported = with_fields(report(*others), inventory=missing)

        assert unlisted_gpus(reported, published(gpu(1)))[uuid(1)].presence_since == at(-900)

    def test_a_gpu_that_only_slices_name_is_known_to_be_on_the_node(self) -> None:
        sick = gpu(0, recovery_action=action(1, 1, 1))
        stored = Stored()
        settle(stored, view(sick, inventory=(*published(sick), *published(gpu(1)))), 2)

        assert stored.incident.status.stay.siblings == (uuid(1),)

    @pytest.mark.parametrize("fields", [{"missing": ("0000:02:00.0",)}, {"set_aside": 1}])
    def test_beside_a_gpu_without_a_name_nobody_knows_who_is_there(
        self, fields: dict[str, Any]
    ) -> None:
        """It has one after the next boot, and the number of the sick one, which is away then."""
        worn = gpu(0, memory=MemoryHealth(row_remap_failed="True", remap_observed_at=at(0)))
        stored, seen = Stored(), view(worn)
        beside = Inventory(on_bus=2, seen=1, **fields)
        for second in (1, 5, 60):
            dated = report_with(seen, inventory=beside, observed_at=at(second))
            settle(stored, with_fields(seen, report=dated), second)
        assert stored.incident.status.stay.siblings is None

        other = gpu(1, pci_bus_id=worn.pci_bus_id, presence_since=at(700), epoch_started=at(700))
        after = view(other, inventory=published(other))
        full = report_with(after, boot_id="boot-2", inventory=Inventory(on_bus=1, seen=1))
        for second in (720, 800, 4000):
            dated = msgspec.structs.replace(full, observed_at=at(second))
            settle(stored, with_fields(after, report=dated), second)

        assert stored.incident.open

    def test_a_gpu_for_virtual_machines_is_not_missed(self) -> None:
        twins = tuple(msgspec.structs.replace(device, kind="vfio") for device in published(gpu(1)))
        reported = with_fields(report(gpu(0)), inventory=Inventory(missing=("0000:02:00.0",)))

        assert unlisted_gpus(reported, twins) == {}

    def offered(self, **fields: object) -> NodeView:
        """A node with a GPU, and another in its slices only."""
        one = view(gpu(0), inventory=(*published(gpu(0)), *published(gpu(1))))
        return with_fields(
            one, report=report_with(one, inventory=Inventory(missing=("0000:02:00.0",))), **fields
        )

    def test_it_has_a_case_and_new_work_is_kept_away_from_its_name(self) -> None:
        stored = Stored()
        seen = self.offered()
        board = next(
            candidate for candidate in bind_boards(seen, at(1)) if candidate.uuid == uuid(1)
        )

        settle(stored, seen, 1)
        settle(stored, seen, 60)

        assert not board.presence.reported
        assert stored.effects() == {"gpu-1": "NoSchedule"}
        assert stored.incident.status.fault.cause == "gpu-missing"

    @pytest.mark.parametrize("fields", [{"stale": "silent"}, {"elsewhere": {uuid(1): ("node-b",)}}])
    def test_a_board_that_another_node_has_and_one_of_a_silent_node_are_not_tainted(
        self, fields: dict[str, object]
    ) -> None:
        stored = Stored()

        settle(stored, self.offered(**fields), 1)

        assert not stored.taken


def test_a_board_that_moved_is_reported_by_the_node_that_has_it() -> None:
    seen = TestMissing().offered(elsewhere={uuid(1): ("node-b",)})

    assert [board.uuid for board in bind_boards(seen, at(1))] == [uuid(0)]
