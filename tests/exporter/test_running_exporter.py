"""The exporter as it runs: real processes, real pynvml, gRPC, sockets and HTTP."""

import contextlib
import json
import signal
import socket
import struct
import urllib.request
from collections.abc import Iterator

import pytest

from exporter import protocol
from exporter.model.readings import LOST_RECORDS
from simulator.node import SimulatedNode
from tests.exporter.running import PATIENCE, SOON, Exporter, Page, is_running, send, wait_for


@pytest.fixture
def exporter(node: SimulatedNode) -> Iterator[Exporter]:
    with Exporter(node) as running:
        running.wait_shows('draguard_source_up{source="nvml"} 1', "DCGM_FI_DEV_GPU_TEMP")
        yield running


def test_the_page_shows_every_gpu_every_slice_and_is_ready(
    node: SimulatedNode, exporter: Exporter
) -> None:
    assert len(exporter.series("DCGM_FI_DEV_GPU_TEMP")) == 3
    # Two whole GPUs and seven slices: memory is of what can be given away.
    assert len(exporter.series("DCGM_FI_DEV_FB_FREE")) == 9
    # NVML tells no utilisation of a GPU in MIG mode.
    assert len(exporter.series("DCGM_FI_DEV_GPU_UTIL")) == 2
    assert set(exporter.series("draguard_gpu_up").values()) == {1.0}
    node.set_value(0, "temperature_c", 71)
    wait_for(lambda: 71.0 in exporter.series("DCGM_FI_DEV_GPU_TEMP").values())
    assert exporter.get("/healthz") == (200, "ok\n")
    assert exporter.get("/readyz") == (200, "ok\n")
    assert exporter.get("/nothing")[0] == 404


def test_their_health_page_answers_in_their_words_and_headers(exporter: Exporter) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/health", timeout=60) as answer:
        assert answer.read() == b"OK"
        assert answer.headers["X-Registry-Available"] == "true"
        assert answer.headers["X-Reload-In-Progress"] is None


def test_the_kubelets_pods_are_named(node: SimulatedNode, exporter: Exporter) -> None:
    device = {"resource_name": "nvidia.com/gpu", "device_ids": [node.gpu(0).uuid]}
    container = {"name": "main", "devices": [device]}
    node.kubelet.set_pods([{"name": "train-0", "namespace": "team", "containers": [container]}])
    exporter.wait_shows('draguard_device_allocation_info{UUID="' + node.gpu(0).uuid)
    (labels,) = [
        series for series in exporter.series("DCGM_FI_DEV_GPU_UTIL") if node.gpu(0).uuid in series
    ]
    assert labels.endswith('container="main",namespace="team",pod="train-0"')
    node.kubelet.set_pods([])
    wait_for(lambda: not exporter.series("draguard_device_allocation_info"))


def test_one_error_with_two_sources_is_counted_once_on_its_slice(
    node: SimulatedNode, exporter: Exporter
) -> None:
    part = node.gpu(2).instances[3]
    node.inject_xid(2, 94, gi=part.gi, ci=part.ci, nvml_delay=0.2)
    exporter.wait_shows(f'code="94",gi="{part.gi}"')
    assert exporter.count(94) == 1
    assert list(exporter.series("draguard_xid_errors_total").values()) == [1.0]


def test_a_lost_gpu_loses_its_readings_and_stays_visible(
    node: SimulatedNode, exporter: Exporter
) -> None:
    node.lose(1)
    uuid = node.gpu(1).uuid
    page = exporter.wait_shows('presence="Lost",reason="GpuIsLost"')
    assert not [series for series in page.series("DCGM_FI_DEV_GPU_TEMP") if uuid in series]
    assert [v for series, v in page.series("draguard_gpu_up").items() if uuid in series] == [0.0]
    assert len(page.series("DCGM_FI_DEV_GPU_TEMP")) == 2


def test_a_gpu_that_nvml_no_longer_lists_is_lost_after_the_set_time(node: SimulatedNode) -> None:
    with Exporter(node, "run", "--lost-after=1") as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1', 'nvidia1"')
        node.lose(1, gone=True)
        page = exporter.wait_shows('presence="Lost"')
        assert len(page.series("DCGM_FI_DEV_GPU_TEMP")) == 2


def test_the_nvml_child_killed_is_named_and_started_again(
    node: SimulatedNode, exporter: Exporter
) -> None:
    child = exporter.nvml_child()
    send(child, signal.SIGKILL)
    # So that it stays down until it was looked at, however long that takes.
    node.segfault(0, "nvmlDeviceGetTemperature")
    page = exporter.wait_shows('draguard_source_up{source="nvml",reason="Crashed"} 0')
    assert not page.series("DCGM_FI_DEV_GPU_TEMP")
    assert len(page.series("draguard_gpu_info")) == 3
    node.heal(0)
    exporter.wait_shows('draguard_source_up{source="nvml"} 1')
    exporter.wait_logged("ended by SIGKILL")
    assert exporter.nvml_child() != child


