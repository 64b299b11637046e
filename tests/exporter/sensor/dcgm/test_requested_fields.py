"""Which field is read from where, what is left to DCGM, and what its health codes are called."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from exporter.metrics import families_link
from exporter.metrics.fields import by_id, table
from exporter.model.readings import LinkReading, MigReading, NvmlReading
from exporter.sensor.dcgm.abi import HEALTH_WATCH_ALL, MAX_FIELDS, Kind
from exporter.sensor.dcgm.entities import Place
from exporter.sensor.dcgm.groups import IncidentInfo
from exporter.sensor.dcgm.health import CODES, WATCHES, code_name, findings
from exporter.sensor.dcgm.requested_fields import (
    ALWAYS_THERE,
    CONNECTX_FIELDS,
    CORE_FIELDS,
    CPU_FIELDS,
    LINK_FIELDS,
    NAME,
    NODE_FIELDS,
    PROFILING,
    SWITCH_FIELDS,
    SWITCH_LINK_FIELDS,
    XID,
    batches,
    fields_for,
    fields_for_part,
    left_to_dcgm,
)
from tests.exporter.worlds import START, gpu

fields = st.lists(st.integers(1, 1600), max_size=400)


@given(fields)
def test_every_field_is_in_one_batch_and_profiling_is_apart(many: list[int]) -> None:
    requested = fields_for(Kind.GPU, many)
    parts = batches(requested)
    assert sorted(field for part in parts for field in part) == requested
    assert all(0 < len(part) <= MAX_FIELDS for part in parts)
    assert all(len({field in PROFILING for field in part}) == 1 for part in parts)


@given(fields)
def test_each_kind_of_entity_is_queried_for_what_it_can_report(many: list[int]) -> None:
    whole = set(fields_for(Kind.GPU, many))
    assert whole >= set(ALWAYS_THERE)
    assert set(fields_for(Kind.GPU_INSTANCE, many)) <= whole | {NAME}
    assert not whole & set(fields_for(Kind.LINK, many))
    assert fields_for(Kind.COMPUTE_INSTANCE, many) == []
    assert XID not in whole


def test_memory_and_profiling_are_queried_of_instances_and_temperature_is_not() -> None:
    assert fields_for(Kind.GPU_INSTANCE, (150, 252, 1004, XID)) == [NAME, 252, 1004]
    assert fields_for(Kind.LINK, (150, 585, 1532, 1533)) == [585, 1532, 1533]
    assert fields_for(Kind.GPU_INSTANCE, (1532, 1533)) == [NAME]
    assert fields_for(Kind.LINK, families_link.NEEDED) == [], "a page always wants these"


def test_profiling_is_what_the_table_of_fields_calls_so() -> None:
    assert {field.id for field in table().values() if field.profiling} <= PROFILING
    assert batches([585, 1532]) == [[585], [1532]]
    assert all(field.level == "link" for field in map(by_id, LINK_FIELDS) if field is not None)


def test_fields_of_no_gpu_are_what_the_table_says_and_are_queried_of_no_gpu() -> None:
    by_level: dict[str, set[int]] = {}
    for field in table().values():
        by_level.setdefault(field.level, set()).add(field.id)
    assert by_level["switch"] == SWITCH_FIELDS
    assert by_level["cpu"] == CPU_FIELDS
    assert by_level["core"] == CORE_FIELDS
    assert by_level["connectx"] == CONNECTX_FIELDS
    named = {field.id for field in table().values() if "NVSWITCH" in field.name}
    assert (by_level["link"] & named) == SWITCH_LINK_FIELDS
    assert not (NODE_FIELDS | CONNECTX_FIELDS) & set(fields_for(Kind.GPU, range(1600)))
    assert not NODE_FIELDS & set(fields_for(Kind.LINK, range(1600)))


def test_a_cpu_is_queried_for_what_its_cores_report() -> None:
    assert fields_for_part(Kind.CPU, (150, 858, 1100, 1110)) == [1100, 1110]
    assert fields_for_part(Kind.CPU_CORE, (1100, 1110)) == [1100]
    assert fields_for_part(Kind.LINK, (585, 780, 858)) == [780]


def test_a_field_of_links_is_left_to_dcgm_unless_nvml_tells_it_of_every_link() -> None:
    known = LinkReading(link=0, values={1529: 3})
    reading = NvmlReading(at=START, gpus=(gpu(1, values={150: 31}, links=(known,)),))
    assert left_to_dcgm((585, 1529), reading) == (585,)
    poor = LinkReading(link=1, values={})
    reading = NvmlReading(at=START, gpus=(gpu(1, values={150: 31}, links=(known, poor)),))
    assert left_to_dcgm((585, 1529), reading) == (585, 1529)


def test_what_nvml_tells_of_every_gpu_is_not_queried_twice() -> None:
    reported = gpu(1, values={150: 31, 1004: 0.5})
    unanswered = msgspec.structs.replace(gpu(2), values={})
    poor = gpu(3, values={150: 31})
    reading = NvmlReading(at=START, gpus=(reported, unanswered))
    assert left_to_dcgm((1004, 150, 999, XID), reading) == (999,)
    assert left_to_dcgm((150, 1004), NvmlReading(at=START, gpus=(reported, poor))) == (1004,)
    assert left_to_dcgm((150, 1004), None) == (150, 1004)
    assert left_to_dcgm((150,), NvmlReading(at=START, gpus=(unanswered,))) == (150,)


def test_a_field_that_an_instance_lacks_is_left_to_dcgm_where_dcgm_knows_instances() -> None:
    part = MigReading(uuid="MIG-1", gi=3, ci=0, values={252: 1})
    whole = gpu(1, mig=True, instances=(part,), values={150: 31, 252: 5, 1004: 0.5})
    reading = NvmlReading(at=START, gpus=(whole,))
    assert left_to_dcgm((150, 252, 1004), reading) == (1004,)


def test_the_watches_are_the_eleven_that_dcgm_exporter_shows() -> None:
    names = "PCIE NVLINK PMU MCU MEM SM INFOROM THERMAL POWER DRIVER ALL"
    assert " ".join(WATCHES.values()) == names
    assert WATCHES[HEALTH_WATCH_ALL] == "ALL"


def test_codes_have_the_numbers_of_dcgm() -> None:
    known = {4: "VOLATILE_DBE_DETECTED", 40: "THERMAL_VIOLATIONS", 81: "UNCONTAINED_ERROR"}
    known |= {98: "PCIE_H_REPLAY_VIOLATION", 101: "XID_ERROR", 110: "GFLOPS_THRESHOLD_VIOLATION"}
    known |= {116: "BROKEN_P2P_NVLINK_WRITER_DEVICE", 123: "FABRIC_PROBE_STATE"}
    assert {code: CODES[code] for code in known} == {
        code: f"DCGM_FR_{name}" for code, name in known.items()
    }
    assert len(set(CODES.values())) == len(CODES)
    assert code_name(120) == "DCGM_FR_FALLEN_OFF_BUS"
    assert sorted(CODES) == list(range(133))  # no gap
    assert code_name(424242) == "DCGM_FR_UNKNOWN(424242)"


def test_incidents_of_strangers_and_of_other_watches_are_left_out() -> None:
    known = (Kind.GPU, 0)
    reported = findings(
        [
            IncidentInfo(known, 0x80, 20, 40, "hot"),
            IncidentInfo(known, 0x400, 20, 15, "a switch"),
            IncidentInfo((Kind.SWITCH, 0), 0x80, 20, 40, "not ours"),
        ],
        {known: Place("GPU-a")},
    )
    assert [(finding.uuid, finding.watch, finding.message) for finding in reported] == [
        ("GPU-a", "THERMAL", "hot")
    ]
