"""One more XID into the records of a GPU: what it says of errors that came before it."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from exporter.agent.report.xid_counts import READ_WITHIN, Layout, by_instance, completed, counted
from exporter.model.node_health import GpuHealth, MemorySlices, MigInstance, XidRecord
from exporter.model.signals import Partner, Signal

START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def line(hours: float, *, gi: int | None = None, drain_reset: bool | None = None) -> Signal:
    return Signal(kind="xid", source="kmsg", at=at(hours), code=94, gi=gi, drain_reset=drain_reset)


def event(hours: float, gi: int) -> Signal:
    """The NVML event of a line that named no instance."""
    return Signal(kind="xid", source="nvml", at=at(hours), code=94, gi=gi, partner=Partner(1))


def records(
    *signals: Signal, epochs: tuple[int, ...] = (), none_at: datetime | None = None
) -> dict[int | None, XidRecord]:
    """Return the records by GPU instance; `none_at`: the driver's last answer that it is well."""
    kept: tuple[XidRecord, ...] = ()
    for number, signal in enumerate(signals):
        epoch = epochs[number] if epochs else 1
        layout = Layout(mig=True)
        kept = counted(kept, signal, epoch=epoch, layout=layout, none_at=none_at)
    return {record.gi: record for record in kept}


def test_when_a_slice_is_named_the_errors_without_one_are_as_old_as_before() -> None:
    found = records(line(1), line(2), line(30), event(30, gi=5), epochs=(1, 2, 3, 3))

    left, named = found[None], found[5]
    assert (left.count, left.last_seen, left.epoch) == (2, at(2), 2)
    assert (named.count, named.first_seen, named.epoch) == (1, at(30), 3)


def test_of_two_errors_that_are_named_in_a_row_none_makes_an_old_one_younger() -> None:
    found = records(line(1), line(2), line(30), line(30.1), event(30, gi=5), event(30.1, gi=6))

    assert found[None].last_seen <= at(2)


def test_a_line_that_comes_after_its_event_and_a_restart_of_the_sensor_is_no_second_error() -> None:
    """The new sensor knows of no event, so the line has no partner."""
    alone = msgspec.structs.replace(event(1, gi=5), partner=None)
    second = msgspec.structs.replace(alone, at=at(1) + timedelta(seconds=1), gi=6)
    old = msgspec.structs.replace(line(1), past=True)

    assert {gi: record.count for gi, record in records(alone, old).items()} == {5: 1}
    found = records(alone, second, old, old, old)
    assert {gi: (record.count, record.sources) for gi, record in found.items()} == {
        None: (1, ("kmsg",)),
        5: (1, ("kmsg", "nvml")),
        6: (1, ("kmsg", "nvml")),
    }


@pytest.mark.parametrize("last", [None, 5])
def test_the_lines_of_an_error_whose_event_an_earlier_sensor_had_are_that_error(
    last: int | None,
) -> None:
    alone = msgspec.structs.replace(event(1, gi=5), partner=None)
    first = msgspec.structs.replace(line(1), past=True, unfinished=True)
    further = msgspec.structs.replace(line(1), past=True, further=True, partner=Partner(2))
    lines = (first, further, msgspec.structs.replace(further, gi=last))

    assert {gi: record.count for gi, record in records(alone, *lines).items()} == {5: 1}


def test_a_new_line_is_paired_by_the_sensor_that_reads_it_or_an_error_of_its_own() -> None:
    alone = msgspec.structs.replace(event(1, gi=5), partner=None)

    assert {gi: record.count for gi, record in records(alone, line(1)).items()} == {None: 1, 5: 1}


def test_a_line_long_after_an_event_or_of_another_slice_is_an_error_of_its_own() -> None:
    def old(hours: float, gi: int | None = None) -> Signal:
        return msgspec.structs.replace(line(hours, gi=gi), past=True)

    alone = msgspec.structs.replace(event(1, gi=5), partner=None)

    assert {gi: record.count for gi, record in records(alone, old(1.01)).items()} == {None: 1, 5: 1}
    assert {gi: record.count for gi, record in records(alone, old(1, gi=6)).items()} == {5: 1, 6: 1}


def test_a_reset_clears_the_flags_of_the_lines_before_it() -> None:
    before, after = line(0, gi=5, drain_reset=True), line(9, gi=5, drain_reset=False)

    assert records(before, after, epochs=(1, 1))[5].reset_request == "AfterDrain"
    assert records(before, after, epochs=(1, 2))[5].reset_request == "NotRequested"


def test_a_line_of_a_newer_epoch_that_has_no_flags_knows_of_none() -> None:
    found = records(line(0, gi=5, drain_reset=True), line(9, gi=5), epochs=(1, 2))

    assert found[5].reset_request == "Unknown"


def test_a_cause_that_an_older_epoch_named_is_not_that_of_a_new_error() -> None:
    named = msgspec.structs.replace(line(0, gi=5), code=45, caused_by=95)
    later = msgspec.structs.replace(line(9, gi=5), code=45)

    assert records(named, later, epochs=(1, 1))[5].caused_by == 95
    assert records(named, later, epochs=(1, 2))[5].caused_by is None


