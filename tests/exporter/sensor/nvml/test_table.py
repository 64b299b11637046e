"""Each field of the table, from the simulated GPU to DCGM's unit, through the real NVML child."""

import csv
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pynvml
import pytest

from exporter.model.readings import GpuReading, Values
from exporter.sensor.nvml import gpm, link_table
from exporter.sensor.nvml import library as nvml
from exporter.sensor.nvml.table import OF_SLICES, TABLE, Call, Field
from simulator.node import SimulatedNode
from tests.exporter.running import ROOT
from tests.exporter.sensor.nvml.child_run import NvmlChild

VALUES = {
    "utilization": 41,
    "memory_utilization": 42,
    "encoder_utilization": 43,
    "decoder_utilization": 44,
    "memory_used_mib": 1234,
    "bar1_used_mib": 321,
    "power_mw": 345_678,
    "power_limit_mw": 512_345,
    "energy_mj": 9_876_543_210,
    "temperature_c": 61,
    "memory_temperature_c": 71,
    "temperature_margin_c": 23,
    "shutdown_temperature_c": 95,
    "slowdown_temperature_c": 91,
    "max_temperature_c": 88,
    "max_memory_temperature_c": 96,
    "sm_clock_mhz": 1410,
    "memory_clock_mhz": 2611,
    "video_clock_mhz": 1111,
    "application_sm_clock_mhz": 1400,
    "fan_speed": 55,
    "application_memory_clock_mhz": 2600,
    "clocks_event_reasons": 0x24,
    "performance_state": 3,
    "compute_mode": 3,
    "persistence_mode": 0,
    "recovery_action": 4,
    "violation_power_ns": 240,
    "violation_thermal_ns": 241,
    "violation_sync_boost_ns": 242,
    "violation_board_limit_ns": 243,
    "violation_low_utilization_ns": 244,
    "violation_reliability_ns": 245,
    "violation_application_clocks_ns": 246,
    "violation_base_clocks_ns": 247,
    "slowed_sw_thermal_ns": 1422,
    "slowed_hw_thermal_ns": 1423,
    "slowed_hw_power_brake_ns": 1424,
    "pcie_generation": 4,
    "pcie_width": 8,
    "pcie_tx_kib": 111,
    "pcie_rx_kib": 222,
    "pcie_replays": 17,
    "pcie_correctable_errors": 18,
    "ecc_sbe_volatile": 10_000,
    "ecc_dbe_volatile": 20_000,
    "ecc_sbe_aggregate": 30_000,
    "ecc_dbe_aggregate": 40_000,
    **{f"ecc_sbe_volatile_{place}": n for n, place in enumerate(("l1", "l2", "reg", "tex"), 301)},
    **{f"ecc_dbe_volatile_{place}": n for n, place in enumerate(("l1", "l2", "reg", "tex"), 311)},
    **{f"ecc_sbe_aggregate_{place}": n for n, place in enumerate(("l1", "l2", "reg", "tex"), 321)},
    **{f"ecc_dbe_aggregate_{place}": n for n, place in enumerate(("l1", "l2", "reg", "tex"), 331)},
    "ecc_dbe_volatile_cbu": 341,
    "ecc_dbe_aggregate_cbu": 342,
    "sram_corrected_volatile": 1,
    "sram_parity_volatile": 2,
    "sram_secded_volatile": 3,
    "sram_corrected_aggregate": 4,
    "sram_parity_aggregate": 5,
    "sram_secded_aggregate": 6,
    "sram_threshold_exceeded": 1,
    "remap_correctable": 31,
    "remap_uncorrectable": 32,
    "remap_pending": 0,
    "remap_failure": 1,
    "remap_banks_max": 51,
    "remap_banks_high": 52,
    "remap_banks_partial": 53,
    "remap_banks_low": 54,
    "remap_banks_none": 55,
    "retired_sbe": 7,
    "retired_dbe": 8,
    "retired_pending": 1,
    "unrepairable_memory": 1,
    "fabric_clique": 9,
    "fabric_health_mask": 34,
    "fabric_health_summary": 2,
    "c2c_links": 5,
    "c2c_status": 1,
    "c2c_bandwidth_mbps": 44_712,
    "c2c_errors": 61,
    "c2c_replays": 62,
    "c2c_back_to_back_replays": 63,
}
CLUSTER = "0f3f3b54-93a2-4c63-9c38-4b1a0a5b8f11"

