"""One more XID into the records of one GPU.

A record is one code on one instance in one place (or on none). Two sources of
one error are one count; when the second one names the slice, the count moves
from the record without instance to the slice's, so that no doubt is left behind.
The MIG mode and the place are those of the error's time. Instance ids are used again: a
reading of before the error may show another one, so the next reading fills the place in.
Pure: signals carry their time and, from `xid_dedup`, their partner.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple, Self

import msgspec

from exporter.agent.report.severity import keep_last
from exporter.model.node_health import GpuHealth, MemorySlices, MigInstance, XidRecord
from exporter.model.node_health_words import UNKNOWN, mig_mode, reset_request, worst_request
from exporter.model.signals import Partner, Signal
from exporter.model.xid_dedup import WINDOW, same

MAX_RECORDS = 256
"""Records kept per GPU; beyond, the least severe go, and of those the rarest and oldest."""

READ_WITHIN = timedelta(seconds=10)
"""A reading this long after an error still shows the instance that had it: the sensor reads at
once, and an instance id is given to another one no sooner than a pod has come and gone."""
READ_BEFORE = timedelta(minutes=1)
"""A reading this long before an error may show the place of an instance that is gone after it."""

ANSWERED_AFTER = timedelta(minutes=1)
"""An answer of the driver this soon after an error may be of before it."""

_EVENTS = frozenset({"nvml", "dcgm"})
_LOGS = frozenset({"kmsg", "syslog"})


class Key(NamedTuple):
    """What a record is about."""

    code: int
    gi: int | None
    ci: int | None
    placement: MemorySlices | None


class Layout(msgspec.Struct, frozen=True):
    """How the GPU is cut; `mig` None: not known."""

    mig: bool | None
    instances: tuple[MigInstance, ...] = ()
    read_at: datetime | None = None

    @classmethod
    def of(cls, gpu: GpuHealth) -> Self:
        """Return the last reading: it read the recovery action, or that there is none."""
        return cls(gpu.mig, gpu.instances, gpu.recovery_action.observed_at)

    def at(self, signal: Signal) -> "Layout":
        """Return what of it holds for an error: of a reading before it, only the mode."""
        if self.read_at and timedelta() <= self.read_at - signal.at <= READ_WITHIN:
            return self
        partner = signal.partner or Partner(0)
        # Without MIG some libraries send zeros. Another number means that it was turned on since.
        named = bool(signal.gi or partner.gi)
        return Layout(None if named and self.mig is False else self.mig)

    def instance(self, gi: int | None) -> MigInstance | None:
        """Return a slice of a GPU instance; all slices in it have one placement."""
        return next((live for live in self.instances if live.gi == gi), None)

    def placement(self, gi: int | None) -> MemorySlices | None:
        live = self.instance(gi)
        if live is None or live.placement_start is None or live.placement_size is None:
            return None
        return MemorySlices(live.placement_start, live.placement_size)


def key_of(record: XidRecord) -> Key:
    return Key(record.code, record.gi, record.ci, record.placement)


def counted(
    records: tuple[XidRecord, ...],
    signal: Signal,
    *,
    epoch: int,
    layout: Layout,
    none_at: datetime | None = None,
) -> tuple[XidRecord, ...]:
    """Return the records after one signal of a kind in `signals.ERRORS`.

    Where MIG is off instance ids mean nothing (some libraries send zeros) and
    are dropped. `none_at` is when the driver last answered that it requests nothing.
    """
    layout = layout.at(signal)
    by_key = {key_of(record): record for record in records}
    signal = _with_partner(records, signal)
    earlier = _earlier_record(records, signal, layout)
    if signal.further and earlier is not None:
        signal = _joined_to(signal, earlier)
    target = _target(signal, earlier, layout)
    seen = _record(signal, target, epoch, layout)
    if earlier is not None and key_of(earlier) != target:
        # The count moves; what the first source knew of the process moves along.
        first = earlier.first_seen if earlier.count <= 1 else earlier.last_seen
        gi, ci, placement = target.gi, target.ci, target.placement
        # Its last sighting as one of the other instance, not counted yet.
        sighting = msgspec.structs.replace(
            earlier, gi=gi, ci=ci, placement=placement, count=0, first_seen=first
        )
        seen = _merged(sighting, seen, more=0)
        _take_one(by_key, earlier)
    more = 0 if earlier is not None and key_of(earlier) == target else signal.times
    old = by_key.get(target)
    if old is None:
        by_key[target] = msgspec.structs.replace(seen, count=signal.times)
    else:
        by_key[target] = _merged(old, seen, more=more, none_at=none_at)
        if more and target.gi is None and layout.mig:
            by_key[target] = msgspec.structs.replace(
                by_key[target], previous_seen=old.last_seen, previous_epoch=old.epoch
            )
    return _sorted(by_key)


def completed(gpu: GpuHealth, at: datetime, before: Layout) -> GpuHealth:
    """Return the entry whose records have what a reading at `at` was the first to tell.

    The MIG mode lasts as long as the epoch, an instance id only for moments. `before` is the
    reading before this one.
    """
    now = Layout(gpu.mig, gpu.instances, at)
    filled = tuple(_filled(record, gpu, now, before) for record in gpu.xids)
    return gpu if filled == gpu.xids else msgspec.structs.replace(gpu, xids=joined((), filled))


def _filled(record: XidRecord, gpu: GpuHealth, now: Layout, before: Layout) -> XidRecord:
    mode = record.mig_mode
    if mode == UNKNOWN and record.epoch == gpu.epoch:
        mode = mig_mode(now.mig)
    if mode == "Disabled" and mode != record.mig_mode:
        return msgspec.structs.replace(record, mig_mode=mode, gi=None, ci=None, placement=None)
    place, profile = record.placement, record.gi_profile_id
    if record.gi is not None and place is None:
        shown = _layout_with(record, now, before)
        place, live = shown.placement(record.gi), shown.instance(record.gi)
        profile = live.gi_profile_id if live else profile
    return msgspec.structs.replace(record, mig_mode=mode, placement=place, gi_profile_id=profile)


def _layout_with(record: XidRecord, now: Layout, before: Layout) -> Layout:
    """Return the reading that shows the instance of an error, between two of which it came."""
    none, since = Layout(None), timedelta(0)
    if now.read_at is None or now.read_at < record.last_seen:
        return none
    if before.read_at is not None:
        since = record.last_seen - before.read_at
    earlier = before if before.read_at is not None and since >= timedelta(0) else none
    live, old = now.instance(record.gi), earlier.instance(record.gi)
    if now.read_at - record.last_seen > READ_WITHIN:
        # Late: it has been there all the time only if it is the same one as before.
        return now if live is not None and live == old else none
    if live is not None:
        return now
    place = earlier.placement(record.gi)
    taken = place is not None and any(
        other is not None and place.intersects(other)
        for other in (now.placement(each.gi) for each in now.instances)
    )
    return none if taken or since > READ_BEFORE else earlier


def rate_limited(records: tuple[XidRecord, ...], code: int) -> tuple[XidRecord, ...]:
    """Return the records after the driver said that it leaves out lines of a code.

    Without a record of that code there is nothing to doubt.
    """
    return tuple(
        msgspec.structs.replace(record, rate_limited=True) if record.code == code else record
        for record in records
    )


def joined(records: tuple[XidRecord, ...], others: tuple[XidRecord, ...]) -> tuple[XidRecord, ...]:
    """Return the records of one GPU that was known under two names."""
    by_key = {key_of(record): record for record in records}
    for other in others:
        old = by_key.get(key_of(other))
        by_key[key_of(other)] = other if old is None else _merged(old, other, more=other.count)
    return _sorted(by_key)


def by_instance(records: tuple[XidRecord, ...]) -> tuple[XidRecord, ...]:
    """Return the records by code and instance alone: ids that were used again in one."""
    if all(record.placement is None for record in records):
        return records
    placeless = (msgspec.structs.replace(record, placement=None) for record in records)
    return joined((), tuple(placeless))


def with_records(gpu: GpuHealth, records: tuple[XidRecord, ...]) -> GpuHealth:
    """Return the entry with these records, as many as there is room for."""
    over = len(records) - MAX_RECORDS
    if over <= 0:
        return msgspec.structs.replace(gpu, xids=records)
    going = {id(record) for record in sorted(records, key=keep_last)[:over]}
    kept = tuple(record for record in records if id(record) not in going)
    return msgspec.structs.replace(gpu, xids=kept, xids_dropped=gpu.xids_dropped + over)


def _with_partner(records: Iterable[XidRecord], signal: Signal) -> Signal:
    """Return an old log line, paired with the event that an earlier sensor had of the same error.

    That sensor ended before it read the line, so the two were not paired. Only an error without
    the kernel log among its sources still lacks its line. New lines are paired by the sensor that
    reads them.
    """
    if signal.partner is not None or not signal.past or signal.times > 1:
        return signal
    for record in records:
        if record.code != signal.code or record.event_at is None:
            continue
        near = -WINDOW <= signal.at - record.event_at <= WINDOW
        lacks_line = near and _LOGS.isdisjoint(record.sources)
        if lacks_line and same(record.gi, signal.gi) and same(record.ci, signal.ci):
            return msgspec.structs.replace(signal, partner=Partner(0, record.gi, record.ci))
    return signal


def _earlier_record(
    records: Iterable[XidRecord], signal: Signal, layout: Layout
) -> XidRecord | None:
    """Return the record that counts the same error as an earlier source reported it."""
    if signal.partner is None:
        return None
    ids = (None, None) if layout.mig is False else (signal.partner.gi, signal.partner.ci)
    of_code = [record for record in records if record.code == signal.code]
    fitting = [record for record in of_code if (record.gi, record.ci) == ids]
    if not fitting and signal.further:
        # The first line was joined to an event that named the instance (`_with_partner`).
        fitting = [record for record in of_code if same(record.gi, ids[0])]
    return max(fitting, key=lambda record: record.last_seen, default=None)


def _joined_to(signal: Signal, earlier: XidRecord) -> Signal:
    """Return a further line of an error with what the lines before it said.

    The first line says what happened, the last one whose channel it was.
    """
    known = signal.pid is not None
    partner = signal.partner or Partner(0)
    return msgspec.structs.replace(
        signal,
        partner=msgspec.structs.replace(partner, gi=earlier.gi, ci=earlier.ci),
        message=earlier.message or signal.message,
        pid=signal.pid if known else earlier.pid,
        process=signal.process if known else earlier.process,
    )


def _target(signal: Signal, earlier: XidRecord | None, layout: Layout) -> Key:
    if layout.mig is False:
        return Key(signal.code, None, None, None)
    partner = signal.partner or Partner(0)
    gi = signal.gi if signal.gi is not None else partner.gi
    ci = signal.ci if signal.ci is not None else partner.ci
    # Where it was when its first source named the instance.
    before = earlier.placement if earlier is not None and earlier.gi == gi else None
    return Key(signal.code, gi, ci, before or layout.placement(gi))


def _record(signal: Signal, key: Key, epoch: int, layout: Layout) -> XidRecord:
    live = layout.instance(key.gi)
    return XidRecord(
        code=signal.code,
        count=0,
        first_seen=signal.at,
        last_seen=signal.at,
        epoch=epoch,
        gi=key.gi,
        ci=key.ci,
        mig_mode=mig_mode(layout.mig),
        gi_profile_id=live.gi_profile_id if live and key.gi is not None else None,
        placement=key.placement,
        reset_request=reset_request(at_once=signal.reset, after_drain=signal.drain_reset),
        pid=signal.pid,
        process=signal.process,
        message=signal.message,
        caused_by=signal.caused_by,
        sources=(signal.source,),
        event_at=signal.at if signal.source in _EVENTS else None,
    )


def _merged(
    old: XidRecord, new: XidRecord, *, more: int, none_at: datetime | None = None
) -> XidRecord:
    worded = new if new.message or new.pid is not None else old
    epoch = max(old.epoch, new.epoch)
    earlier, later = sorted((old, new), key=lambda record: record.last_seen)
    # A new epoch began with a reset: what older lines requested, and their cause, are over. So they
    # are once the driver has answered that it requests nothing: it may show no reset at all.
    answered = none_at is not None and (
        min(none_at, later.last_seen) - earlier.last_seen > ANSWERED_AFTER
    )
    lately = [
        record
        for record in (new, old)
        if record.epoch == epoch and not (answered and record is earlier)
    ]
    return msgspec.structs.replace(
        old,
        count=old.count + more,
        first_seen=min(old.first_seen, new.first_seen),
        last_seen=max(old.last_seen, new.last_seen),
        epoch=epoch,
        mig_mode=earlier.mig_mode if later.mig_mode == UNKNOWN else later.mig_mode,
        gi_profile_id=old.gi_profile_id if new.gi_profile_id is None else new.gi_profile_id,
        reset_request=worst_request(record.reset_request for record in lately),
        pid=worded.pid,
        process=worded.process,
        message=worded.message,
        caused_by=next(
            (record.caused_by for record in lately if record.caused_by is not None), None
        ),
        rate_limited=old.rate_limited or new.rate_limited,
        sources=tuple(sorted({*old.sources, *new.sources})),
        event_at=max((at for at in (old.event_at, new.event_at) if at is not None), default=None),
    )


def _take_one(by_key: dict[Key, XidRecord], record: XidRecord) -> None:
    key = key_of(record)
    if record.count <= 1:
        del by_key[key]
        return
    # What is left is no younger than it was. Of two in a row only the first sighting is known.
    last = record.previous_seen if record.count > 2 and record.previous_seen else record.first_seen
    by_key[key] = msgspec.structs.replace(
        record,
        count=record.count - 1,
        last_seen=last,
        epoch=record.previous_epoch or record.epoch,
        previous_seen=None,
        previous_epoch=None,
    )


def _sorted(by_key: dict[Key, XidRecord]) -> tuple[XidRecord, ...]:
    def order(key: Key) -> tuple[int, ...]:
        place = (key.placement.start, key.placement.size) if key.placement else (-1, -1)
        return key.code, -1 if key.gi is None else key.gi, -1 if key.ci is None else key.ci, *place

    return tuple(by_key[key] for key in sorted(by_key, key=order))
