"""What DCGM was observed to do, line by line, in the simulated libdcgm."""

from collections.abc import Iterator

import pytest

from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.simulator.dcgm_client import BLANK, NOT_FOUND, NOT_SUPPORTED, DcgmClient, with_engine

NO_DATA, NOT_WATCHED, GENERIC_ERROR, MODULE_NOT_LOADED = -14, -16, -3, -33
ENGINE = "127.0.0.1:5555"


@pytest.fixture
def dcgm(node: SimulatedNode) -> SimulatedDcgm:
    return SimulatedDcgm(node)


@pytest.fixture
def client(dcgm: SimulatedDcgm) -> Iterator[DcgmClient]:
    with with_engine(dcgm) as client:
        yield client


def nvml_to_dcgm(client: DcgmClient, kind: int = 4) -> dict[int, int]:
    """DCGM's entity id by NVML's GPU instance id, of all GPUs."""
    rows = client.ask("hierarchy(h)")
    return {
        row["info"]["nvmlInstanceId"]: row["entity"]["entityId"]
        for row in rows
        if row["entity"]["entityGroupId"] == kind
    }


# --- entities


def test_dcgm_numbers_instances_otherwise_than_nvml(client: DcgmClient) -> None:
    ids = nvml_to_dcgm(client)
    assert len(ids) == 7
    assert all(nvml != dcgm for nvml, dcgm in ids.items())