SHOWN: Values = {
    1: "580.95.05",
    2: "13.580.95.05",
    4: 2,
    5: 13_000,
    50: "NVIDIA H100 80GB HBM3",
    51: "Nvidia",
    52: 1,
    55: 1,
    56: "2.1",
    80: "7.16",
    63: 9 << 16,
    65: 2,
    66: 0,
    67: 0,
    82: "G520.0200.00.05",
    85: "96.00.61.00.01",
    90: 131_072,
    92: 321,
    93: 131_072 - 321,
    94: 1,
    100: 1410,
    101: 2611,
    102: 1111,
    110: 1400,
    111: 2600,
    112: 0x24,
    113: 1980,
    114: 2619,
    115: 1545,
    140: 71,
    150: 61,
    151: 96,
    152: 88,
    153: 23,
    155: 345.678,
    156: 9_876_543_210,
    157: 345.678,
    158: 91,
    159: 95,
    160: 512.345,
    161: 200.0,
    162: 700.0,
    163: 700.0,
    164: 512.345,
    170: 3,
    171: 0,
    172: CLUSTER,
    173: 9,
    174: 34,
    175: 2,
    190: 3,
    191: 55,
    200: 111,
    201: 222,
    202: 17,
    203: 41,
    204: 42,
    206: 43,
    207: 44,
    235: 5,
    236: 16,
    237: 4,
    238: 8,
    **{number: number for number in range(240, 248)},
    250: 81_559,
    251: 81_559 - 551 - 1234,
    252: 1234,
    253: 551,
    254: pytest.approx(1234 / (81_559 - 551)),  # pyright: ignore[reportAssignmentType] # a number all the same
    285: 5,
    286: 1,
    287: 44_712,
    300: 1,
    301: 1,
    310: 10_000,
    311: 20_000,
    312: 30_000,
    313: 40_000,
    314: 301,
    315: 311,
    316: 302,
    317: 312,
    320: 303,
    321: 313,
    322: 304,
    323: 314,
    324: 321,
    325: 331,
    326: 322,
    327: 332,
    330: 323,
    331: 333,
    332: 324,
    333: 334,
    337: 341,
    341: 342,
    342: 1,
    343: 5,
    344: 4,
    345: 11,
    # DRAM is what the total has beyond the SRAM.
    318: 9_999,
    319: 19_995,
    328: 29_996,
    329: 39_989,
    346: 1,
    385: 51,
    386: 52,
    387: 53,
    388: 54,
    389: 55,
    390: 7,
    391: 8,
    392: 1,
    393: 32,
    394: 31,
    395: 1,
    396: 0,
    409: 0,
    419: 0,
    429: 0,
    439: 0,
    526: 0,
    1220: 0,
    1400: 61,
    1401: 62,
    1402: 63,
    1420: 240,
    1421: 242,
    1422: 1422,
    1423: 1423,
    1424: 1424,
    1501: 18,
    1507: 1,
    1523: 4,
}
OF_THE_BOARD = {53: "serial", 54: "uuid"}
NOT_SIMULATED = {57, 58, 59, 81, 83, 120, 334, 335, 336, 338, 339, 340, 1403}
"""The library answers NOT_SUPPORTED, or, for the PCI ids, with numbers of its own."""


