"""How a DCGM fails: engines that die, hang and crash, lost GPUs, mistakes in its file."""

import signal
import time
from collections.abc import Iterator

import pytest

from simulator.dcgm_engine import SimulatedDcgm
from simulator.dcgm_file import DcgmFaultError
from simulator.node import SimulatedNode
from tests.simulator.dcgm_client import BLANK, DcgmClient, with_engine

CONNECTION_NOT_VALID, NOT_WATCHED = -21, -16
ENGINE, SOCKET = "127.0.0.1:5555", "/run/nv-hostengine.sock"


@pytest.fixture
def dcgm(node: SimulatedNode) -> SimulatedDcgm:
    return SimulatedDcgm(node)


@pytest.fixture
def client(dcgm: SimulatedDcgm) -> Iterator[DcgmClient]:
    with with_engine(dcgm) as client:
        yield client


def test_a_stand_alone_engine_is_reached_by_host_and_port_and_by_socket(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.listen(ENGINE)
    dcgm.listen(SOCKET)
    assert client.ask(f"entities(connect({ENGINE!r}), 1)") == list(range(8))
    assert client.ask("entities(connect('127.0.0.1'), 1)") == list(range(8))
    assert client.ask(f"entities(connect({SOCKET!r}, unix=True), 1)") == list(range(8))
    assert client.error_of("connect('127.0.0.1:5556')") == CONNECTION_NOT_VALID
    assert client.error_of(f"connect({SOCKET!r})") == CONNECTION_NOT_VALID


def test_version_3_of_connect_tells_a_socket_by_its_prefix(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.listen(SOCKET)
    client.ask("p, s = new('dcgmConnectV3Params_v1'), ctypes.c_void_p()")
    client.ask(f"raw('dcgmConnect_v3', b'unix://{SOCKET}', byref(p), byref(s))")
    assert client.ask("entities(s, 1)") == list(range(8))


def test_a_disconnected_handle_is_no_connection(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    dcgm.listen(ENGINE)
    client.ask(f"s = connect({ENGINE!r})")
    client.ask("raw('dcgmDisconnect', s)")
    assert client.error_of("entities(s, 1)") == CONNECTION_NOT_VALID
    assert client.error_of("raw('dcgmDisconnect', s)") == -1


def test_calls_to_a_dead_engine_answer_connection_lost_until_the_client_connects_again(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.listen(ENGINE)
    client.ask(f"s = connect({ENGINE!r})")
    client.ask("watched(s, [(1, 3)], 150)")
    dcgm.kill(ENGINE)
    for call in ("entities(s, 1)", "latest(s, 1, 3, 150)", "update(s)", "group(s)"):
        assert client.error_of(call) == CONNECTION_NOT_VALID
    assert client.error_of(f"connect({ENGINE!r})") == CONNECTION_NOT_VALID
    dcgm.restart(ENGINE)
    assert client.error_of("entities(s, 1)") == CONNECTION_NOT_VALID
    client.ask(f"s = connect({ENGINE!r})")
    assert client.ask("latest(s, 1, 3, 150)")[0]["status"] == NOT_WATCHED
    assert client.ask("entities(h, 1)") == list(range(8))


def test_an_engine_that_was_restarted_unseen_has_lost_its_clients_too(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.listen(ENGINE)
    client.ask(f"s = connect({ENGINE!r})")
    dcgm.restart(ENGINE)
    assert client.error_of("entities(s, 1)") == CONNECTION_NOT_VALID


def test_a_stand_alone_engine_that_crashes_does_not_take_its_client_with_it(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.listen(ENGINE)
    client.ask(f"s = connect({ENGINE!r})")
    dcgm.fail("segfault", ENGINE, call="dcgmUpdateAllFields")
    assert client.ask("entities(s, 1)") == list(range(8))
    assert client.error_of("update(s)") == CONNECTION_NOT_VALID
    dcgm.heal(ENGINE)
    assert client.error_of("entities(s, 1)") == CONNECTION_NOT_VALID


def test_a_stand_alone_engine_remembers_what_happened_before_its_client_came(
    node: SimulatedNode, dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    node.inject_xid(3, 13)
    dcgm.listen(ENGINE)
    node.inject_xid(3, 31)
    client.ask(f"s = connect({ENGINE!r})")
    client.ask("g, f = group(s, (1, 3)), fields(s, 230)")
    client.ask("watch(s, g, f)")
    node.inject_xid(3, 48)
    assert client.ask("history(s, 3, 230)") == [31, 48]
    dcgm.restart(ENGINE)
    client.ask(f"s = connect({ENGINE!r})")
    client.ask("watched(s, [(1, 3)], 230)")
    assert client.ask("latest(s, 1, 3, 230)")[0]["status"] == -14


@pytest.mark.parametrize(
    ("kind", "killer"), [("segfault", signal.SIGSEGV), ("abort", signal.SIGABRT)]
)
def test_an_embedded_engine_takes_the_process_with_it(
    dcgm: SimulatedDcgm, client: DcgmClient, kind: str, killer: signal.Signals
) -> None:
    dcgm.fail(kind, call="dcgmEntityGetLatestValues")
    assert client.ask("entities(h, 1)") == list(range(8))
    assert client.killed_by("latest(h, 1, 3, 150)") == killer


def test_a_hung_call_comes_back_when_the_engine_is_healed(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.fail("hung", call="dcgmWatchFields")
    client.ask("g, f = group(h, (1, 3)), fields(h, 150)")
    client.begin("watch(h, g, f)")
    assert not client.answers_within(0.1)
    dcgm.heal()
    client.result()
    assert client.ask("value(h, 1, 3, 150)") == 31


def test_a_connection_to_a_hung_engine_is_given_up_in_time(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.listen(ENGINE)
    dcgm.fail("hung", ENGINE)
    assert client.error_of(f"connect({ENGINE!r}, timeout_ms=50)") == CONNECTION_NOT_VALID


def test_a_call_can_be_slow_or_fail_with_a_code(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    dcgm.fail("slow=150", call="dcgmGetGpuStatus")
    begun = time.monotonic()
    assert client.ask("status(h, 3)") == 1
    assert time.monotonic() - begun >= 0.15
    dcgm.fail("error=-3")
    assert client.error_of("status(h, 3)") == -3
    dcgm.heal()
    assert client.error_of("status(h, 3)") == 0


@pytest.mark.parametrize("numbers", [[2], [3, 4]])
def test_xid_119_of_one_gpu_blanks_every_field_of_all_until_the_engine_is_restarted(
    node: SimulatedNode, client: DcgmClient, numbers: list[int]
) -> None:
    client.ask("watched(h, [(1, g) for g in range(8)], 150, 155, 230)")
    for number in numbers:
        node.inject_xid(number, 119)
    for gpu in range(8):
        read = client.ask(f"latest(h, 1, {gpu}, 150, 155)")
        assert [(reading["status"], reading["value"]) for reading in read] == [
            (0, BLANK),
            (0, 2.0**47),
        ]
    node.heal(numbers[0])
    assert client.ask("value(h, 1, 3, 150)") == BLANK
    client.ask("raw('dcgmStopEmbedded', h)")
    client.ask("h = embedded()")
    client.ask("watched(h, [(1, 3)], 150)")
    assert client.ask("value(h, 1, 3, 150)") == 31


def test_a_stand_alone_engine_stays_blind_for_a_client_that_connects_again(
    node: SimulatedNode, dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.listen(ENGINE)
    node.inject_xid(2, 119)
    for _ in range(2):
        client.ask(f"s = connect({ENGINE!r})")
        client.ask("watched(s, [(1, 3)], 150)")
        assert client.ask("value(s, 1, 3, 150)") == BLANK
    dcgm.restart(ENGINE)
    client.ask(f"s = connect({ENGINE!r})")
    client.ask("watched(s, [(1, 3)], 150)")
    assert client.ask("value(s, 1, 3, 150)") == 31


def test_driver_calls_can_be_stopped_without_an_xid(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    client.ask("watched(h, [(1, 3)], 150)")
    dcgm.stop_driver_calls()
    assert client.ask("value(h, 1, 3, 150)") == BLANK


def test_another_dcgm_goes_on_after_xid_119(
    node: SimulatedNode, dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.release.ignore_xid_119()
    client.ask("watched(h, [(1, 3)], 150, 230)")
    node.inject_xid(3, 119)
    assert [reading["value"] for reading in client.ask("latest(h, 1, 3, 150, 230)")] == [31, 119]


def test_a_lost_gpu_is_blank_and_the_others_go_on(node: SimulatedNode, client: DcgmClient) -> None:
    client.ask("watched(h, [(1, 3), (1, 4)], 150)")
    node.lose(3)
    assert client.ask("status(h, 3)") == 4
    read = client.ask("latest(h, 1, 3, 150)")[0]
    assert (read["status"], read["value"]) == (0, BLANK)
    assert client.ask("value(h, 1, 4, 150)") == 31
    node.heal(3)
    assert client.ask("value(h, 1, 3, 150)") == 31


def test_a_gpu_that_is_gone_is_detached(node: SimulatedNode, client: DcgmClient) -> None:
    client.ask("watched(h, [(1, 3)], 150)")
    node.lose(3, gone=True)
    assert client.ask("status(h, 3)") == 7
    node.heal(3)
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == NOT_WATCHED


def test_a_hung_gpu_stops_the_sampling_of_all_but_not_the_reading(
    node: SimulatedNode, client: DcgmClient
) -> None:
    client.ask("watched(h, [(1, 3), (1, 4)], 150)")
    node.hang(3)
    node.set_value(4, "temperature_c", 70)
    assert client.ask("value(h, 1, 4, 150)") == 31
    client.begin("update(h)")
    assert not client.answers_within(0.1)
    node.heal(3)
    client.result()
    assert client.ask("value(h, 1, 4, 150)") == 70


def test_a_mistake_in_the_file_is_reported_once_and_the_last_good_one_stays(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.set_field(3, 150, 77)
    client.ask("watched(h, [(1, 3)], 150)")
    good = dcgm.file.path.read_text(encoding="utf-8")
    line = good.splitlines().index("field 150 = 77") + 1
    dcgm.file.save_text(good.replace("= 77", "= hot"))
    for _ in range(3):
        assert client.ask("value(h, 1, 3, 150)") == 77
    dcgm.file.save_text(good.replace("= 77", "= 55"))
    assert client.ask("value(h, 1, 3, 150)") == 55
    assert client.stderr_after_end() == (
        f"{dcgm.file.path}:{line}: field 150 must be a number, blank, not_found, not_supported, "
        'not_permitted or error=-<code>, not "hot"\n'
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("status = ok", '1: "status" stands before any section; put it below [engine]'),
        ("[engine]\n\nsomething", "3: cannot read this line; write [section], key = value or #"),
        ("[engine]\n[engine]", "2: section [engine] is there twice; join the two"),
        ("[listen a:1]\n[listen a:1]", "2: section [listen a:1] is there twice; join the two"),
        ("[gpu 0]\n[gpu 0]", "2: section [gpu 0] is there twice; join the two"),
        ("[dpu 0]", "1: unknown section [dpu 0]; use [engine], [listen <address>], [gpu <number>]"),
        ("[switch 12]", "1: cannot read section [switch 12]; write [gpu <number>]"),
        ("[cpu 0]\n[cpu 0]", "2: section [cpu 0] is there twice; join the two"),
        ("[switch 0]\nlinks = 257", "2: links must be a whole number from 0 to 256"),
        ("[switch 0]\nid = 1", '2: unknown setting "id"; use field <id> or links'),
        ("[switch_link 0/1]\nstate = x", '2: state must be down or up, not "x"'),
        ("[cpu 0]\nstatus = ok", '2: unknown setting "status"; use field <id>, cores, first_core'),
        ("[core 0]\nstatus = ok", '2: unknown setting "status"; use field <id>'),
        ("[engine]\nnvswitch = x", '2: nvswitch must be missing or there, not "x"'),
        ("[gi 7]", "1: cannot read section [gi 7]; write [gpu <number>], [gi <gpu>/<NVML gi>]"),
        ("[gpu 0]\nid = 1", '2: unknown setting "id"; use field <id>, status, attached or prof'),
        ("[link 0/1]\nid = 1", '2: unknown setting "id"; use field <id>'),
        ("[engine]\nlinks = x", '2: links must be listed or refused, not "x"'),
        ("[gpu 0]\nstatus = sick", '2: unknown status "sick"; use ok, detached, lost,'),
        ("[gpu 0]\nfield 49 = 1", '2: "field 49" is none that this DCGM has; see dcgm_fields.py'),
        ("[gpu 0]\nfield 54 = 1\nfield 54 = 2", '3: "field 54" is set twice in this section'),
        ("[engine]\nfailure = gone", '2: unknown failure "gone"; use none, dead, hung, segfault'),
        ("[engine]\nfailure = slow", '2: unknown failure "slow"; use none, dead, hung, segfault'),
        ("[engine]\nfailure = hung on nvmlInit", '2: "nvmlInit" is not a DCGM call; name it as in'),
        ("[engine]\nprofiling = 150", '2: profiling must be "none" or up to 96 field ids'),
        ("[engine]\nfirst_sample = x", '2: first_sample must be read, blank or late, not "x"'),
        ("[engine]\nxid_119 = x", '2: xid_119 must be ignored or stops, not "x"'),
        ("[listen a:1]\nstarted = -1", "2: started must be a whole number from 0 to 4294967295"),
        ("[health]\nincident 1 = gpu=0 system=x", '2: unknown system "x"; use pcie, nvlink,'),
        ("[health]\nincident 1 = health=bad", '2: health must be pass, warn or fail, not "bad"'),
        ("[health]\nincident 1 = gpu=x", '2: cannot read "gpu" of an incident; write gpu=<number>'),
        ("[health]\nhurt = 1", '2: unknown setting "hurt" in [health]; use incident <n>'),
    ],
)
def test_a_mistake_is_reported_with_its_line(
    dcgm: SimulatedDcgm, client: DcgmClient, text: str, complaint: str
) -> None:
    dcgm.file.save_text(text)
    assert client.ask("entities(h, 1)") == list(range(8))
    assert client.stderr_after_end().startswith(f"{dcgm.file.path}:{complaint}")


def test_without_a_file_the_embedded_engine_is_healthy_and_nobody_listens(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.fail("error=-3")
    assert client.error_of("entities(h, 1)") == -3
    dcgm.file.path.unlink()
    assert client.ask("entities(h, 1)") == list(range(8))
    assert client.error_of(f"connect({ENGINE!r})") == CONNECTION_NOT_VALID
    assert client.stderr_after_end() == ""


def test_what_cannot_be_simulated_is_refused_with_words(dcgm: SimulatedDcgm) -> None:
    with pytest.raises(DcgmFaultError, match="no field 49"):
        dcgm.set_field(0, 49, 1)
    with pytest.raises(DcgmFaultError, match="has no GPU instance 99; it has: 7, 6, 5"):
        dcgm.number(0, 99, 1)
    with pytest.raises(DcgmFaultError, match="has no link 18; use one below 18"):
        dcgm.set_link_field(3, 18, 580, 1)
    with pytest.raises(DcgmFaultError, match="150 is not a profiling field"):
        dcgm.set_profiling([150])
    with pytest.raises(DcgmFaultError, match="no engine listens at a:1"):
        dcgm.kill("a:1")
    with pytest.raises(DcgmFaultError, match="dcgmFly is not simulated"):
        dcgm.fail("hung", call="dcgmFly")


def test_two_threads_may_call_at_once_while_the_file_changes(
    node: SimulatedNode, dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    client.ask("watched(h, [(1, 3)], 150, 230)")
    client.ask("import threading; seen = []")
    client.ask("def read(): [seen.append(value(h, 1, 3, 150)) for _ in range(2000)]")
    client.ask("both = [threading.Thread(target=read) for _ in range(2)]")
    node.set_value(3, "temperature_c", 0)
    client.begin("[t.start() for t in both] and [t.join() for t in both] and None")
    for number in range(40):
        node.set_value(3, "temperature_c", number)
        dcgm.set_field(4, 150, number)
        node.inject_xid(3, 31, kernel=False)
    client.result(120)
    assert client.ask("history(h, 3, 230)") == [31] * 40
    assert client.ask("len(seen) == 4000 and set(seen) <= set(range(40)) | {31}") is True
