"""The simulated libdcgm by plain ctypes: life cycle, entities, groups, readings, metadata."""

from collections.abc import Iterator

import pytest

from simulator import dcgm_build
from simulator.dcgm_engine import SimulatedDcgm
from simulator.gpu import Process
from simulator.node import SimulatedNode
from tests.simulator.dcgm_client import NOT_FOUND, NOT_SUPPORTED, DcgmClient, with_engine

BADPARAM, NOT_CONFIGURED, UNINITIALIZED, VER_MISMATCH, UNKNOWN_FIELD = -1, -5, -10, -12, -13
INSUFFICIENT_SIZE, CONNECTION_NOT_VALID, DUPLICATE_KEY, MAX_LIMIT = -31, -21, -26, -24
NOT_LISTED, NOT_LOADED = -6, -33


@pytest.fixture
def dcgm(node: SimulatedNode) -> SimulatedDcgm:
    return SimulatedDcgm(node)


@pytest.fixture
def client(dcgm: SimulatedDcgm) -> Iterator[DcgmClient]:
    with with_engine(dcgm) as client:
        yield client


def test_every_call_that_the_sources_define_is_exported_and_nothing_else(
    client: DcgmClient,
) -> None:
    names = sorted(dcgm_build.simulated_calls())
    assert len(names) > 50
    assert client.ask(f"[n for n in {names!r} if not hasattr(c.library, n)]") == []
    assert client.ask("hasattr(c.library, 'scenario_lock') or hasattr(c.library, 'begin')") is False


def test_a_call_before_init_and_after_shutdown_says_uninitialized(dcgm: SimulatedDcgm) -> None:
    with DcgmClient(dcgm) as client:
        assert client.error_of("embedded()") == UNINITIALIZED
        assert client.error_of("connect('127.0.0.1:5555')") == UNINITIALIZED
        client.ask("init()")
        client.ask("h = embedded()")
        assert client.ask("entities(h, 1)") == list(range(8))
        client.ask("raw('dcgmShutdown')")
        assert client.error_of("entities(h, 1)") == UNINITIALIZED
        assert client.error_of("raw('dcgmShutdown')") == UNINITIALIZED


def test_an_embedded_engine_starts_without_any_daemon_and_stops(client: DcgmClient) -> None:
    assert client.ask("h.value") == 0x7FFFFFFF
    client.ask("raw('dcgmStopEmbedded', h)")
    assert client.error_of("entities(h, 1)") == CONNECTION_NOT_VALID
    assert client.error_of("raw('dcgmStopEmbedded', h)") == UNINITIALIZED
    assert client.ask("entities(embedded(), 1)") == list(range(8))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_embedded_engine_takes_parameters_of_every_version(
    dcgm: SimulatedDcgm, number: int
) -> None:
    with DcgmClient(dcgm) as client:
        client.ask("init()")
        client.ask(f"h = embedded(struct='dcgmStartEmbeddedV2Params_v{number}')")
        assert client.ask("entities(h, 1)") == list(range(8))


def test_a_struct_of_another_version_is_refused(client: DcgmClient) -> None:
    client.ask("p = new('dcgmVersionInfo_v2')")
    client.ask("p.version += 1")
    assert client.error_of("raw('dcgmVersionInfo', byref(p))") == VER_MISMATCH
    client.ask("p = new('dcgmHealthResponse_v5')")
    client.ask("p.version = 4 << 24")
    assert client.error_of("raw('dcgmHealthCheck', h, 0x7fffffff, byref(p))") == VER_MISMATCH