MINUTE = 1 / 60


@pytest.mark.parametrize(
    ("hours", "answered", "requests"),
    [
        (9, 8.9, "NotRequested"),
        (9, 9.1, "NotRequested"),
        (9, MINUTE, "AfterDrain"),
        (9, -1, "AfterDrain"),
        (9, None, "AfterDrain"),
        (MINUTE, 9, "AfterDrain"),
    ],
    ids=["answered", "after both", "at once", "before it", "never", "lines of one error"],
)
def test_the_drivers_answer_clears_the_flags_of_the_errors_before_it(
    hours: float, answered: float | None, requests: str
) -> None:
    """A driver that always answers so shows no reset, and no new epoch."""
    before, after = line(0, gi=5, drain_reset=True), line(hours, gi=5, drain_reset=False)
    none_at = None if answered is None else at(answered)

    assert records(before, after, none_at=none_at)[5].reset_request == requests
    assert records(before, none_at=none_at)[5].reset_request == "AfterDrain"


def test_the_flags_of_the_youngest_error_stay_in_whatever_order_they_are_read() -> None:
    before, after = line(0, gi=5, drain_reset=False), line(9, gi=5, drain_reset=True)

    assert records(after, before, none_at=at(10))[5].reset_request == "AfterDrain"


def test_a_cause_that_was_named_before_the_drivers_answer_is_not_that_of_a_new_error() -> None:
    named = msgspec.structs.replace(line(0, gi=5), code=45, caused_by=95)
    later = msgspec.structs.replace(line(9, gi=5), code=45)

    assert records(named, later, none_at=at(8))[5].caused_by is None


def test_an_old_error_without_an_instance_stays_as_old_as_it_is() -> None:
    """The second line named no slice either, and its event did."""
    found = records(line(0), line(15), event(15, gi=4))

    assert (found[None].count, found[None].last_seen) == (1, at(0))
    assert (found[4].count, found[4].first_seen, found[4].last_seen) == (1, at(15), at(15))


def test_of_one_error_with_two_sources_nothing_is_left_behind() -> None:
    found = records(line(0), event(0.001, gi=4))

    assert set(found) == {4}
    assert found[4].first_seen == at(0)


def test_of_many_without_an_instance_one_less_is_left() -> None:
    found = records(line(0), line(5), line(15), event(15, gi=4))

    assert found[None].count == 2
    assert found[4].first_seen == at(15)


def live(gi: int, start: int, size: int = 1, profile_id: int = 19) -> MigInstance:
    return MigInstance(
        uuid=f"MIG-{gi}-{start}",
        gi=gi,
        ci=0,
        profile="",
        gi_profile_id=profile_id,
        placement_start=start,
        placement_size=size,
    )


def cut(*instances: MigInstance, hours: float = 0.0) -> Layout:
    """Return a reading of that time."""
    return Layout(mig=True, instances=instances, read_at=at(hours))


def reading(records: tuple[XidRecord, ...], *instances: MigInstance) -> GpuHealth:
    return GpuHealth(
        uuid="GPU-0",
        presence="Present",
        presence_since=at(0),
        mig_mode="Enabled",
        instances=instances,
        xids=records,
    )


SECOND = 1 / 3600


