"""NVLink, fabric and peer access through the real pynvml."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.node import SimulatedNode
from simulator.product import SHORT_NAMES
from tests.simulator.nvml_client import NvmlClient
from tests.simulator.nvml_readings import teach

INVALID_ARGUMENT, NOT_SUPPORTED = 2, 3
ALL = 0xFFFFFFFF

BEFORE_BLACKWELL = {
    "crc_flit": ([*range(32, 38), *range(96, 102)], 38, "NVML_NVLINK_ERROR_DL_CRC_FLIT"),
    "crc_data": ([*range(39, 45), *range(102, 108)], 45, "NVML_NVLINK_ERROR_DL_CRC_DATA"),
    "replay": ([*range(46, 52), *range(108, 114)], 52, "NVML_NVLINK_ERROR_DL_REPLAY"),
    "recovery": ([*range(53, 59), *range(114, 120)], 59, "NVML_NVLINK_ERROR_DL_RECOVERY"),
    "ecc": (list(range(148, 160)), 160, "NVML_NVLINK_ERROR_DL_ECC_DATA"),
}
"""Name to the field ids of links 0 to 11, of the total, and the counter's name in the call."""
BY_SCOPE = {
    "tx_kib": "THROUGHPUT_DATA_TX", "rx_kib": "THROUGHPUT_DATA_RX",
    "raw_tx_kib": "THROUGHPUT_RAW_TX", "raw_rx_kib": "THROUGHPUT_RAW_RX",
}  # fmt: skip
BLACKWELL = {
    "tx_packets": "XMIT_PACKETS", "tx_bytes": "XMIT_BYTES", "rx_packets": "RCV_PACKETS",
    "rx_bytes": "RCV_BYTES", "malformed": "MALFORMED_PACKET_ERRORS",
    "overruns": "BUFFER_OVERRUN_ERRORS", "rx_errors": "RCV_ERRORS",
    "rx_remote_errors": "RCV_REMOTE_ERRORS", "rx_general_errors": "RCV_GENERAL_ERRORS",
    "integrity_errors": "LOCAL_LINK_INTEGRITY_ERRORS", "tx_discards": "XMIT_DISCARDS",
    "recovered": "LINK_RECOVERY_SUCCESSFUL_EVENTS",
    "recovery_failed": "LINK_RECOVERY_FAILED_EVENTS", "recoveries": "LINK_RECOVERY_EVENTS",
    "effective_errors": "EFFECTIVE_ERRORS", "effective_ber": "EFFECTIVE_BER",
    "symbol_errors": "SYMBOL_ERRORS", "symbol_ber": "SYMBOL_BER",
    **{f"fec_{errors}": f"FEC_HISTORY_{errors}" for errors in range(16)},
}  # fmt: skip


@pytest.fixture
def taught(nvml: NvmlClient) -> NvmlClient:
    teach(nvml)
    return nvml


@pytest.fixture
def blackwell(tmp_path: Path) -> Iterator[tuple[SimulatedNode, NvmlClient]]:
    node = SimulatedNode(tmp_path / "b", "b").create("2xB200")
    with node, NvmlClient(node) as nvml:
        nvml.ask("nvmlInit()")
        nvml.ask("g = [nvmlDeviceGetHandleByIndex(i) for i in (0, 1)]")
        teach(nvml)
        yield node, nvml


def set_links(node: SimulatedNode, gpu: int, name: str, numbers: dict[int, int]) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[gpu].links = {link: {name: number} for link, number in numbers.items()}


@pytest.mark.parametrize(
    ("word", "links", "version"),
    [("A100", 12, 4), ("A100-80GB", 12, 4), ("H100", 18, 6), ("H200", 18, 6), ("B200", 18, 7),
     ("GB200", 18, 7)],
)  # fmt: skip
def test_a_product_has_its_links_and_no_more(
    tmp_path: Path, word: str, links: int, version: int
) -> None:
    with SimulatedNode(tmp_path, "n").create(f"1x{word}") as node, NvmlClient(node) as nvml:
        nvml.ask("nvmlInit()")
        nvml.ask("h = nvmlDeviceGetHandleByIndex(0)")
        teach(nvml)
        assert nvml.ask("field(h, NVML_FI_DEV_NVLINK_LINK_COUNT)") == links
        states = f"[nvmlDeviceGetNvLinkState(h, i) for i in range({links})]"
        assert nvml.ask(states) == [1] * links
        assert nvml.ask("nvmlDeviceGetNvLinkVersion(h, 0)") == version
        assert nvml.ask("field(h, 164, 3)") == SHORT_NAMES[word].nvlink_mbps
        for line in ("nvmlDeviceGetNvLinkState(h, {})", "field(h, 138, {})", "field(h, 165, {})"):
            assert nvml.error_of(line.format(links)) == INVALID_ARGUMENT


