"""The binary interface, against what DCGM's own headers assert of it."""

from ctypes import Structure, sizeof

import pytest

from exporter.sensor.dcgm import abi, link_states
from exporter.sensor.dcgm.error import DcgmError, name_of


@pytest.mark.parametrize(
    ("word", "asserted"),
    [
        (abi.CONNECT_PARAMS_VERSION, 0x02000010),
        (abi.VERSION_INFO_VERSION, 0x02000204),
        (abi.DEVICE_ATTRIBUTES_VERSION, 0x03001464),
        # Asserted of version 3, which has 64 links for each of 12 switches in place of 256.
        (link_states.VERSION - (1 << 24) - 12 * (256 - 64) * 4, 0x030015BC),
    ],
)
def test_version_words_are_those_that_dcgm_asserts(word: int, asserted: int) -> None:
    # DCGM_CASSERT lines of dcgm_structs_internal.h, 4.x.
    assert word == asserted


def test_sizes_that_dcgm_asserts_for_other_versions_of_a_struct_hold() -> None:
    # dcgmHealthResponse_version4 is 0x0401050C and differs in the number of incidents alone: 64.
    assert sizeof(abi.HealthResponse) - (abi.MAX_ENTITIES - 64) * sizeof(abi.Incident) == 0x1050C
    assert 5 << 24 | sizeof(abi.HealthResponse) == abi.HEALTH_RESPONSE_VERSION
    # dcgmInjectFieldValue_version1 is 0x1001018, with the members of a value of the history.
    assert sizeof(abi.FieldValueV1) == 0x1018


@pytest.mark.parametrize(
    ("struct", "offsets"),
    [
        (abi.FieldValueV1, {"field_id": 4, "field_type": 6, "status": 8, "ts": 16, "value": 24}),
        (
            abi.FieldValueV2,
            {"entity_id": 8, "field_id": 12, "status": 16, "unused": 20, "ts": 24, "value": 32},
        ),
        (abi.MigHierarchyEntry, {"parent": 8, "info": 16}),
        (abi.MigEntityInfo, {"nvml_gpu_index": 128, "nvml_compute_instance_id": 136}),
        (abi.DeviceAttributes, {"clocks": 4, "thermals": 3084, "identifiers": 3120}),
        (abi.DeviceIdentifiers, {"pci_bus_id": 516, "uuid": 1028, "pci_device_id": 1796}),
        (
            link_states.LinkStates,
            {"gpu_count": 4, "gpus": 8, "switch_count": 2440, "switches": 2444},
        ),
        (abi.HealthSetParams, {"group": 8, "systems": 16, "update_interval": 24}),
        (abi.Incident, {"health": 4, "error": 8, "entity": 1036}),
    ],
)
def test_members_stand_where_the_compiler_puts_them(
    struct: type[Structure], offsets: dict[str, int]
) -> None:
    assert {name: getattr(struct, name).offset for name in offsets} == offsets


def test_every_handle_and_group_is_as_wide_as_a_pointer() -> None:
    for name, types in abi.SIGNATURES.items():
        of_no_engine = ("dcgmInit", "dcgmStartEmbedded", "dcgmConnect_v2")
        if name not in of_no_engine and not name.startswith("dcgmErrorGet"):
            assert sizeof(types[0]) == 8, name
    assert sizeof(abi.SIGNATURES["dcgmWatchFields"][2]) == 8


def test_a_status_is_named_as_in_the_headers_and_an_unknown_one_by_number() -> None:
    assert name_of(-33) == "DCGM_ST_MODULE_NOT_LOADED (-33)"
    assert name_of(-57) == "DCGM_ST_NVML_DRIVER_TIMEOUT (-57)"
    assert name_of(-77) == "status -77"


def test_an_error_says_what_failed_why_and_what_to_do() -> None:
    lost = DcgmError("dcgmUpdateAllFields", -21)
    assert (lost.reason, lost.lost) == ("ConnectionLost", True)
    assert str(lost).startswith("dcgmUpdateAllFields: DCGM_ST_CONNECTION_NOT_VALID (-21); ")
    unreachable = DcgmError("dcgmConnect_v2", -21)
    assert (unreachable.reason, unreachable.lost) == ("EngineUnreachable", False)
    assert DcgmError("dcgmWatchFields", -99).reason == "EngineRefused"