def test_a_library_that_crashes_costs_only_itself(node: SimulatedNode, exporter: Exporter) -> None:
    node.segfault(0, "nvmlDeviceGetTemperature")
    exporter.wait_shows('draguard_source_up{source="nvml",reason="Crashed"} 0')
    exporter.wait_logged("ended by SIGSEGV")
    node.inject_xid(1, 79)
    exporter.wait_count(79, 1)
    node.heal(0)
    exporter.wait_shows('draguard_source_up{source="nvml"} 1')
    assert exporter.get("/readyz")[0] == 200


@pytest.fixture
def impatient(node: SimulatedNode) -> Iterator[Exporter]:
    """It calls a call hung soon."""
    with Exporter(node, "run", SOON) as running:
        running.wait_shows('draguard_source_up{source="nvml"} 1')
        yield running


def test_a_hang_is_named_by_gpu_and_call_and_the_other_gpus_come_back(
    node: SimulatedNode, impatient: Exporter
) -> None:
    """It is tried again and hangs again; the page answers every time."""
    exporter, uuid = impatient, node.gpu(1).uuid
    node.hang(1, "nvmlDeviceGetTemperature")
    named = f'draguard_source_hang_info{{gpu="1",UUID="{uuid}",call="nvmlDeviceGetTemperature"}} 1'
    hung_seen = False

    def tried_again() -> bool:
        nonlocal hung_seen
        status, body = exporter.get()
        assert status == 200
        hung_seen = hung_seen or named in body
        return sum(Page(body).series("draguard_nvml_restarts_total").values()) >= 3

    wait_for(tried_again, 2 * PATIENCE, "a GPU that hangs each time")
    assert hung_seen

    def without_it() -> bool:
        # Of one page: the GPU is tried again now and then, and hangs again.
        page = exporter.page()
        up = sorted(page.series("draguard_gpu_up").values())
        shown = len(page.series("DCGM_FI_DEV_GPU_TEMP"))
        named_there = page.shows(named, 'presence="Unknown",reason="Hung"')
        return named_there and (shown, up) == (2, [0.0, 1.0, 1.0])

    wait_for(without_it, what="the other GPUs")
    exporter.wait_logged("GPU 1 (" + uuid + ") hangs in nvmlDeviceGetTemperature")
    node.heal(1)

    def whole() -> bool:
        page = exporter.page()
        hangs = page.series("draguard_source_hang_info")
        return len(page.series("DCGM_FI_DEV_GPU_TEMP")) == 3 and not hangs

    wait_for(whole, what="all GPUs")


def test_slow_calls_are_no_hang(node: SimulatedNode, exporter: Exporter) -> None:
    node.slow(1, 150, "nvmlDeviceGetTemperature")
    node.set_value(1, "temperature_c", 77)
    wait_for(lambda: 77.0 in exporter.series("DCGM_FI_DEV_GPU_TEMP").values())
    assert not exporter.series("draguard_source_hang_info")


def test_without_the_nvml_library_everything_else_goes_on(node: SimulatedNode) -> None:
    with Exporter(node, "run", f"--nvml-library-dir={node.root}/nowhere") as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml",reason="LibraryNotFound"} 0')
        node.inject_xid(1, 79)
        exporter.wait_shows('code="79"', node.gpu(1).uuid)
        exporter.wait_logged("install the NVIDIA driver, name its folder")
        assert exporter.get("/readyz")[0] == 200


def test_without_the_kubelets_socket_only_the_names_of_pods_are_missing(
    node: SimulatedNode, exporter: Exporter
) -> None:
    node.kubelet.stop()
    exporter.wait_shows('draguard_source_up{source="podresources",reason="NotFound"} 0')
    assert len(exporter.series("DCGM_FI_DEV_GPU_TEMP")) == 3
    exporter.wait_logged("--pod-resources-socket")
    node.kubelet.start()
    exporter.wait_shows('draguard_source_up{source="podresources"} 1')


def test_forged_and_broken_kernel_lines_are_counted_and_harm_nothing(
    node: SimulatedNode, exporter: Exporter
) -> None:
    forged = f"NVRM: Xid (PCI:{node.gpu(0).pci[:-2]}): 79, GPU has fallen off the bus"
    node.kernel_log.write(forged, facility=1)
    node.kernel_log.write_raw(b"\xff\x00 no record\n")
    node.kernel_log.write_raw(b"3,5,7,-;" + b"x" * 1_000_000 + b"\n")
    node.inject_xid(1, 31)
    exporter.wait_count(31, 1)
    counted = {"user_space": 1.0, "malformed": 1.0, "too_long": 1.0}

    def rejected() -> dict[str, float]:
        return exporter.series("draguard_kernel_log_rejected_total")

    wait_for(lambda: sum(rejected().values()) == 3.0)
    # Those that an alert reads are there from the start.
    expected = dict.fromkeys(LOST_RECORDS, 0.0) | counted
    assert rejected() == {f'reason="{reason}"': count for reason, count in expected.items()}
    assert exporter.count(79) == 0