def test_one_link_goes_down_and_the_others_stay_up(node: SimulatedNode, taught: NvmlClient) -> None:
    set_links(node, 3, "state", {7: 0, 9: 2})
    states = taught.ask("[nvmlDeviceGetNvLinkState(g[3], i) for i in range(18)]")
    assert [link for link, state in enumerate(states) if state == 0] == [7, 9]
    assert taught.ask("[field(g[3], 165, i) for i in (6, 7, 9)]") == [1, 0, 2]
    assert taught.error_of(f"field(g[3], 165, {ALL})") == INVALID_ARGUMENT
    assert taught.ask("nvmlDeviceGetNvLinkState(g[4], 7)") == 1


@pytest.mark.parametrize("name", BEFORE_BLACKWELL)
def test_an_error_counter_has_an_id_per_link_and_one_for_all(
    node: SimulatedNode, taught: NvmlClient, name: str
) -> None:
    fields, total, call = BEFORE_BLACKWELL[name]
    set_links(node, 3, name, {link: 100 + link for link in range(18)})
    assert taught.ask(f"[field(g[3], i) for i in {fields}]") == [100 + n for n in range(12)]
    assert taught.ask(f"field(g[3], {total})") == sum(range(100, 118))
    calls = f"[nvmlDeviceGetNvLinkErrorCounter(g[3], i, {call}) for i in range(18)]"
    assert taught.ask(calls) == list(range(100, 118))


@pytest.mark.parametrize(("field", "name"), [(161, "replay"), (162, "recovery"), (163, "crc_flit")])
def test_three_error_counters_also_take_the_link_as_scope(
    node: SimulatedNode, taught: NvmlClient, field: int, name: str
) -> None:
    set_links(node, 3, name, {17: 5, 2: 3})
    read = f"[field(g[3], {field}, i) for i in (2, 3, 17, {ALL})]"
    assert taught.ask(read) == [3, 0, 5, 8]


@pytest.mark.parametrize("name", BY_SCOPE)
def test_throughput_is_reported_per_link_and_summed(
    node: SimulatedNode, taught: NvmlClient, name: str
) -> None:
    set_links(node, 3, name, {0: 2**40, 17: 5})
    field = f"NVML_FI_DEV_NVLINK_{BY_SCOPE[name]}"
    read = f"[field(g[3], {field}, i) for i in (0, 1, 17, {ALL})]"
    assert taught.ask(read) == [2**40, 0, 5, 2**40 + 5]


def test_a_counter_that_one_link_does_not_tell_has_no_sum(
    node: SimulatedNode, taught: NvmlClient
) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[3].links = {4: {"tx_kib": None}}
    assert taught.ask("field(g[3], 138, 3)") == 0
    assert taught.error_of("field(g[3], 138, 4)") == NOT_SUPPORTED
    assert taught.error_of(f"field(g[3], 138, {ALL})") == NOT_SUPPORTED


@pytest.mark.parametrize("name", BLACKWELL)
def test_blackwell_has_counters_of_its_own(
    blackwell: tuple[SimulatedNode, NvmlClient], name: str
) -> None:
    node, nvml = blackwell
    set_links(node, 1, name, {3: 7, 4: 2})
    field = f"NVML_FI_DEV_NVLINK_COUNT_{BLACKWELL[name]}"
    assert nvml.ask(f"[field(g[1], {field}, i) for i in (3, 4, 5, {ALL})]") == [7, 2, 0, 9]


def test_blackwell_and_older_links_do_not_share_counters(
    taught: NvmlClient, blackwell: tuple[SimulatedNode, NvmlClient]
) -> None:
    _, newer = blackwell
    for name in BLACKWELL.values():
        assert taught.error_of(f"field(g[3], NVML_FI_DEV_NVLINK_COUNT_{name})") == NOT_SUPPORTED
    for fields, total, call in BEFORE_BLACKWELL.values():
        for field in (*fields, total):
            assert newer.error_of(f"field(g[1], {field})") == NOT_SUPPORTED
        assert newer.error_of(f"nvmlDeviceGetNvLinkErrorCounter(g[1], 0, {call})") == NOT_SUPPORTED


