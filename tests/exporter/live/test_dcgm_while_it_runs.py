"""DCGM beside NVML in a running exporter: what it alone tells, and what its death costs."""

from collections.abc import Generator
from contextlib import contextmanager

from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.live.stage import NVML_UP, exporter_of, labels_of, samples, simulated
from tests.exporter.running import Exporter, free_port, wait_for

TENSOR, TEMPERATURE = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_GPU_TEMP"
HEALTH = "DCGM_EXP_GPU_HEALTH_STATUS"
TENSOR_FIELD, TEMPERATURE_FIELD = 1004, 150
DCGM_UP = 'draguard_source_up{source="dcgm"} 1'
ROWS = f"{TEMPERATURE},gauge,t\n{TENSOR},gauge,p\n{HEALTH},gauge,h\n"
A100, H100 = 0, 1


@contextmanager
def beside(
    node: SimulatedNode, dcgm: SimulatedDcgm, address: str, *flags: str, nvml: str = NVML_UP
) -> Generator[Exporter]:
    """An exporter that asks this engine, from when both libraries answer."""
    file = node.root / "counters.csv"
    file.write_text(ROWS, encoding="utf-8")
    requested = (f"--dcgm={address}", f"--collectors={file}", *flags)
    with exporter_of(node, *requested, dcgm=dcgm) as exporter:
        exporter.wait_shows(nvml, DCGM_UP, f"{TENSOR}{{", f"{HEALTH}{{")
        yield exporter


def reported(exporter: Exporter, family: str, node: SimulatedNode, gpu: int) -> list[float]:
    uuid = node.gpu(gpu).uuid
    return [value for labels, value in exporter.series(family).items() if uuid in labels]


def test_profiling_of_an_a100_comes_through_dcgm_alone_and_all_else_from_nvml() -> None:
    with simulated("1xA100,1xH100") as node:
        dcgm = SimulatedDcgm(node)
        dcgm.set_field(A100, TENSOR_FIELD, 0.625)
        for gpu in (A100, H100):
            dcgm.set_field(gpu, TEMPERATURE_FIELD, 99)
        node.set_value(H100, "gpm_tensor", 250_000)
        with beside(node, dcgm, "embedded") as exporter:
            wait_for(lambda: reported(exporter, TENSOR, node, A100) == [0.625], what="DCGM's value")
            wait_for(lambda: reported(exporter, TENSOR, node, H100) == [0.25], what="NVML's value")
            assert sorted(exporter.series(TEMPERATURE).values()) == [31, 31]
            # A blank is no sample, not even the last one.
            dcgm.set_field(A100, TENSOR_FIELD, "blank")
            wait_for(lambda: not reported(exporter, TENSOR, node, A100), what="no sample")
            assert reported(exporter, TENSOR, node, H100) == [0.25]
        with exporter_of(node, f"--collectors={node.root}/counters.csv") as exporter:
            exporter.wait_shows(NVML_UP, f"{TENSOR}{{")
            assert not reported(exporter, TENSOR, node, A100)


def test_equal_xids_that_only_dcgm_tells_are_counted_one_by_one(node: SimulatedNode) -> None:
    dcgm = SimulatedDcgm(node)
    # NVML refuses its events (NVML_ERROR_NOT_SUPPORTED), and there is no kernel log.
    node.error(0, 3, "nvmlDeviceRegisterEvents")
    deaf = 'draguard_source_up{source="nvml",reason="NoEvents"} 1'
    with beside(node, dcgm, "embedded", "--kernel-log=/nowhere/kmsg", nvml=deaf) as exporter:
        for times in range(1, 4):
            node.inject_xid(0, 43, kernel=False)
            exporter.wait_count(43, times)
        sources = samples(exporter, "draguard_xid_source_info", code="43")
        assert [labels["source"] for labels in sources] == ["dcgm"]


def test_one_xid_that_all_three_tell_is_one(node: SimulatedNode) -> None:
    dcgm = SimulatedDcgm(node)
    with beside(node, dcgm, "embedded") as exporter:
        node.inject_xid(0, 48)

        def sources() -> set[str]:
            rows = samples(exporter, "draguard_xid_source_info", code="48")
            return {labels["source"] for labels in rows}

        wait_for(lambda: sources() == {"kmsg", "nvml", "dcgm"}, what="three sources")
        assert exporter.count(48) == 1
        node.inject_xid(0, 48)
        exporter.wait_count(48, 2)


def test_an_engine_that_is_killed_costs_what_it_reported_and_comes_back() -> None:
    with simulated("1xA100,1xH100") as node:
        dcgm = SimulatedDcgm(node)
        address = f"127.0.0.1:{free_port()}"
        dcgm.listen(address)
        with beside(node, dcgm, address) as exporter:
            dcgm.kill(address)
            exporter.wait_shows('draguard_source_up{source="dcgm",reason=')
            (row,) = samples(exporter, "draguard_source_up", source="dcgm")
            assert row["reason"] in ("ConnectionLost", "EngineUnreachable")
            assert not reported(exporter, TENSOR, node, A100)
            assert not labels_of(exporter, HEALTH)
            node.set_value(A100, "temperature_c", 63)
            wait_for(lambda: reported(exporter, TEMPERATURE, node, A100) == [63])
            wait_for(lambda: reported(exporter, TENSOR, node, H100), what="NVML's own profiling")
            node.inject_xid(A100, 43)
            exporter.wait_count(43, 1)
            assert exporter.get("/readyz")[0] == 200
            assert exporter.shows("draguard_nvml_restarts_total 0")
            dcgm.restart(address)
            exporter.wait_shows(DCGM_UP)
            wait_for(lambda: reported(exporter, TENSOR, node, A100), what="profiling again")
            assert exporter.count(43) == 1


