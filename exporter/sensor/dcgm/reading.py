"""Answers of DCGM as `exporter.model.readings` and `signals`. Pure."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from exporter.model.readings import DcgmEntity, DcgmGpu, DcgmPart, Values
from exporter.model.signals import Signal
from exporter.sensor.dcgm.abi import Kind, Status
from exporter.sensor.dcgm.entities import Place
from exporter.sensor.dcgm.requested_fields import NAME, XID
from exporter.sensor.dcgm.values import Answer, Entity, is_gone, value_of
from kubeapi.types import LATEST

_PROFILE = re.compile(r"(?:\d+c\.)?\d+g\.\d+gb(?:[+.-][a-z0-9.+-]+)?")
"""Name of a MIG instance; an engine that knows none may give the product's."""
_LARGEST_CODE = 0xFFFFFFFF
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (LATEST - _EPOCH) // timedelta(microseconds=1)
"""Microseconds to the last date that a report may say."""


def entities_of(
    answers: Iterable[Answer], places: dict[Entity, Place], desired: frozenset[int]
) -> tuple[DcgmEntity, ...]:
    """Return what answers tell of each entity, in NVML's terms."""
    values: dict[Entity, Values] = {}
    for answer in answers:
        value = value_of(answer)
        if value is not None and (answer.field in desired or answer.field == XID):
            values.setdefault(answer.entity, {})[answer.field] = value
    return tuple(
        DcgmEntity(
            uuid=place.uuid, gi=place.gi, ci=place.ci, link=place.link, values=values[entity]
        )
        for entity, place in places.items()
        if entity in values
    )


def identities_of(answers: Iterable[Answer], places: dict[Entity, Place]) -> tuple[DcgmGpu, ...]:
    """Return who the GPUs and their MIG instances are, by the number that DCGM gives a GPU."""
    names = {answer.entity: value_of(answer) for answer in answers if answer.field == NAME}
    parts: dict[str, list[DcgmPart]] = {}
    for entity, place in places.items():
        if place.gi is not None:
            profile = names.get(entity)
            shown = profile if isinstance(profile, str) and _PROFILE.fullmatch(profile) else ""
            parts.setdefault(place.uuid, []).append(DcgmPart(place.gi, place.ci, shown))
    return tuple(
        DcgmGpu(
            id=number,
            uuid=place.uuid,
            bus_id=place.bus_id,
            product=place.product,
            parts=tuple(parts.get(place.uuid, ())),
        )
        for (kind, number), place in sorted(places.items())
        if kind == Kind.GPU
    )


def signals_of(answers: Iterable[Answer], places: dict[Entity, Place]) -> list[Signal]:
    """Return the XIDs of a history as news, oldest first; equal ones in a row are all reported."""
    signals: list[Signal] = []
    for answer in sorted(answers, key=lambda answer: answer.at):
        code, place = value_of(answer), places.get(answer.entity)
        if isinstance(code, int) and 0 < code <= _LARGEST_CODE and place is not None:
            signals.append(
                Signal(
                    kind="xid",
                    source="dcgm",
                    at=_EPOCH + timedelta(microseconds=min(max(answer.at, 0), _LAST)),
                    uuid=place.uuid,
                    bus_id=place.bus_id,
                    code=code,
                    gi=place.gi,
                    ci=place.ci,
                )
            )
    return signals


def not_watched(answers: Iterable[Answer]) -> frozenset[tuple[Entity, int]]:
    """Return which fields of which entities nobody reads (any more)."""
    return frozenset((answer.entity, answer.field) for answer in answers if is_gone(answer))


def never_watched(answers: Sequence[Answer]) -> frozenset[tuple[Entity, int]]:
    """Return the fields that an entity lacks while it tells others.

    One that tells none was away for a moment, and is no such case.
    """
    telling = {answer.entity for answer in answers if not is_gone(answer)}
    return frozenset(pair for pair in not_watched(answers) if pair[0] in telling)


def all_blank(answers: Iterable[Answer]) -> bool:
    """Say whether GPUs were read and none of them reported anything; a lost GPU is not queried."""
    read = [
        answer
        for answer in answers
        if answer.entity[0] == Kind.GPU
        and answer.field != XID
        and answer.status != Status.GPU_IS_LOST
        and not is_gone(answer)
    ]
    return bool(read) and all(value_of(answer) is None for answer in read)