class TestPlace:
    def test_a_record_keeps_the_mode_the_profile_and_the_place_of_its_time(self) -> None:
        (found,) = counted((), line(0, gi=5), epoch=1, layout=cut(live(5, 4), live(6, 5)))

        assert (found.mig_mode, found.gi_profile_id) == ("Enabled", 19)
        assert found.placement == MemorySlices(4, 1)

    def test_an_instance_id_that_is_used_again_elsewhere_is_another_record(self) -> None:
        kept = counted((), line(0, gi=5), epoch=1, layout=cut(live(5, 4)))
        kept = counted(kept, line(1, gi=5), epoch=1, layout=cut(live(5, 0, 2, 14), hours=1))

        assert [(xid_record.placement, xid_record.count) for xid_record in kept] == [
            (MemorySlices(0, 2), 1),
            (MemorySlices(4, 1), 1),
        ]
        (shown,) = by_instance(kept)
        assert (shown.count, shown.first_seen, shown.last_seen) == (2, at(0), at(1))

    def test_the_second_source_of_an_error_does_not_move_it(self) -> None:
        kept = counted((), line(0, gi=5), epoch=1, layout=cut(live(5, 4)))
        reported = msgspec.structs.replace(event(0, gi=5), partner=Partner(1, 5))
        (found,) = counted(kept, reported, epoch=1, layout=cut(live(5, 0)))

        assert (found.placement, found.count) == (MemorySlices(4, 1), 1)
        assert found.sources == ("kmsg", "nvml")

    def test_without_mig_there_is_no_instance_and_no_place(self) -> None:
        (found,) = counted(
            (), line(0, gi=0), epoch=1, layout=Layout(mig=False, instances=(live(0, 0),))
        )

        assert (found.mig_mode, found.gi, found.placement) == ("Disabled", None, None)

    def test_a_reading_right_after_an_error_tells_where_it_was(self) -> None:
        kept = counted((), line(0, gi=5), epoch=1, layout=Layout(mig=None))
        gpu = reading(kept, live(5, 4))

        (soon,) = completed(gpu, at(0) + READ_WITHIN, Layout(mig=None)).xids
        (late,) = completed(gpu, at(0) + 2 * READ_WITHIN, Layout(mig=None)).xids

        assert (soon.mig_mode, soon.gi_profile_id, soon.placement) == (
            "Enabled",
            19,
            MemorySlices(4, 1),
        )
        assert (late.mig_mode, late.placement) == ("Enabled", None)

    def test_a_reading_of_before_an_error_does_not_tell_whose_it_was(self) -> None:
        """Its id was given to another instance since; the next reading shows where that is."""
        before = cut(live(7, 0), live(8, 1), hours=-20 * SECOND)
        kept = counted((), line(0, gi=7), epoch=1, layout=before)
        assert [record.placement for record in kept] == [None]

        gpu = reading(kept, live(7, 4), live(8, 1), live(9, 0))
        (found,) = completed(gpu, at(0.5 * SECOND), before).xids

        assert (found.placement, found.count) == (MemorySlices(4, 1), 1)

    @pytest.mark.parametrize(
        ("hours", "after", "place"),
        [
            (-20 * SECOND, (), MemorySlices(0, 1)),
            (-20 * SECOND, (live(9, 0),), None),
            (-300 * SECOND, (), None),
            (1 * SECOND, (), None),
        ],
        ids=["its place is free", "another has its place", "long before", "after it"],
    )
    def test_an_instance_that_is_gone_was_where_the_reading_before_had_it(
        self, hours: float, after: tuple[MigInstance, ...], place: MemorySlices | None
    ) -> None:
        kept = counted((), line(0, gi=7), epoch=1, layout=Layout(mig=True))

        gpu = reading(kept, *after)
        (found,) = completed(gpu, at(2 * SECOND), cut(live(7, 0), hours=hours)).xids

        assert found.placement == place

    @pytest.mark.parametrize(
        ("old", "place"),
        [(live(7, 4), MemorySlices(4, 1)), (live(7, 0), None), (live(8, 4), None)],
    )
    def test_a_late_reading_tells_only_of_an_instance_that_was_there_before(
        self, old: MigInstance, place: MemorySlices | None
    ) -> None:
        kept = counted((), line(0, gi=7), epoch=1, layout=Layout(mig=True))

        gpu = reading(kept, live(7, 4))
        (found,) = completed(gpu, at(0.1), cut(old, hours=-20 * SECOND)).xids

        assert found.placement == place

    def test_an_instance_that_is_named_shows_that_mig_was_turned_on(self) -> None:
        off = Layout(mig=False, read_at=at(-20 * SECOND))
        kept = counted((), event(0, gi=7), epoch=1, layout=off)
        gpu = reading(kept, live(7, 4))

        (on,) = completed(gpu, at(SECOND), off).xids
        (still,) = completed(
            msgspec.structs.replace(gpu, mig_mode="Disabled"), at(SECOND), off
        ).xids

        assert (on.mig_mode, on.placement) == ("Enabled", MemorySlices(4, 1))
        assert (still.mig_mode, still.gi, still.placement) == ("Disabled", None, None)

    def test_the_second_source_of_such_an_error_is_no_second_error(self) -> None:
        off = Layout(mig=False, read_at=at(-20 * SECOND))
        kept = counted((), line(0), epoch=1, layout=off)
        (found,) = counted(kept, event(0, gi=7), epoch=1, layout=off)
        again = msgspec.structs.replace(line(0), partner=Partner(1, 7))
        (other,) = counted(
            counted((), event(0, gi=7), epoch=1, layout=off), again, epoch=1, layout=off
        )

        assert (found.count, found.gi) == (other.count, other.gi) == (1, 7)

    def test_a_later_mode_changes_no_record(self) -> None:
        kept = counted((), line(0), epoch=1, layout=Layout(mig=False))
        gpu = GpuHealth(
            uuid="GPU-0", presence="Present", presence_since=at(0), mig_mode="Enabled", xids=kept
        )

        assert completed(gpu, at(0.001), Layout(mig=False)) == gpu


class TestSources:
    def test_when_nvml_reported_last_is_kept_beside_when_the_log_did(self) -> None:
        kept = counted((), line(0, gi=5), epoch=1, layout=cut())
        kept = counted(kept, event(0, gi=5), epoch=1, layout=cut())
        (found,) = counted(kept, line(9, gi=5), epoch=1, layout=cut())

        assert (found.last_seen, found.event_at) == (at(9), at(0))

    def test_the_log_alone_tells_of_no_event(self) -> None:
        (found,) = counted((), line(0), epoch=1, layout=cut())

        assert (found.sources, found.event_at) == (("kmsg",), None)