def test_an_engine_in_the_process_that_crashes_takes_only_its_child() -> None:
    with simulated("1xA100") as node:
        dcgm = SimulatedDcgm(node)
        with beside(node, dcgm, "embedded") as exporter:
            child = exporter.nvml_child()
            dcgm.fail("segfault", call="dcgmUpdateAllFields")
            exporter.wait_shows('draguard_source_up{source="dcgm",reason="Crashed"} 0')
            dcgm.heal()
            exporter.wait_shows(DCGM_UP, f"{TENSOR}{{")
            assert exporter.nvml_child() == child
            assert exporter.series("draguard_dcgm_restarts_total")[""] >= 1


def test_a_host_engine_behind_a_unix_socket_is_queried() -> None:
    with simulated("1xA100") as node:
        dcgm = SimulatedDcgm(node)
        socket = node.root / "he.sock"
        dcgm.listen(str(socket))
        with beside(node, dcgm, f"unix://{socket}") as exporter:
            dcgm.set_field(A100, TENSOR_FIELD, 0.5)
            wait_for(lambda: reported(exporter, TENSOR, node, A100) == [0.5])
            dcgm.health.add_incident(A100, "memory", "warn", text="remapping")

            def findings() -> list[float]:
                rows = exporter.series(HEALTH).items()
                return [value for labels, value in rows if 'health_watch="MEM"' in labels]

            wait_for(lambda: findings() == [10], what="the health watch")


def test_a_host_engine_alone_makes_the_page_where_there_is_no_nvml(node: SimulatedNode) -> None:
    dcgm = SimulatedDcgm(node)
    empty = node.root / "empty"
    empty.mkdir()
    address = f"127.0.0.1:{free_port()}"
    dcgm.listen(address)
    flags = f"--dcgm={address}", f"--nvml-library-dir={empty}"
    with exporter_of(node, *flags, dcgm=dcgm) as exporter:
        alone = 'draguard_source_up{source="dcgm",reason="WithoutNvml"} 1'
        none = 'draguard_source_up{source="nvml",reason="LibraryNotFound"} 0'
        exporter.wait_shows(alone, none, f"{TEMPERATURE}{{")
        shown = samples(exporter, TEMPERATURE)
        assert {labels["UUID"] for labels in shown} == {
            node.gpu(number).uuid for number in range(3)
        }
        assert {labels["device"] for labels in shown} == {"nvidia0", "nvidia1", "nvidia2"}
        used = samples(exporter, "DCGM_FI_DEV_FB_USED")
        profiles = {labels["GPU_I_PROFILE"] for labels in used if "GPU_I_ID" in labels}
        assert profiles == {part.profile.name for part in node.gpu(2).instances}
        for family in ("draguard_gpu_up", "draguard_gpu_info", "draguard_gpus_seen"):
            assert not exporter.series(family)
        text = exporter.log.read_text()
        assert "NVML is not available (LibraryNotFound) and DCGM answers" in text


def test_what_dcgm_alone_tells_of_an_nvlink_has_the_labels_of_a_link(node: SimulatedNode) -> None:
    dcgm = SimulatedDcgm(node)
    dcgm.set_link_field(1, 17, 585, 4)
    file = node.root / "links.csv"
    family = "DCGM_FI_DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_COUNTER"
    file.write_text(f"{family},counter,d\n", encoding="utf-8")
    with exporter_of(node, "--dcgm=embedded", f"--collectors={file}", dcgm=dcgm) as exporter:
        exporter.wait_shows(NVML_UP, DCGM_UP, f"{family}{{")
        (shown,) = samples(exporter, family)
        assert (shown["nvlink"], shown["gpu_uuid"]) == ("17", node.gpu(1).uuid)


def test_switches_and_cores_that_the_options_choose_are_on_the_page(node: SimulatedNode) -> None:
    dcgm = SimulatedDcgm(node)
    for switch in (0, 1):
        dcgm.parts.add_switch(switch, links=1, fields={858: 40 + switch})
        dcgm.parts.set_switch_link(switch, 0, {780: 7})
    dcgm.parts.add_cpu(0, first=0, cores=2, fields={1100: 0.5})
    dcgm.parts.set_core(1, {1100: 0.75})
    file = node.root / "counters.csv"
    hot, sent, busy = (
        "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT",
        "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX",
        "DCGM_FI_DEV_CPU_UTIL_TOTAL",
    )
    file.write_text(f"{hot},gauge,t\n{sent},gauge,s\n{busy},gauge,b\n", encoding="utf-8")
    requested = ("--dcgm=embedded", f"--collectors={file}", "-s", "g:1+i:0", "-p", "i:1")
    with exporter_of(node, *requested, dcgm=dcgm) as exporter:
        exporter.wait_shows(NVML_UP, DCGM_UP, f"{hot}{{", f"{sent}{{", f"{busy}{{")
        shown = {family: labels_of(exporter, family) for family in (hot, sent, busy)}
    host = {"Hostname": shown[hot][0]["Hostname"]}
    assert shown == {
        hot: [{"nvswitch": "nvswitch1"} | host],
        sent: [{"nvlink": "0", "nvswitch": "nvswitch1"} | host],
        busy: [{"cpucore": "1", "cpu": "0"} | host],
    }
