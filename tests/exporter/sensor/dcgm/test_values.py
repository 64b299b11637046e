"""What an answer of DCGM tells, and what it does not."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.sensor.dcgm.abi import FP64_BLANK, INT32_BLANK, INT64_BLANK, Kind, Status
from exporter.sensor.dcgm.entities import Place, link_entity, makes_links
from exporter.sensor.dcgm.reading import (
    all_blank,
    entities_of,
    never_watched,
    not_watched,
    signals_of,
)
from exporter.sensor.dcgm.values import Answer, Entity, value_of

GPU: Entity = (Kind.GPU, 0)
GI: Entity = (Kind.GPU_INSTANCE, 3)
PLACES: dict[Entity, Place] = {
    GPU: Place("GPU-a", "0000:18:00.0"),
    GI: Place("GPU-a", "0000:18:00.0", gi=11),
}

answers = st.builds(
    Answer,
    entity=st.sampled_from((GPU, GI, (Kind.GPU, 9), (0, 0))),
    field=st.integers(0, 65535),
    status=st.sampled_from((0, 0, 0, -14, -16, -18, 7)),
    type=st.sampled_from(("i", "d", "s", "t", "b", "", "x")),
    at=st.integers(-(2**63), 2**63 - 1),
    raw=st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.binary(max_size=256),
)


def answer(
    raw: float | bytes | None,
    kind: str = "i",
    status: int = 0,
    *,
    entity: Entity = GPU,
    field: int = 230,
    at: int = 0,
) -> Answer:
    return Answer(entity, field, status, kind, at, raw)


@pytest.mark.parametrize("why", range(4))
def test_a_blank_of_every_type_is_no_value(why: int) -> None:
    text = (b"<<<NULL>>>", b"<<<NOT_FOUND>>>", b"<<<NOT_SUPPORTED>>>", b"<<<NOT_PERM>>>")[why]
    assert value_of(answer(INT64_BLANK + why)) is None
    assert value_of(answer(INT32_BLANK + why)) is None
    assert value_of(answer(FP64_BLANK + why, "d")) is None
    assert value_of(answer(text, "s")) is None
    assert value_of(answer(INT64_BLANK + why, "t")) is None


def test_what_is_close_to_a_blank_is_a_value() -> None:
    assert value_of(answer(INT64_BLANK - 1)) == INT64_BLANK - 1
    assert value_of(answer(INT32_BLANK - 1)) == INT32_BLANK - 1
    assert value_of(answer(2**31)) == 2**31
    assert value_of(answer(FP64_BLANK - 1.0, "d")) == FP64_BLANK - 1.0
    assert value_of(answer(b"<<< a name", "s")) == "<<< a name"
    assert value_of(answer(0)) == 0
    assert value_of(answer(0.0, "d")) == 0.0


@given(answers)
def test_a_value_is_never_a_blank_and_never_comes_with_another_status(reading: Answer) -> None:
    value = value_of(reading)
    if value is None:
        return
    assert reading.status == Status.OK
    if isinstance(value, float):
        assert math.isfinite(value)
        assert value < FP64_BLANK
    elif isinstance(value, int):
        assert value < INT64_BLANK
    else:
        assert value
        value.encode()


@given(st.lists(answers, max_size=30))
def test_hostile_answers_make_readings_and_signals_of_known_entities_only(
    many: list[Answer],
) -> None:
    reported = entities_of(many, PLACES, frozenset(answer.field for answer in many))
    assert {(entity.uuid, entity.gi) for entity in reported} <= {("GPU-a", None), ("GPU-a", 11)}
    assert all(entity.values for entity in reported)
    received = signals_of(many, PLACES)
    assert all(0 < signal.code <= 0xFFFFFFFF for signal in received)
    assert [signal.at for signal in received] == sorted(signal.at for signal in received)


def test_xids_are_reported_oldest_first_with_their_time_and_their_instance() -> None:
    at = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp() * 1_000_000)
    received = signals_of(
        [
            answer(94, entity=GI, at=at + 2),
            answer(48, at=at + 1),
            answer(48, at=at),
            answer(INT64_BLANK, at=at),
            answer(0, at=at),
            answer(31, status=-14, at=at),
        ],
        PLACES,
    )
    assert [(signal.code, signal.gi) for signal in received] == [(48, None), (48, None), (94, 11)]
    assert received[0].at == datetime(2026, 1, 5, tzinfo=UTC)


def test_only_what_is_requested_is_reported_and_the_last_xid() -> None:
    many = [answer(31, field=150), answer(5, field=190), answer(48)]
    (reported,) = entities_of(many, PLACES, frozenset({150}))
    assert reported.values == {150: 31, 230: 48}


def test_gpus_are_blank_when_none_of_them_says_anything() -> None:
    blank = answer(INT64_BLANK, field=150)
    other = answer(INT64_BLANK, field=150, entity=(Kind.GPU, 1))
    assert all_blank([blank, other])
    assert not all_blank([blank, answer(31, field=150, entity=(Kind.GPU, 1))])
    assert all_blank([blank, answer(48), answer(5, entity=GI, field=252)])
    # A lost GPU and one whose watches are gone say nothing about the engine.
    assert not all_blank([answer(INT64_BLANK, status=-18, field=150)])
    assert not all_blank([answer(INT64_BLANK, status=-16, field=150)])
    assert not all_blank([])


def test_what_is_not_watched_any_more_is_named() -> None:
    many = [answer(1, status=-16, field=150), answer(1, status=-14, field=155)]
    assert not_watched(many) == {(GPU, 150)}
    # An entity that tells nothing at all is away; it is not its fields that are unknown.
    assert never_watched(many) == {(GPU, 150)}
    assert never_watched(many[:1]) == frozenset()


def test_a_link_is_named_by_its_gpu_and_its_number() -> None:
    assert link_entity(0, 0) == 0x00000001
    assert link_entity(3, 17) == 0x03001101


@pytest.mark.parametrize(
    ("version", "takes"),
    [
        ("4.4.0", True),
        ("4.6.0", True),
        ("10.0", True),
        ("4.3.9", False),
        ("3.9", False),
        ("", False),
    ],
)
def test_only_engines_since_4_4_take_that_name(version: str, takes: bool) -> None:
    assert makes_links(version) is takes