@pytest.fixture(scope="module")
def read() -> Iterator[GpuReading]:
    """GPU 1 of a node, with every value set to something else."""
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("2xH100") as node,
    ):
        with node.scenario.edit() as scenario:
            scenario.gpus[1].values |= VALUES
            scenario.gpus[1].cluster_uuid = CLUSTER
        with NvmlChild(node) as child:
            yield child.gpu(1, TABLE)


@pytest.mark.parametrize("number", sorted(TABLE.keys() - NOT_SIMULATED - OF_THE_BOARD.keys()))
def test_a_field_is_reported_in_dcgms_unit(read: GpuReading, number: int) -> None:
    assert read.values.get(number) == SHOWN[number]


def test_identity_is_that_of_the_board(read: GpuReading) -> None:
    for number, name in OF_THE_BOARD.items():
        assert read.values[number] == getattr(read, name) != ""
    assert str(read.values[57]).lower().endswith(read.bus_id)
    assert read.values[58] == 0x2330_10DE


def test_the_readings_own_fields_agree_with_the_table(read: GpuReading) -> None:
    assert (read.fb_used, read.recovery_supported, read.recovery_action) == (
        1234 << 20,
        True,
        4,
    )
    assert (read.sbe_volatile, read.dbe_volatile) == (10_000, 20_000)
    assert (read.sbe_aggregate, read.dbe_aggregate) == (30_000, 40_000)
    assert (read.remap_pending, read.remap_failure, read.sram_threshold) == (
        False,
        True,
        True,
    )
    assert read.slowdown == 0x24
    assert read.fabric is not None
    assert (read.fabric.state, read.fabric.clique, read.fabric.cluster_uuid) == (
        3,
        9,
        CLUSTER,
    )


def test_what_a_gpu_does_not_have_is_left_out_and_is_no_error() -> None:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("1xH100") as node,
        NvmlChild(node) as child,
    ):
        gpu = child.gpu(0, TABLE)
    # A fan, Grace's links, and retired pages.
    assert not gpu.values.keys() & {191, 285, 286, 287, 390, 391, 392}
    assert (gpu.error, gpu.retired_pending) == ("", None)


def test_nothing_is_read_that_nobody_wants() -> None:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("1xH100") as node,
        NvmlChild(node) as child,
    ):
        assert child.gpu(0, ()).values == {}
        assert child.gpu(0, (150, 230, 999_999)).values == {150: 31}


def _rows() -> dict[int, dict[str, str]]:
    with (ROOT / "exporter/data/dcgm_fields.csv").open(newline="", encoding="utf-8") as file:
        return {int(row["id"]): row for row in csv.DictReader(file)}


def test_every_id_is_a_field_of_dcgm_and_of_its_type() -> None:
    rows = _rows()
    for number, sources in TABLE.items():
        kinds = {"text" if s.unit is None else "float" if s.unit.real else "int" for s in sources}
        assert kinds == {rows[number]["type"]}, number
    ways = link_table.LINK_FIELDS | link_table.GPU_FIELDS | gpm.METRICS.keys()
    assert not ways - rows.keys()
    assert 230 not in TABLE


def test_the_unit_is_the_one_that_is_documented() -> None:
    rows = _rows()
    for number, sources in TABLE.items():
        if rows[number]["unit"] in ("MHz", "C", "W", "mJ", "MiB", "%", "ns", "KB/s"):
            assert {s.unit and s.unit.name for s in sources} == {rows[number]["unit"]}, number


def test_every_name_is_one_of_nvidia_ml_pys() -> None:
    sources = [source for found in TABLE.values() for source in found]
    links = [s for link in (0, 17) for found in link_table.per_link(link).values() for s in found]
    for source in (*sources, *links):
        if isinstance(source, Call):
            assert hasattr(pynvml, source.name.removesuffix("_v2")), source
        else:
            assert isinstance(source, Field)
            assert nvml.number_of(source.name), source
    for name, _ in gpm.METRICS.values():
        assert gpm.metric_number(name), name


def test_what_slices_are_queried_for_is_in_the_table() -> None:
    assert OF_SLICES - TABLE.keys() == set()
