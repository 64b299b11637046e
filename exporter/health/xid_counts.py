"""One more XID into the records of one GPU.

A record is one code on one instance (or on none). Two witnesses of one error
are one count; when the second one names the slice, the count moves from the
record without instance to the slice's, so that no doubt is left behind.
Pure: signals carry their time and, from `pairing`, their partner.
"""

import msgspec

from exporter.health.severity import keep_last
from exporter.report import GpuHealth, XidRecord
from exporter.signals import Partner, Signal

MAX_RECORDS = 256
"""Records kept per GPU; beyond, the least severe go, and of those the rarest and oldest."""

_Key = tuple[int, int | None, int | None]


def counted(
    records: tuple[XidRecord, ...], signal: Signal, *, epoch: int, mig: bool | None
) -> tuple[XidRecord, ...]:
    """Return the records after one signal of a kind in `signals.ERRORS`.

    Where MIG is off instance ids mean nothing (some libraries send zeros) and
    are dropped.
    """
    by_key: dict[_Key, XidRecord] = {(one.code, one.gi, one.ci): one for one in records}
    target = _target(signal, mig=mig)
    partner_key = _key(signal.code, signal.partner, mig=mig) if signal.partner else None
    told = by_key.get(partner_key) if partner_key else None
    seen = _record(signal, target, epoch)
    if told is not None and partner_key != target:
        # The count moves; what the first source knew of the process moves along.
        seen = _merged(_latest(told, target), seen, more=0)
        _take_one(by_key, told)
    more = 0 if told is not None and partner_key == target else signal.times
    old = by_key.get(target)
    by_key[target] = (
        msgspec.structs.replace(seen, count=signal.times)
        if old is None
        else (_merged(old, seen, more=more))
    )
    return tuple(by_key[key] for key in sorted(by_key, key=_order))


def rate_limited(records: tuple[XidRecord, ...], code: int) -> tuple[XidRecord, ...]:
    """Return the records after the driver said that it leaves out lines of a code.

    Without a record of that code there is nothing to doubt.
    """
    return tuple(
        msgspec.structs.replace(one, rate_limited=True) if one.code == code else one
        for one in records
    )


def joined(records: tuple[XidRecord, ...], others: tuple[XidRecord, ...]) -> tuple[XidRecord, ...]:
    """Return the records of one GPU that was known under two names."""
    by_key: dict[_Key, XidRecord] = {(one.code, one.gi, one.ci): one for one in records}
    for other in others:
        key = (other.code, other.gi, other.ci)
        old = by_key.get(key)
        by_key[key] = other if old is None else _merged(old, other, more=other.count)
    return tuple(by_key[key] for key in sorted(by_key, key=_order))


def with_records(gpu: GpuHealth, records: tuple[XidRecord, ...]) -> GpuHealth:
    """Return the entry with these records, as many as there is room for."""
    over = len(records) - MAX_RECORDS
    if over <= 0:
        return msgspec.structs.replace(gpu, xids=records)
    going = {id(one) for one in sorted(records, key=keep_last)[:over]}
    kept = tuple(one for one in records if id(one) not in going)
    return msgspec.structs.replace(gpu, xids=kept, xids_dropped=gpu.xids_dropped + over)


def _target(signal: Signal, *, mig: bool | None) -> _Key:
    partner = signal.partner or Partner(0)
    gi = signal.gi if signal.gi is not None else partner.gi
    ci = signal.ci if signal.ci is not None else partner.ci
    return _key(signal.code, Partner(0, gi, ci), mig=mig)


def _key(code: int, instance: Partner, *, mig: bool | None) -> _Key:
    return (code, None, None) if mig is False else (code, instance.gi, instance.ci)


def _record(signal: Signal, key: _Key, epoch: int) -> XidRecord:
    return XidRecord(
        code=signal.code,
        count=0,
        first_seen=signal.at,
        last_seen=signal.at,
        epoch=epoch,
        gi=key[1],
        ci=key[2],
        reset=signal.reset,
        drain_reset=signal.drain_reset,
        pid=signal.pid,
        process=signal.process,
        message=signal.message,
        caused_by=signal.caused_by,
        sources=(signal.source,),
    )


def _merged(old: XidRecord, new: XidRecord, *, more: int) -> XidRecord:
    spoken = new if new.message or new.pid is not None else old
    epoch = max(old.epoch, new.epoch)
    # A new epoch began with a reset: what older lines asked for, and their cause, are over.
    lately = [record for record in (new, old) if record.epoch == epoch]
    return msgspec.structs.replace(
        old,
        count=old.count + more,
        first_seen=min(old.first_seen, new.first_seen),
        last_seen=max(old.last_seen, new.last_seen),
        epoch=epoch,
        reset=_worst(*(record.reset for record in lately)),
        drain_reset=_worst(*(record.drain_reset for record in lately)),
        pid=spoken.pid,
        process=spoken.process,
        message=spoken.message,
        caused_by=next(
            (record.caused_by for record in lately if record.caused_by is not None), None
        ),
        rate_limited=_worst(old.rate_limited, new.rate_limited),
        sources=tuple(sorted({*old.sources, *new.sources})),
    )


def _latest(record: XidRecord, key: _Key) -> XidRecord:
    """Return the last sighting of a record as one of another instance, not counted yet."""
    first = record.first_seen if record.count <= 1 else record.last_seen
    return msgspec.structs.replace(record, gi=key[1], ci=key[2], count=0, first_seen=first)


def _take_one(by_key: dict[_Key, XidRecord], record: XidRecord) -> None:
    key = (record.code, record.gi, record.ci)
    if record.count <= 1:
        del by_key[key]
        return
    # Of two the first one is left, and it is no younger than it was.
    last = record.first_seen if record.count == 2 else record.last_seen
    by_key[key] = msgspec.structs.replace(record, count=record.count - 1, last_seen=last)


def _worst(*said: bool | None) -> bool | None:
    known = [one for one in said if one is not None]
    return any(known) if known else None


def _order(key: _Key) -> tuple[int, int, int]:
    code, gi, ci = key
    return code, -1 if gi is None else gi, -1 if ci is None else ci