def test_the_version_is_that_of_the_file(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    client.ask("v = new('dcgmVersionInfo_v2')")
    client.ask("raw('dcgmVersionInfo', byref(v))")
    assert client.ask("plain(v)")["rawBuildInfoString"].startswith("version:4.6.0;")
    with dcgm.file.edit() as sections:
        sections["engine"]["version"] = "4.5.2"
    client.ask("raw('dcgmHostengineVersionInfo', h, byref(v))")
    assert client.ask("plain(v)")["rawBuildInfoString"].startswith("version:4.5.2;")


def test_an_error_code_has_words(client: DcgmClient) -> None:
    client.ask("c.library.errorString.restype = ctypes.c_char_p")
    assert "connection" in client.ask("c.library.errorString(-21)")
    assert client.ask("c.library.errorString(-999)") is None


def test_gpus_and_instances_are_listed_but_no_links_and_no_cpus(client: DcgmClient) -> None:
    assert client.ask("entities(h, 1)") == list(range(8))
    assert len(client.ask("entities(h, 4)")) == 7
    assert len(client.ask("entities(h, 5)")) == 7
    assert client.error_of("entities(h, 6)") == NOT_LISTED
    assert client.error_of("entities(h, 7)") == NOT_LOADED
    client.ask("ids = (ctypes.c_uint * 32)()")
    client.ask("n = ctypes.c_int()")
    client.ask("raw('dcgmGetAllDevices', h, ids, byref(n))")
    assert client.ask("list(ids[:n.value])") == list(range(8))


def test_a_list_that_is_too_short_is_reported_with_the_length_it_needs(client: DcgmClient) -> None:
    client.ask("n = ctypes.c_int(3)")
    client.ask("ids = (ctypes.c_uint * 3)()")
    call = "raw('dcgmGetEntityGroupEntities', h, 1, ids, byref(n), 0)"
    assert client.error_of(call) == INSUFFICIENT_SIZE
    assert client.ask("n.value") == 8


def test_the_hierarchy_says_which_nvml_instance_an_entity_is(
    node: SimulatedNode, client: DcgmClient
) -> None:
    rows = client.ask("hierarchy(h)")
    gpu = node.gpu(0)
    assert len(rows) == 14
    assert rows[0]["entity"] == {"entityGroupId": 4, "entityId": 0}
    assert rows[0]["parent"] == {"entityGroupId": 1, "entityId": 0}
    assert rows[0]["info"] == {
        "gpuUuid": gpu.uuid,
        "nvmlGpuIndex": 0,
        "nvmlInstanceId": gpu.instances[0].gi,
        "nvmlComputeInstanceId": 0xFFFFFFFF,
        "nvmlMigProfileId": 19,
        "nvmlProfileSlices": 1,
    }
    assert rows[1]["entity"] == {"entityGroupId": 5, "entityId": 0}
    assert rows[1]["parent"] == {"entityGroupId": 4, "entityId": 0}
    assert rows[1]["info"]["nvmlComputeInstanceId"] == 0


def test_a_gpu_tells_who_it_is(node: SimulatedNode, client: DcgmClient) -> None:
    gpu = node.gpu(3)
    client.ask("watched(h, [(1, 3)], 1, 50, 53, 54, 55, 57, 63)")
    read = [
        reading["value"] for reading in client.ask("latest(h, 1, 3, 1, 50, 53, 54, 55, 57, 63)")
    ]
    assert read == [
        *("580.95.05", gpu.product.name, gpu.serial, gpu.uuid, 3),
        *("00000000:5D:00.0", 9 << 16),
    ]
    client.ask("a = new('dcgmDeviceAttributes_v3')")
    client.ask("raw('dcgmGetDeviceAttributes', h, 3, byref(a))")
    identifiers = client.ask("plain(a.identifiers)")
    assert identifiers["uuid"] == gpu.uuid
    assert identifiers["deviceName"] == gpu.product.name
    assert identifiers["pciBusId"] == "00000000:5D:00.0"
    assert client.ask("[a.memoryUsage.fbTotal, a.powerLimits.enforcedPowerLimit]") == [81559, 700]
    assert client.error_of("raw('dcgmGetDeviceAttributes', h, 8, byref(a))") == BADPARAM


def test_readings_come_in_dcgms_units(node: SimulatedNode, client: DcgmClient) -> None:
    node.set_value(3, "power_mw", 412_345)
    node.set_value(3, "energy_mj", 5_000_000_000)
    node.set_value(3, "memory_used_mib", 1024)
    client.ask("watched(h, [(1, 3)], 150, 155, 156, 250, 251, 252, 253, 254)")
    read = client.ask("latest(h, 1, 3, 150, 155, 156, 250, 251, 252, 253, 254)")
    assert [reading["status"] for reading in read] == [0] * 8
    assert [reading["value"] for reading in read] == [
        *(31, 412.345, 5_000_000_000, 81559, 81559 - 551 - 1024, 1024, 551),
        1024 / (81559 - 551),
    ]


def test_an_instance_has_its_own_memory_and_its_gpus_temperature(
    node: SimulatedNode, client: DcgmClient
) -> None:
    with node.scenario.edit() as scenario:
        gpu = scenario.gpus[0]
        gpu.values["temperature_c"] = 66
        gpu.processes = [Process(pid=7, memory_mib=512, gi=gpu.instances[2].gi, ci=0)]
    client.ask("watched(h, [(4, 2), (4, 3)], 150, 250, 252)")
    assert [reading["value"] for reading in client.ask("latest(h, 4, 2, 150, 250, 252)")] == [
        *(66, 9984, 512)
    ]
    assert client.ask("value(h, 4, 3, 252)") == 0


def test_a_new_value_is_seen_after_the_interval_and_not_before(
    node: SimulatedNode, client: DcgmClient
) -> None:
    client.ask("g = group(h, (1, 3))")
    client.ask("watch(h, g, fields(h, 150), every=3_600_000_000)")
    client.ask("watch(h, g, fields(h, 140), every=0)")
    client.ask("update(h)")
    node.set_value(3, "temperature_c", 80)
    node.set_value(3, "memory_temperature_c", 81)
    assert [reading["value"] for reading in client.ask("latest(h, 1, 3, 150, 140)")] == [31, 81]


def test_a_manual_engine_samples_only_on_request(node: SimulatedNode, dcgm: SimulatedDcgm) -> None:
    with DcgmClient(dcgm) as client:
        client.ask("init()")
        client.ask("h = embedded(mode=2)")
        client.ask("watch(h, group(h, (1, 3)), fields(h, 150))")
        assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == -14
        client.ask("update(h)")
        node.set_value(3, "temperature_c", 80)
        assert client.ask("value(h, 1, 3, 150)") == 31
        client.ask("update(h)")
        assert client.ask("value(h, 1, 3, 150)") == 80


def test_many_entities_are_read_in_one_call(client: DcgmClient) -> None:
    client.ask("watched(h, [(1, 3), (4, 1)], 150, 54)")
    read = client.ask("many(h, [(1, 3), (4, 1), (1, 9)], [150, 54])")
    assert [reading["entity"] for reading in read] == [
        [1, 3],
        [1, 3],
        [4, 1],
        [4, 1],
        [1, 9],
        [1, 9],
    ]
    assert [reading["status"] for reading in read] == [0, 0, 0, 0, -16, -16]
    assert read[0]["value"] == 31
    assert read[1]["value"].startswith("GPU-")


def test_groups_are_made_filled_and_destroyed(client: DcgmClient) -> None:
    client.ask("g = group(h, (1, 3), (4, 0))")
    assert client.ask("members(h, g)") == [[1, 3], [4, 0]]
    assert client.error_of("raw('dcgmGroupAddEntity', h, g, 1, 3)") == BADPARAM
    assert client.error_of("raw('dcgmGroupAddEntity', h, g, 1, 99)") == BADPARAM
    client.ask("raw('dcgmGroupRemoveEntity', h, g, 1, 3)")
    assert client.ask("members(h, g)") == [[4, 0]]
    client.ask("raw('dcgmGroupDestroy', h, g)")
    assert client.error_of("members(h, g)") == NOT_CONFIGURED
    assert client.ask("members(h, group(h, kind=0))") == [[1, gpu] for gpu in range(8)]
    assert len(client.ask("members(h, group(h, kind=3))")) == 7
    assert len(client.ask("members(h, group(h, kind=5))")) == 22


def test_there_are_at_most_64_groups(client: DcgmClient) -> None:
    client.ask("[group(h) for _ in range(64)] and None")
    assert client.error_of("group(h)") == MAX_LIMIT


def test_a_field_group_takes_known_fields_under_a_name_of_its_own(client: DcgmClient) -> None:
    client.ask("f = fields(h, 150, 155)")
    assert client.error_of("fields(h, 150, 49)") == UNKNOWN_FIELD
    client.ask("c.names = 0")
    assert client.error_of("fields(h, 150)") == DUPLICATE_KEY
    client.ask("raw('dcgmFieldGroupDestroy', h, f)")
    assert client.error_of("watch(h, group(h, (1, 3)), f)") == BADPARAM


def test_an_unwatched_field_is_not_watched_any_more(client: DcgmClient) -> None:
    client.ask("g = group(h, (1, 3)); f = fields(h, 150)")
    client.ask("watch(h, g, f)")
    assert client.ask("value(h, 1, 3, 150)") == 31
    client.ask("raw('dcgmUnwatchFields', h, g, f)")
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == -16


def test_a_field_that_is_none_says_so_in_its_own_status(client: DcgmClient) -> None:
    client.ask("watched(h, [(1, 3)], 150)")
    assert [reading["status"] for reading in client.ask("latest(h, 1, 3, 49, 150)")] == [
        UNKNOWN_FIELD,
        0,
    ]


def test_a_field_has_a_type_and_a_level(client: DcgmClient) -> None:
    client.ask("by_id = c.library.DcgmFieldGetById")
    client.ask("by_id.restype = ctypes.POINTER(type(new('dcgm_field_meta_t')))")
    client.ask("raw('DcgmFieldsInit')")
    rows = client.ask("[plain(by_id(i).contents) for i in (1, 155, 230, 1001)]")
    kinds = [(row["fieldId"], row["fieldType"], row["scope"], row["entityLevel"]) for row in rows]
    assert kinds == [(1, "s", 0, 0), (155, "d", 1, 1), (230, "i", 1, 1), (1001, "d", 1, 5)]
    assert client.ask("bool(by_id(49))") is False


def test_what_a_file_overrides_wins_over_the_scenario(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    client.ask("watched(h, [(1, 0), (4, 0), (5, 0)], 150, 1001, 54)")
    gi = dcgm.node.gpu(0).instances[0].gi
    dcgm.set_field(0, 150, 99)
    dcgm.set_field(0, 1001, 0.42, gi=gi)
    dcgm.set_field(0, 1001, 0.5, gi=gi, compute=True)
    dcgm.set_field(0, 54, "GPU-other")
    assert [reading["value"] for reading in client.ask("latest(h, 1, 0, 150, 1001, 54)")] == [
        *(99, 0.0, "GPU-other")
    ]
    assert client.ask("value(h, 4, 0, 1001)") == 0.42
    assert client.ask("value(h, 5, 0, 1001)") == 0.5
    dcgm.clear_field(0, 150)
    assert client.ask("value(h, 1, 0, 150)") == 31


@pytest.mark.parametrize(
    ("word", "digit"),
    [("blank", 0), ("not_found", 1), ("not_supported", 2), ("not_permitted", 3)],
)
def test_a_blank_has_status_0_and_its_reason_in_the_last_digit(
    dcgm: SimulatedDcgm, client: DcgmClient, word: str, digit: int
) -> None:
    for field in (150, 155):
        dcgm.set_field(3, field, word)
    client.ask("watched(h, [(1, 3)], 150, 155)")
    read = client.ask("latest(h, 1, 3, 150, 155)")
    assert [reading["status"] for reading in read] == [0, 0]
    assert [reading["value"] for reading in read] == [NOT_FOUND - 1 + digit, 2.0**47 + digit]


def test_a_value_can_be_a_status(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    dcgm.set_field(3, 150, "error=-8")
    client.ask("watched(h, [(1, 3)], 150)")
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == -8


def test_profiling_fields_are_listed_by_gpu(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    dcgm.set_profiling([1001, 1004], gpu=3)
    dcgm.set_profiling([], gpu=4)
    client.ask("def groups(gpu): p = new('dcgmProfGetMetricGroups_v3', gpuId=gpu); "
               "raw('dcgmProfGetSupportedMetricGroups', h, byref(p)); "
               "g = p.metricGroups[0]; return list(g.fieldIds[:g.numFieldIds])")  # fmt: skip
    assert client.ask("groups(0)") == list(range(1001, 1017))
    assert client.ask("groups(3)") == [1001, 1004]
    assert client.error_of("groups(4)") == NOT_LOADED


@pytest.mark.parametrize(
    "call", ["dcgmPolicySet", "dcgmPolicyGet", "dcgmPolicyRegister_v2", "dcgmPolicyUnregister"]
)
def test_policies_are_not_supported(client: DcgmClient, call: str) -> None:
    assert client.error_of(f"raw({call!r}, h)") == NOT_LISTED


def test_a_mig_gpu_does_not_tell_its_utilisation_nor_its_rows(client: DcgmClient) -> None:
    client.ask("watched(h, [(1, 0), (1, 3)], 203, 393)")
    assert [reading["value"] for reading in client.ask("latest(h, 1, 0, 203, 393)")] == [
        NOT_SUPPORTED
    ] * 2
    assert [reading["value"] for reading in client.ask("latest(h, 1, 3, 203, 393)")] == [0, 0]
