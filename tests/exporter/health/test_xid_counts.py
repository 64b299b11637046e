"""One more XID into the records of a GPU: what it says of errors that came before it."""

from datetime import UTC, datetime, timedelta

import msgspec

from exporter.health.xid_counts import counted
from exporter.report import XidRecord
from exporter.signals import Partner, Signal

START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def line(hours: float, *, gi: int | None = None, drain_reset: bool | None = None) -> Signal:
    return Signal(kind="xid", source="kmsg", at=at(hours), code=94, gi=gi, drain_reset=drain_reset)


def event(hours: float, gi: int) -> Signal:
    """The NVML event of a line that named no instance."""
    return Signal(kind="xid", source="nvml", at=at(hours), code=94, gi=gi, partner=Partner(1))


def records(*signals: Signal, epochs: tuple[int, ...] = ()) -> dict[int | None, XidRecord]:
    """Return the records by GPU instance."""
    kept: tuple[XidRecord, ...] = ()
    for number, signal in enumerate(signals):
        epoch = epochs[number] if epochs else 1
        kept = counted(kept, signal, epoch=epoch, mig=True)
    return {record.gi: record for record in kept}


def test_a_reset_clears_the_flags_of_the_lines_before_it() -> None:
    before, after = line(0, gi=5, drain_reset=True), line(9, gi=5, drain_reset=False)

    assert records(before, after, epochs=(1, 1))[5].drain_reset is True
    assert records(before, after, epochs=(1, 2))[5].drain_reset is False


def test_a_line_of_a_newer_epoch_that_has_no_flags_knows_of_none() -> None:
    found = records(line(0, gi=5, drain_reset=True), line(9, gi=5), epochs=(1, 2))

    assert found[5].drain_reset is None


def test_a_cause_that_an_older_epoch_named_is_not_that_of_a_new_error() -> None:
    named = msgspec.structs.replace(line(0, gi=5), code=45, caused_by=95)
    later = msgspec.structs.replace(line(9, gi=5), code=45)

    assert records(named, later, epochs=(1, 1))[5].caused_by == 95
    assert records(named, later, epochs=(1, 2))[5].caused_by is None


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
