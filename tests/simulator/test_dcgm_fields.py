"""The scenario's numbers as DCGM's fields: units, slices, links, memory errors, garbage."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.dcgm_engine import SimulatedDcgm
from simulator.gpu import Failure
from simulator.node import SimulatedNode
from tests.simulator.dcgm_client import NOT_FOUND, DcgmClient, with_engine

MIB = 2**20


@pytest.fixture
def dcgm(node: SimulatedNode) -> SimulatedDcgm:
    return SimulatedDcgm(node)


@pytest.fixture
def client(dcgm: SimulatedDcgm) -> Iterator[DcgmClient]:
    with with_engine(dcgm) as client:
        yield client


def read(client: DcgmClient, kind: int, entity: int, *fields: int) -> list[object]:
    ids = ", ".join(map(str, fields))
    client.ask(f"watched(h, [({kind}, {entity})], {ids})")
    return [reading["value"] for reading in client.ask(f"latest(h, {kind}, {entity}, {ids})")]


@pytest.mark.parametrize(
    "row",
    [
        ("sm_clock_mhz", 1410, 100, 1410),
        ("power_limit_mw", 350_500, 164, 350.5),
        ("encoder_utilization", 12, 206, 12),
        ("pcie_rx_kib", 77, 201, 77),
        ("violation_thermal_ns", 5_000_000_000, 241, 5_000_000_000),
        ("slowed_hw_thermal_ns", 6, 1423, 6),
        ("sram_threshold_exceeded", 1, 346, 1),
        ("remap_banks_low", 3, 388, 3),
        ("remap_uncorrectable", 4, 393, 4),
        ("remap_correctable", 5, 394, 5),
        ("recovery_action", 2, 1523, 2),
        ("gpm_tensor", 420_000, 1004, 0.42),
        ("gpm_pcie_tx_mib", 3, 1009, 3 * MIB),
        ("gpm_nvlink_rx_mib", 5, 1012, 5 * MIB),
    ],
)
def test_a_number_of_the_scenario_is_reported_in_dcgms_unit(
    node: SimulatedNode, client: DcgmClient, row: tuple[str, int, int, float]
) -> None:
    name, number, field, reported = row
    assert read(client, 1, 3, field) != [reported]
    node.set_value(3, name, number)
    assert client.ask(f"value(h, 1, 3, {field})") == reported


def test_a_slice_has_profiling_of_its_own(node: SimulatedNode, client: DcgmClient) -> None:
    node.set_value(0, "gpm_sm", 900_000)
    with node.scenario.edit() as scenario:
        scenario.gpus[0].instances[2].values["gpm_sm"] = 250_000
    assert read(client, 1, 0, 1002) == [0.9]
    assert read(client, 4, 2, 1002) == [0.25]
    assert read(client, 5, 2, 1002) == [0.25]
    assert read(client, 4, 3, 1002) == [0.0]


def test_errors_of_links_are_summed(node: SimulatedNode, client: DcgmClient) -> None:
    with node.scenario.edit() as scenario:
        for gpu in (0, 3):
            scenario.gpus[gpu].links = {2: {"replay": 7}, 5: {"replay": 1, "tx_kib": 4096}}
    assert read(client, 1, 3, 409, 429, 449) == [0, 8, 4]
    assert read(client, 1, 0, 429) == [0]


def test_links_are_entities_of_a_dcgm_that_lists_them(
    node: SimulatedNode, dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    assert client.error_of("entities(h, 6)") == -6
    dcgm.release.list_links()
    links = client.ask("entities(h, 6)")
    assert len(links) == 8 * 18
    assert links[18 * 3 + 2] == 3 << 24 | 2 << 8 | 1
    with node.scenario.edit() as scenario:
        scenario.gpus[3].links = {2: {"replay": 7}}
    dcgm.set_link_field(3, 2, 580, 5)
    assert read(client, 6, links[18 * 3 + 2], 429, 580) == [7, 5]
    assert read(client, 6, links[18 * 3 + 3], 429, 580) == [0, NOT_FOUND]
    assert client.error_of("group(h, (6, 3 << 24 | 18 << 8 | 1))") == -1


def test_the_states_of_links_are_reported_by_gpu(node: SimulatedNode, client: DcgmClient) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[3].links = {2: {"state": 0}}
    states = client.ask("link_states(h)")
    assert len(states) == 8
    assert states[0] == [3] * 18
    assert states[3] == [3, 3, 2, *[3] * 15]


def test_memory_errors_are_reported_by_place(node: SimulatedNode, client: DcgmClient) -> None:
    for name, number in {
        "ecc_sbe_volatile": 10,
        "ecc_dbe_volatile": 9,
        "sram_corrected_volatile": 4,
        "sram_parity_volatile": 2,
        "sram_secded_volatile": 3,
    }.items():
        node.set_value(3, name, number)
    assert read(client, 1, 3, 310, 311, 318, 319, 342, 343) == [10, 9, 6, 4, 4, 5]
    assert read(client, 1, 3, 312, 328, 344, 345) == [0, 0, 0, 0]
    node.set_value(3, "ecc_mode", 0)
    assert read(client, 1, 3, 318, 342) == [NOT_FOUND, NOT_FOUND]


def test_the_fabric_is_reported_as_dcgm_does(node: SimulatedNode, client: DcgmClient) -> None:
    assert read(client, 1, 3, 170) == [3]
    node.set_value(3, "fabric_status", 999)
    assert read(client, 1, 3, 170, 171) == [4, 999]
    node.set_value(3, "fabric_state", 2)
    assert read(client, 1, 3, 170) == [2]


def test_limits_and_versions_are_those_of_the_product(
    node: SimulatedNode, client: DcgmClient
) -> None:
    product = node.gpu(3).product
    assert read(client, 1, 3, 85, 90, 113, 161, 162, 235) == [
        *(product.vbios, product.bar1_mib, product.sm_clock_mhz),
        *(product.power_min_mw / 1000, product.power_max_mw / 1000, product.pcie_generation),
    ]


@pytest.mark.parametrize("words", ["1xA100", "1xH200", "1xB200", "1xGB200"])
def test_every_known_field_of_every_product_can_be_watched_and_read(
    tmp_path: Path, words: str
) -> None:
    with SimulatedNode(tmp_path / "other", "node-2").create(words) as node:
        dcgm = SimulatedDcgm(node)
        with with_engine(dcgm) as client:
            client.ask(
                "ids = [i for i in range(1500) if c.library.DcgmFieldGetById(i) and i < 1001]"
            )
            client.ask("[watched(h, [(1, 0)], *ids[n:n + 128]) for n in range(0, len(ids), 128)]")
            statuses = client.ask("[one['status'] for one in latest(h, 1, 0, *ids)]")
            assert client.ask("value(h, 1, 0, 50)") == node.gpu(0).product.name
            assert set(statuses) == {0, -14}
            assert statuses.count(-14) == 1


def test_blackwell_has_other_link_counters(tmp_path: Path) -> None:
    made = SimulatedNode(tmp_path / "other", "node-2").create("1xB200")
    with made as node, with_engine(SimulatedDcgm(node)) as client:
        assert read(client, 1, 0, 429, 1201) == [NOT_FOUND, 0]


def test_a_driver_that_tells_garbage_is_passed_on(node: SimulatedNode, client: DcgmClient) -> None:
    node.set_failure(3, Failure("garbage"))
    power, temperature = read(client, 1, 3, 155, 150)
    assert math.isnan(float(str(power)))
    assert temperature == -(2**63)
    assert read(client, 1, 4, 150) == [31]


def test_a_gpu_that_the_driver_lets_go_and_takes_again_must_be_watched_again(
    node: SimulatedNode, client: DcgmClient
) -> None:
    assert read(client, 1, 3, 150) == [31]
    node.unbind(3)
    assert client.ask("status(h, 3)") == 7
    node.bind(3)
    assert client.ask("status(h, 3)") == 1
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == -16
    assert read(client, 1, 3, 150) == [31]
    node.unbind(3)
    node.bind(3)
    assert client.ask("latest(h, 1, 3, 150)")[0]["status"] == -16
