"""What DCGM tells of GPUs and instances, through the real child over a simulated libdcgm."""

import time

import pytest

from exporter.model.readings import DcgmReading
from exporter.sensor.dcgm.requested_fields import LINK_FIELDS, PROFILING
from simulator import dcgm_fields
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from simulator.product import SHORT_NAMES
from tests.exporter.sensor.dcgm.running import (
    REQUESTED,
    TEMPERATURE,
    XID,
    Supervised,
    listening,
    simulated,
    uuid,
    values,
)

POWER, MEMORY_USED = 155, 252
TENSOR, NOT_ON_HOPPER, NOWHERE = 1004, 1040, 9999
FIRST, SECOND, MIG = 0, 1, 2


@pytest.fixture
def dcgm(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> SimulatedDcgm:
    return simulated(node, monkeypatch)


@pytest.fixture
def tcp(dcgm: SimulatedDcgm) -> str:
    return listening(dcgm)


def test_gpus_and_instances_are_reported_in_the_ids_of_nvml(dcgm: SimulatedDcgm) -> None:
    gis = [instance.gi for instance in dcgm.node.gpu(MIG).instances]
    for entity, gi in enumerate(reversed(gis)):
        dcgm.number(MIG, gi, entity)
        dcgm.set_field(MIG, MEMORY_USED, 1000 + gi, gi=gi)
    with Supervised(dcgm) as seen:
        reading = seen.reading()
    assert reading.version == "4.6.0"
    assert values(reading, uuid(dcgm, FIRST)) == {TEMPERATURE: 31, POWER: 72.0, MEMORY_USED: 0}
    reported = {
        entity.gi: entity.values[MEMORY_USED]
        for entity in reading.entities
        if entity.gi is not None
    }
    assert reported == {gi: 1000 + gi for gi in gis}


def test_each_gpu_is_named_as_dcgm_names_it_with_the_profiles_of_its_instances(
    dcgm: SimulatedDcgm,
) -> None:
    with Supervised(dcgm) as seen:
        reading = seen.reading()
    boards = [dcgm.node.gpu(number) for number in (FIRST, SECOND, MIG)]
    reported = [(gpu.id, gpu.uuid, gpu.bus_id, gpu.product) for gpu in reading.identities]
    products = [board.product.name for board in boards]
    assert reported == [
        (number, board.uuid, board.pci, product)
        for number, (board, product) in enumerate(zip(boards, products, strict=True))
    ]
    parts = reading.identities[MIG].parts
    assert {(part.gi, part.profile) for part in parts if part.ci is None} == {
        (instance.gi, instance.profile.name) for instance in boards[MIG].instances
    }
    assert {(part.gi, part.ci) for part in parts if part.ci is not None} == {
        (instance.gi, instance.ci) for instance in boards[MIG].instances
    }
    assert reading.identities[FIRST].parts == ()


def test_two_equal_xids_in_a_row_are_two(dcgm: SimulatedDcgm) -> None:
    with Supervised(dcgm) as seen:
        seen.reading()
        for code in (31, 48, 48):
            dcgm.node.inject_xid(FIRST, code)
        received = seen.received(3)
        last = seen.reading(lambda reading: XID in values(reading, uuid(dcgm, FIRST)))
    assert [signal.code for signal in received] == [31, 48, 48]
    assert {signal.uuid for signal in received} == {uuid(dcgm, FIRST)}
    assert {signal.bus_id for signal in received} == {dcgm.node.gpu(FIRST).pci}
    assert {(signal.kind, signal.source) for signal in received} == {("xid", "dcgm")}
    assert values(last, uuid(dcgm, FIRST))[XID] == 48
    assert XID not in values(last, uuid(dcgm, SECOND))


def test_an_xid_of_an_instance_is_its_own_and_not_the_gpus(dcgm: SimulatedDcgm) -> None:
    gi = dcgm.node.gpu(MIG).instances[-1].gi
    dcgm.number(MIG, gi, 0)
    with Supervised(dcgm) as seen:
        seen.reading()
        dcgm.node.inject_xid(MIG, 94, gi=gi, ci=0)
        (received,) = seen.received(1)
        reading = seen.reading()
    assert (received.uuid, received.gi, received.ci, received.code) == (uuid(dcgm, MIG), gi, 0, 94)
    assert values(reading, uuid(dcgm, MIG), gi, 0)[XID] == 94
    assert XID not in values(reading, uuid(dcgm, MIG))


def test_what_an_engine_remembers_of_the_time_before_is_no_news(
    dcgm: SimulatedDcgm, tcp: str
) -> None:
    with Supervised(dcgm, tcp) as first:
        first.reading()
        dcgm.node.inject_xid(FIRST, 31)
        assert [signal.code for signal in first.received(1)] == [31]
    with Supervised(dcgm, tcp) as second:
        second.reading()
        dcgm.node.inject_xid(FIRST, 63)
        assert [signal.code for signal in second.received(1)] == [63]


def test_xids_are_not_lost_while_what_is_watched_is_watched_anew(dcgm: SimulatedDcgm) -> None:
    with Supervised(dcgm) as seen:
        seen.reading()
        dcgm.fail("slow=100", call="dcgmGroupCreate")
        for code in range(40, 60):
            dcgm.node.inject_xid(FIRST, code)
            seen.requested = (TEMPERATURE, 100 + code % 2)
            # So that some of them fall into the time in which groups are made.
            time.sleep(0.04)
        assert [signal.code for signal in seen.received(20)] == list(range(40, 60))


def test_a_field_that_is_requested_later_is_reported_and_one_that_is_not_any_more_is_not(
    dcgm: SimulatedDcgm,
) -> None:
    with Supervised(dcgm, "embedded", POWER) as seen:
        assert values(seen.reading(), uuid(dcgm, FIRST)) == {POWER: 72.0}
        seen.requested = (MEMORY_USED,)
        reading = seen.reading(lambda state: MEMORY_USED in values(state, uuid(dcgm, FIRST)))
    assert values(reading, uuid(dcgm, FIRST)) == {MEMORY_USED: 0}


@pytest.mark.parametrize("bad", [NOT_ON_HOPPER, NOWHERE])
def test_a_field_that_cannot_be_watched_costs_that_field_alone(
    dcgm: SimulatedDcgm, bad: int
) -> None:
    good = (*REQUESTED, *range(1001, 1013))
    with Supervised(dcgm, "embedded", *good, bad) as seen:
        reading = seen.reading()
    assert reading.unsupported == (bad,)
    assert set(values(reading, uuid(dcgm, FIRST))) == set(good)
    assert TENSOR in values(reading, uuid(dcgm, MIG), dcgm.node.gpu(MIG).instances[0].gi)


def test_without_a_profiling_module_the_other_fields_are_reported(dcgm: SimulatedDcgm) -> None:
    dcgm.set_profiling(())
    with Supervised(dcgm, "embedded", *REQUESTED, 1001, 1002, TENSOR) as seen:
        reading = seen.reading()
    assert reading.unsupported == (1001, 1002, TENSOR)
    assert set(values(reading, uuid(dcgm, FIRST))) == set(REQUESTED)


def test_what_one_product_cannot_tell_another_may(dcgm: SimulatedDcgm) -> None:
    scenario = dcgm.node.scenario.load()
    scenario.gpus[SECOND].product = SHORT_NAMES["A100"]
    dcgm.node.scenario.save(scenario)
    dcgm.set_profiling((1001,), gpu=SECOND)
    with Supervised(dcgm, "embedded", 1001, TENSOR) as seen:
        reading = seen.reading()
    assert reading.unsupported == ()
    assert set(values(reading, uuid(dcgm, FIRST))) == {1001, TENSOR}
    assert set(values(reading, uuid(dcgm, SECOND))) == {1001}


def test_more_fields_than_one_group_holds_are_all_reported(dcgm: SimulatedDcgm) -> None:
    counters = [
        field.id
        for field in dcgm_fields.fields()
        if (field.type, field.level) == ("i", dcgm_fields.GPU) and field.id not in (XID, *PROFILING)
    ][:200]
    assert len(counters) > 128
    assert not set(counters) & LINK_FIELDS
    for field in counters:
        dcgm.set_field(SECOND, field, field)
    with Supervised(dcgm, "embedded", *counters, 54) as seen:
        reported = values(seen.reading(), uuid(dcgm, SECOND))
    assert reported == {field: field for field in counters} | {54: uuid(dcgm, SECOND)}


@pytest.mark.parametrize("blank", ["blank", "not_found", "not_supported", "not_permitted"])
def test_a_blank_with_status_0_is_no_value(dcgm: SimulatedDcgm, blank: str) -> None:
    for field in (TEMPERATURE, POWER, 54):
        dcgm.set_field(FIRST, field, blank)
    with Supervised(dcgm, "embedded", *REQUESTED, 54) as seen:
        reading = seen.reading()
    assert values(reading, uuid(dcgm, FIRST)) == {MEMORY_USED: 0}
    assert values(reading, uuid(dcgm, SECOND))[54] == uuid(dcgm, SECOND)


def test_a_gpu_that_the_driver_let_go_is_named_and_watched_again_when_it_is_back(
    dcgm: SimulatedDcgm,
) -> None:
    with Supervised(dcgm) as seen:
        seen.reading()
        dcgm.detach(FIRST)
        without = seen.reading(lambda reading: reading.detached)
        dcgm.attach(FIRST)
        back = seen.reading(lambda reading: not reading.detached)
        dcgm.node.inject_xid(FIRST, 31)
        assert [signal.code for signal in seen.received(1)] == [31]
        assert len([state for state in seen.states if not state.source.up]) == 0
    assert without.detached == (uuid(dcgm, FIRST),)
    assert values(without, uuid(dcgm, FIRST)) == {}
    assert values(without, uuid(dcgm, SECOND))[TEMPERATURE] == 31
    assert values(back, uuid(dcgm, FIRST))[TEMPERATURE] == 31


def test_a_gpu_that_was_unbound_and_bound_between_two_samples_is_watched_again(
    dcgm: SimulatedDcgm,
) -> None:
    def whole(reading: DcgmReading) -> bool:
        return set(values(reading, uuid(dcgm, FIRST))) >= set(REQUESTED)

    with Supervised(dcgm) as seen:
        seen.reading(whole)
        dcgm.attach(FIRST)
        for _ in range(3):
            reading = seen.reading()
            assert whole(reading)
        dcgm.node.inject_xid(FIRST, 31)
        assert [signal.code for signal in seen.received(1)] == [31]


def test_a_field_that_stays_unwatched_is_left_alone(dcgm: SimulatedDcgm) -> None:
    dcgm.set_field(FIRST, POWER, "error=-16")
    with Supervised(dcgm) as seen:
        seen.reading()
        # Watching anew from now on would be the end.
        dcgm.fail("error=-24", call="dcgmGroupCreate")
        for _ in range(3):
            assert values(seen.reading(), uuid(dcgm, FIRST)) == {TEMPERATURE: 31, MEMORY_USED: 0}


def test_instances_that_come_and_go_are_followed(dcgm: SimulatedDcgm) -> None:
    scenario = dcgm.node.scenario.load()
    gone, *kept = scenario.gpus[MIG].instances

    def gis(reading: DcgmReading) -> set[int]:
        return {entity.gi for entity in reading.entities if entity.gi is not None}

    with Supervised(dcgm) as seen:
        assert gis(seen.reading()) == {gone.gi, *(instance.gi for instance in kept)}
        scenario.gpus[MIG].instances = kept
        dcgm.node.scenario.save(scenario)
        seen.reading(lambda state: gis(state) == {instance.gi for instance in kept})
        scenario.gpus[MIG].instances = [gone, *kept]
        dcgm.node.scenario.save(scenario)
        seen.reading(lambda state: gone.gi in gis(state))
        dcgm.node.inject_xid(MIG, 94, gi=gone.gi, ci=0)
        (received,) = seen.received(1)
        assert all(state.source.reason in ("", "Starting") for state in seen.states)
    assert (received.gi, received.code) == (gone.gi, 94)


def test_instances_that_go_in_the_middle_of_a_sample_cost_nothing_else(
    dcgm: SimulatedDcgm,
) -> None:
    whole = dcgm.node.scenario.load()
    fewer = dcgm.node.scenario.load()
    fewer.gpus[MIG].instances = fewer.gpus[MIG].instances[3:]
    with Supervised(dcgm) as seen:
        seen.reading()
        # NVLinks are listed after instances: most of a sample is between that and the watch.
        dcgm.fail("slow=200", call="dcgmGetEntityGroupEntities")
        for number in range(12):
            dcgm.node.scenario.save(whole if number % 2 else fewer)
            time.sleep(0.17)
        dcgm.heal()
        gis = {instance.gi for instance in whole.gpus[MIG].instances}
        seen.reading(lambda reading: {part.gi for part in reading.entities} >= gis)
        assert all(state.source.reason in ("", "Starting") for state in seen.states)


def test_a_lost_gpu_leaves_the_others(dcgm: SimulatedDcgm) -> None:
    with Supervised(dcgm) as seen:
        seen.reading()
        dcgm.node.lose(FIRST)
        reading = seen.reading(lambda state: not values(state, uuid(dcgm, FIRST)))
    assert values(reading, uuid(dcgm, SECOND))[TEMPERATURE] == 31