def test_a_kernel_log_that_is_missing_or_forbidden_is_a_sentence(node: SimulatedNode) -> None:
    with Exporter(node, "run", "--kernel-log=/nowhere/kmsg") as exporter:
        exporter.wait_shows(
            'draguard_source_up{source="kmsg",reason="NotFound"} 0',
            'draguard_source_up{source="nvml"} 1',
        )
        exporter.wait_logged("--kernel-log")
        node.inject_xid(1, 48, kernel=False)
        exporter.wait_count(48, 1)


def test_a_storm_is_counted_to_the_last_line(node: SimulatedNode, exporter: Exporter) -> None:
    last = "Graphics Exception: channel 0xa"
    line = f"NVRM: Xid (PCI:{node.gpu(0).pci[:-2]}): 13, pid=7, name=a, {last}"
    for _ in range(6):
        node.kernel_log.write_all([line] * 500)
    node.inject_xid(1, 79)
    exporter.wait_count(13, 3000)
    exporter.wait_count(79, 1)


def test_an_agent_that_was_away_counts_what_happened_meanwhile_once(node: SimulatedNode) -> None:
    part = node.gpu(2).instances[0]
    with Exporter(node, "sensor"):
        with Exporter(node, "agent") as agent:
            agent.wait_shows('draguard_source_up{source="nvml"} 1')
            node.inject_xid(0, 43)
            agent.wait_count(43, 1)
        node.inject_xid(0, 43)
        node.inject_xid(2, 94, gi=part.gi, ci=part.ci)
        with Exporter(node, "agent") as agent:
            agent.wait_count(43, 2)
            agent.wait_shows(f'code="94",gi="{part.gi}"')
            assert agent.count(94) == 1


def test_a_sensor_that_is_killed_is_started_again_and_nothing_is_counted_twice(
    node: SimulatedNode, exporter: Exporter
) -> None:
    node.inject_xid(0, 43)
    exporter.wait_count(43, 1)
    sensor = exporter.sensor()
    # While a folder is in the way no sensor can serve: it stays away until it was looked at.
    exporter.socket.unlink()
    exporter.socket.mkdir()
    send(sensor, signal.SIGKILL)
    page = exporter.wait_shows('reason="SensorUnreachable"')
    assert exporter.get("/readyz")[0] == 503
    assert not page.series("DCGM_FI_DEV_GPU_TEMP")
    exporter.socket.rmdir()
    node.inject_xid(1, 79, nvml=False)
    exporter.wait_count(79, 1)
    exporter.wait_shows('draguard_source_up{source="nvml"} 1')
    assert exporter.count(43) == 1


def _tells(exporter: Exporter, code: int, source: str) -> bool:
    rows = exporter.series("draguard_xid_source_info")
    return any(f'code="{code}"' in row and f'source="{source}"' in row for row in rows)


def test_a_reboot_begins_the_counts_anew(node: SimulatedNode, exporter: Exporter) -> None:
    node.inject_xid(0, 43)
    # Both: what NVML reported after the reboot only would be of the new boot.
    for source in ("kmsg", "nvml"):
        wait_for(lambda source=source: _tells(exporter, 43, source), what=source)
    exporter.wait_count(43, 1)
    node.reboot()
    node.inject_xid(0, 79, nvml=False)
    exporter.wait_count(79, 1)
    exporter.wait_count(43, 0)
    exporter.wait_shows('draguard_source_up{source="nvml"} 1')


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", struct.pack("!BI", protocol.PROTOCOL, 1 << 31)],
    ids=["http", "huge"],
)
def test_garbage_on_the_sensors_socket_is_counted_and_the_agent_stays(
    exporter: Exporter, garbage: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(60)
        stream.connect(str(exporter.socket))
        stream.sendall(garbage)
        with contextlib.suppress(ConnectionResetError):
            assert stream.recv(1) == b""
    exporter.wait_shows("draguard_sensor_frames_refused_total 1")
    assert exporter.get("/readyz")[0] == 200


def test_the_sensors_socket_is_for_owner_and_group_only(exporter: Exporter) -> None:
    assert exporter.socket.stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_running_when_the_exporter_ends(
    node: SimulatedNode, number: signal.Signals
) -> None:
    with Exporter(node) as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        started = exporter.descendants()
        assert len(started) >= 2
        if number is signal.SIGTERM:
            assert exporter.stop() == 0
        else:
            exporter.kill()
    wait_for(lambda: not any(is_running(pid) for pid in started), what=json.dumps(started))


def test_a_flag_that_cannot_be_used_ends_the_exporter_with_a_sentence(
    node: SimulatedNode,
) -> None:
    with Exporter(node, "sensor", "--interval=-1") as exporter:
        assert exporter.wait() == 2
        exporter.wait_logged("--interval must be above 0")