def test_the_other_end_of_a_link_is_a_switch(nvml: NvmlClient) -> None:
    assert nvml.ask("nvmlDeviceGetNvLinkRemoteDeviceType(g[3], 5)") == 2
    pci = nvml.ask("nvmlDeviceGetNvLinkRemotePciInfo(g[3], 5)")
    assert (pci["busId"], pci["bus"]) == ("00000000:C3:00.0", 0xC3)


def test_peers_are_fine_unless_one_of_them_is_not(node: SimulatedNode, nvml: NvmlClient) -> None:
    matrix = "[[nvmlDeviceGetP2PStatus(a, b, 2) for b in g] for a in g]"
    assert nvml.ask(matrix) == [[0] * 8] * 8
    node.set_value(3, "p2p_status", 5)
    found = nvml.ask(matrix)
    assert [[status == 5 for status in row] for row in found] == [
        [3 in (one, other) for other in range(8)] for one in range(8)
    ]
    assert nvml.error_of("nvmlDeviceGetP2PStatus(g[0], g[1], 9)") == INVALID_ARGUMENT


def test_the_fabric_tells_cluster_clique_and_health(
    node: SimulatedNode, taught: NvmlClient
) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[3].cluster_uuid = "01234567-89AB-cdef-0123-456789abcdef"
        scenario.gpus[3].values |= {"fabric_clique": 9, "fabric_health_summary": 2}
    found = taught.ask("fabric(g[3])")
    assert bytes(found["clusterUuid"]).hex() == "0123456789abcdef0123456789abcdef"
    assert (found["cliqueId"], found["state"], found["healthSummary"]) == (9, 3, 2)
    assert taught.ask("fabric(g[4])")["clusterUuid"] == [0] * 16
    taught.ask("two = c_nvmlGpuFabricInfo_v2_t()")
    taught.ask("nvmlDeviceGetGpuFabricInfoV(g[3], byref(two))")
    assert taught.ask("two.cliqueId") == 9
    taught.ask("two.version = 7")
    assert taught.error_of("nvmlDeviceGetGpuFabricInfoV(g[3], byref(two))") == 25
    taught.ask("one = c_nvmlGpuFabricInfo_t()")
    taught.ask("nvmlDeviceGetGpuFabricInfo(g[3], byref(one))")
    assert taught.ask("(one.cliqueId, one.state)") == [9, 3]


def test_a_gpu_whose_links_are_disabled_has_none(node: SimulatedNode, taught: NvmlClient) -> None:
    node.set_value(3, "nvlink_disabled", 1)
    for line in (
        *("nvmlDeviceGetNvLinkState(g[3], 0)", "nvmlDeviceGetNvLinkVersion(g[3], 18)"),
        *("field(g[3], 91)", "field(g[3], 138)", f"field(g[3], 165, {ALL})", "field(g[3], 164)"),
    ):
        assert taught.error_of(line) == NOT_SUPPORTED
    # Success, and no value.
    switches = "nvmlDeviceGetFieldValues(g[3], [147])[0]"
    taught.ask(f"switches = {switches}")
    assert taught.ask("(switches.nvmlReturn, switches.valueType, switches.timestamp)") == [0, 0, 0]
    assert taught.ask("switches.value.dVal") == 0
    assert taught.ask("field(g[4], 91)") == taught.ask("field(g[4], 147)") == 18


def test_without_a_fabric_nothing_is_reported_of_it(
    node: SimulatedNode, taught: NvmlClient
) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[3].cluster_uuid = "01234567-89AB-cdef-0123-456789abcdef"
        scenario.gpus[3].values |= {"fabric_state": 0, "fabric_clique": 9}
    found = taught.ask("fabric(g[3])")
    assert found.pop("version") == 0x03000028
    assert found.pop("clusterUuid") == [0] * 16
    assert set(found.values()) == {0}


def test_an_a100_has_no_fabric_and_a_gb200_has_chip_links(tmp_path: Path) -> None:
    node = SimulatedNode(tmp_path, "n").create("1xA100,1xGB200")
    with node, NvmlClient(node) as nvml:
        nvml.ask("nvmlInit()")
        nvml.ask("g = [nvmlDeviceGetHandleByIndex(i) for i in (0, 1)]")
        teach(nvml)
        assert nvml.error_of("fabric(g[0])") == NOT_SUPPORTED
        assert nvml.error_of("field(g[0], NVML_FI_DEV_C2C_LINK_COUNT)") == NOT_SUPPORTED
        assert nvml.ask("[field(g[1], 171, i) for i in range(field(g[1], 170))]") == [1, 1]
        assert nvml.error_of("field(g[1], 171, 2)") == INVALID_ARGUMENT