def test_the_numbers_can_be_those_that_were_observed(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    gis = [instance.gi for instance in dcgm.node.gpu(0).instances]
    dcgm.number(0, gis[4], 0)
    dcgm.number(0, gis[4], 9, compute=True)
    ids = nvml_to_dcgm(client)
    assert ids[gis[4]] == 0
    assert sorted(ids.values()) == list(range(7))
    assert nvml_to_dcgm(client, kind=5)[gis[4]] == 9


def test_an_instance_keeps_its_number_while_others_come_and_go(
    node: SimulatedNode, client: DcgmClient
) -> None:
    before = nvml_to_dcgm(client)
    with node.scenario.edit() as scenario:
        gone = scenario.gpus[0].instances.pop(2)
    after = nvml_to_dcgm(client)
    assert after == {gi: entity for gi, entity in before.items() if gi != gone.gi}
    with node.scenario.edit() as scenario:
        again = scenario.gpus[0].instances
        again.append(gone)
        gone.uuid = "MIG-00000000-0000-0000-0000-00000000beef"
    assert nvml_to_dcgm(client)[gone.gi] == before[gone.gi]


def test_a_destroyed_instance_takes_its_watches_with_it(
    node: SimulatedNode, client: DcgmClient
) -> None:
    client.ask("watched(h, [(4, 2), (4, 3)], 252)")
    with node.scenario.edit() as scenario:
        scenario.gpus[0].instances.pop(2)
    assert client.ask("latest(h, 4, 2, 252)")[0]["status"] == NOT_WATCHED
    assert client.ask("latest(h, 4, 3, 252)")[0]["status"] == 0


def test_a_gpu_that_is_unbound_and_bound_again_has_lost_its_watches(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    client.ask("watched(h, [(1, 3), (1, 4)], 150)")
    assert client.ask("status(h, 3)") == 1
    dcgm.detach(3)
    assert client.ask("status(h, 3)") == 7
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == NOT_WATCHED
    dcgm.attach(3)
    assert client.ask("status(h, 3)") == 1
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == NOT_WATCHED
    assert client.ask("value(h, 1, 4, 150)") == 31
    client.ask("watched(h, [(1, 3)], 150)")
    assert client.ask("value(h, 1, 3, 150)") == 31


def test_the_watches_are_gone_even_when_nobody_looked_meanwhile(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    client.ask("watched(h, [(1, 0), (4, 0)], 150)")
    dcgm.detach(0)
    dcgm.attach(0)
    assert client.ask("latest(h, 1, 0, 150)")[0]["status"] == NOT_WATCHED
    assert client.ask("latest(h, 4, 0, 150)")[0]["status"] == NOT_WATCHED


def test_a_detached_gpu_cannot_be_watched_and_is_not_among_the_supported(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.detach(3)
    assert client.ask("entities(h, 1)") == list(range(8))
    assert client.ask("entities(h, 1, flags=1)") == [0, 1, 2, 4, 5, 6, 7]
    client.ask("watched(h, [(1, 3)], 150)")
    dcgm.attach(3)
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == NOT_WATCHED


# --- reading values


def test_an_xid_that_was_never_seen_is_no_data(client: DcgmClient) -> None:
    client.ask("watched(h, [(1, 3)], 230)")
    assert client.ask("latest(h, 1, 3, 230)") == [
        {"field": 230, "status": NO_DATA, "ts": 0, "value": BLANK}
    ]


def test_a_field_that_nvml_lacks_is_a_blank_with_status_0(
    node: SimulatedNode, client: DcgmClient
) -> None:
    node.set_value(3, "memory_temperature_c", None)
    client.ask("watched(h, [(1, 3)], 140)")
    read = client.ask("latest(h, 1, 3, 140)")[0]
    assert (read["status"], read["value"]) == (0, NOT_FOUND)
    assert read["ts"] > 0


def test_a_field_that_nobody_watches_says_so(client: DcgmClient) -> None:
    assert client.ask("latest(h, 1, 3, 150)") == [
        {"field": 150, "status": NOT_WATCHED, "ts": 0, "value": BLANK}
    ]


def test_the_first_sample_may_be_not_available(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    dcgm.release.first_sample("blank")
    client.ask("watch(h, group(h, (1, 3)), fields(h, 150))")
    read = client.ask("latest(h, 1, 3, 150)")[0]
    assert (read["status"], read["value"]) == (0, BLANK)
    assert client.ask("value(h, 1, 3, 150)") == 31


def test_the_first_sample_may_be_late(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    dcgm.release.first_sample("late")
    client.ask("watch(h, group(h, (1, 3)), fields(h, 150), every=3_600_000_000)")
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == NO_DATA
    client.ask("update(h)")
    assert client.ask("value(h, 1, 3, 150)") == 31


def test_nvlink_fields_of_a_mig_gpu_are_0_or_not_supported(client: DcgmClient) -> None:
    client.ask("watched(h, [(1, 0)], 409, 449)")
    read = client.ask("latest(h, 1, 0, 409, 449)")
    assert [(reading["status"], reading["value"]) for reading in read] == [
        (0, 0),
        (0, NOT_SUPPORTED),
    ]


def test_the_history_shows_equal_xids_in_a_row_and_the_latest_value_does_not(
    node: SimulatedNode, client: DcgmClient
) -> None:
    client.ask("watched(h, [(1, 3)], 230)")
    for code in (31, 48, 48):
        node.inject_xid(3, code)
    assert client.ask("history(h, 3, 230)") == [31, 48, 48]
    assert client.ask("history(h, 3, 230, order=2)") == [48, 48, 31]
    assert client.ask("value(h, 1, 3, 230)") == 48


def test_values_since_come_once_and_in_order(node: SimulatedNode, client: DcgmClient) -> None:
    client.ask("g = group(h, (1, 3), (1, 4)); f = fields(h, 230)")
    client.ask("watch(h, g, f)")
    for code in (31, 48, 48):
        node.inject_xid(3, code)
    following, found = client.ask("since(h, g, f)")
    assert found == [[1, 3, 230, 31], [1, 3, 230, 48], [1, 3, 230, 48]]
    assert client.ask(f"since(h, g, f, {following})") == [following, []]
    node.inject_xid(4, 48)
    assert client.ask(f"since(h, g, f, {following})")[1] == [[1, 4, 230, 48]]


def test_values_since_stop_when_the_callback_says_so(
    node: SimulatedNode, client: DcgmClient
) -> None:
    client.ask("g = group(h, (1, 3)); f = fields(h, 230); seen = []")
    client.ask("watch(h, g, f)")
    for code in (31, 48, 63):
        node.inject_xid(3, code)
    client.ask(
        "T = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, "
        "ctypes.c_int, ctypes.c_void_p)"
    )
    client.ask("stop = T(lambda *a: seen.append(1) or -1); n = ctypes.c_longlong()")
    client.ask("raw('dcgmGetValuesSince_v2', h, g, f, ctypes.c_longlong(0), byref(n), stop, None)")
    assert client.ask("seen") == [1]


def test_an_xid_before_the_watch_is_not_history(node: SimulatedNode, client: DcgmClient) -> None:
    client.ask("entities(h, 1)")
    node.inject_xid(3, 31)
    client.ask("watched(h, [(1, 3)], 230)")
    assert client.ask("latest(h, 1, 3, 230)")[0]["status"] == NO_DATA


@pytest.mark.parametrize("extra", [[], [150]])
def test_a_live_read_fails_as_a_whole_when_the_xid_field_is_among_the_fields(
    client: DcgmClient, extra: list[int]
) -> None:
    assert client.error_of(f"many(h, [(1, 3)], {[*extra, 230]}, flags=1)") == GENERIC_ERROR


def test_a_live_read_needs_no_watch(client: DcgmClient) -> None:
    assert client.ask("many(h, [(1, 3)], [150], flags=1)")[0]["value"] == 31
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == NOT_WATCHED


def test_a_live_read_of_a_profiling_field_kills_a_stand_alone_engine(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.listen(ENGINE)
    client.ask(f"s = connect({ENGINE!r})")
    assert client.error_of("many(s, [(1, 3)], [1001], flags=1)") == -21
    assert client.error_of("entities(s, 1)") == -21


def test_a_live_read_of_a_profiling_field_kills_the_process_of_an_embedded_engine(
    client: DcgmClient,
) -> None:
    assert client.killed_by("many(h, [(1, 3)], [1001], flags=1)").name == "SIGSEGV"


# --- XIDs and MIG


def test_an_xid_of_an_instance_is_on_that_entity_and_not_on_the_gpu(
    node: SimulatedNode, client: DcgmClient
) -> None:
    ids = nvml_to_dcgm(client)
    client.ask("watched(h, [(1, 0)] + [(k, i) for k in (4, 5) for i in range(7)], 230)")
    first, second = (instance.gi for instance in node.gpu(0).instances[1:3])
    node.inject_xid(0, 94, gi=first)
    node.inject_xid(0, 31, gi=second, ci=0)
    assert client.ask(f"value(h, 4, {ids[first]}, 230)") == 94
    assert client.ask(f"value(h, 5, {ids[second]}, 230)") == 31
    assert client.ask(f"latest(h, 4, {ids[second]}, 230)")[0]["status"] == NO_DATA
    assert client.ask("latest(h, 1, 0, 230)")[0]["status"] == NO_DATA


def test_an_xid_of_the_gpu_is_not_on_its_instances(node: SimulatedNode, client: DcgmClient) -> None:
    client.ask("watched(h, [(1, 0), (4, 0), (5, 0)], 230)")
    node.inject_xid(0, 79)
    assert client.ask("value(h, 1, 0, 230)") == 79
    assert client.ask("latest(h, 4, 0, 230)")[0]["status"] == NO_DATA
    assert client.ask("latest(h, 5, 0, 230)")[0]["status"] == NO_DATA


# --- profiling


def test_one_profiling_field_that_a_gpu_lacks_fails_the_whole_watch(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.set_profiling([1001, 1002])
    client.ask("g = group(h, (1, 3)); f = fields(h, 150, 1001, 1004)")
    assert client.error_of("watch(h, g, f)") == MODULE_NOT_LOADED
    read = client.ask("latest(h, 1, 3, 150, 1001)")
    assert [reading["status"] for reading in read] == [NOT_WATCHED, NOT_WATCHED]
    client.ask("watch(h, g, fields(h, 1001, 1002))")
    assert client.ask("value(h, 1, 3, 1001)") == 0.0


def test_a_gpu_without_the_profiling_module_fails_its_group(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.set_profiling([], gpu=5)
    client.ask("f = fields(h, 1001)")
    assert client.error_of("watch(h, group(h, (1, 5)), f)") == MODULE_NOT_LOADED
    assert client.error_of("watch(h, 0x7fffffff, f)") == MODULE_NOT_LOADED
    assert client.error_of("watch(h, group(h, (1, 4)), f)") == 0


# --- health


def test_an_xid_incident_has_all_bits_as_its_system(
    node: SimulatedNode, client: DcgmClient
) -> None:
    assert client.ask("health(h, 0x7fffffff, systems=0xffffffff)") == [0, []]
    node.inject_xid(3, 79)
    overall, (incident,) = client.ask("health(h, 0x7fffffff)")
    assert overall == 20
    assert (incident["system"], incident["health"]) == (0xFFFFFFFF, 20)
    assert incident["entityInfo"] == {"entityGroupId": 1, "entityId": 3}
    assert client.ask("health(h, 0x7fffffff)")[0] == 20


@pytest.mark.parametrize(
    ("system", "word"), [("memory", 0x10), ("nvlink", 0x2), ("thermal", 0x80), ("xid", 0xFFFFFFFF)]
)
def test_an_incident_names_its_system(
    dcgm: SimulatedDcgm, client: DcgmClient, system: str, word: int
) -> None:
    dcgm.health.add_incident(3, system, "warn", code=4, text="Too many = bad [rows]")  # pyright: ignore[reportArgumentType] - a column of the table
    overall, (incident,) = client.ask("health(h, 0x7fffffff, systems=0xffffffff)")
    assert overall == 10
    assert incident["system"] == word
    assert incident["error"] == {"msg": "Too many = bad [rows]", "code": 4}
    dcgm.health.clear_incidents()
    assert client.ask("health(h, 0x7fffffff)") == [0, []]


def test_only_watched_systems_of_entities_in_the_group_are_reported(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    gi = dcgm.node.gpu(0).instances[1].gi
    dcgm.health.add_incident(3, "memory")
    dcgm.health.add_incident(3, "nvlink")
    dcgm.health.add_incident(0, "memory", gi=gi)
    client.ask("a, b, i = group(h, (1, 3)), group(h, (1, 0)), group(h, (4, 0))")
    assert client.ask("health(h, a.value)") == [0, []]
    assert [finding["system"] for finding in client.ask("health(h, a.value, systems=0x2)")[1]] == [
        0x2
    ]
    (incident,) = client.ask("health(h, b.value, systems=0x10)")[1]
    assert incident["entityInfo"] == {"entityGroupId": 4, "entityId": nvml_to_dcgm(client)[gi]}
    assert client.ask("health(h, i.value, systems=0x10)") == [0, []]
