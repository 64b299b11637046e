"""The DCGM fields that the simulated engine knows: id, type, and where the value comes from.

Ids and types as in dcgm_fields.h of DCGM 4.x; tags are the simulator's own. One
table for the C library, which gets it as a generated header
(`simulator.dcgm_build`), and for whoever injects a value. Pure.
"""

import msgspec

from simulator import grammar
from simulator.quantities import SLICE_VALUES

GLOBAL, GPU, VGPU, SWITCH, GPU_INSTANCE, COMPUTE_INSTANCE, LINK, CPU, CPU_CORE, CONNECTX = range(10)
"""Entity levels (DCGM_FE_*): how far down a field is defined."""

MIB, MILLIONTHS = 2**20, 1_000_000
XID = 230
PROFILING = range(1001, 1100)
"""Fields of the profiling module; a group with one that a GPU lacks cannot be watched."""
DEFAULT_PROFILING = tuple(range(1001, 1017))
"""What a GPU has unless dcgm.ini says otherwise."""


class Field(msgspec.Struct, frozen=True):
    """One field: `type` i (int64), d (double), s (string) or b (binary)."""

    id: int
    tag: str
    type: str = "i"
    source: str = "absent"
    """Of `enum source` in dcgm/field.h."""
    value: str = ""
    """Name of a number of the scenario: of the GPU, or with source `links` of its NVLinks."""
    divisor: float = 1
    """Scenario unit to DCGM unit: mW to W is 1000."""
    level: int = GPU
    not_on_mig: bool = False
    """A GPU in MIG mode answers not supported."""


Fields = list[Field]


def _values(rows: str, *, kind: str = "i", divisor: float = 1, not_on_mig: bool = False) -> Fields:
    """Fields that are one number of the scenario; `rows` are `id name` pairs."""
    words = rows.split()
    return [
        Field(int(number), name, kind, "value", name, divisor, not_on_mig=not_on_mig)
        for number, name in zip(words[::2], words[1::2], strict=True)
    ]


def _facts(rows: str, *, kind: str = "i") -> Fields:
    """Fields that dcgm/facts.c knows."""
    words = rows.split()
    return [
        Field(int(number), tag, kind, "fact")
        for number, tag in zip(words[::2], words[1::2], strict=True)
    ]


def _links(rows: str, source: str) -> Fields:
    """Fields that are the sum of a counter over all NVLinks."""
    words = rows.split()
    return [
        Field(int(number), f"nvlink_{name}", source=source, value=name)
        for number, name in zip(words[::2], words[1::2], strict=True)
    ]


def _profiling(first: int, names: str, divisor: float, kind: str = "d") -> Fields:
    """Profiling fields with ids in a row; a number of the GPU or of the MIG slice."""
    return [
        Field(first + place, name, kind, "profiling", f"gpm_{name}", divisor)
        for place, name in enumerate(names.split())
    ]


_MAPPED = (
    *_facts("1 driver_version 2 nvml_version", kind="s"),
    *_facts("4 device_count 5 cuda_driver_version"),
    *_facts("50 name 51 brand 53 serial 54 uuid 57 pci_busid 85 vbios_version", kind="s"),
    *_facts("56 oem_inforom_ver 80 ecc_inforom_ver 82 inforom_image_ver", kind="s"),
    *_facts("172 fabric_cluster_uuid", kind="s"),
    *_facts("52 nvml_index 55 minor_number 58 pci_combined_id 59 pci_subsys_id"),
    *_facts("63 cuda_compute_capability 67 mig_mode 69 mig_max_slices 90 bar1_total 93 bar1_free"),
    *_facts("113 max_sm_clock 114 max_memory_clock 115 max_video_clock"),
    *_facts("161 power_mgmt_limit_min 162 power_mgmt_limit_max 163 power_mgmt_limit_def", kind="d"),
    *_facts("170 fabric_manager_status 235 pcie_max_link_gen 236 pcie_max_link_width"),
    *_values("65 compute_mode 66 persistence_mode 92 bar1_used_mib"),
    *_values("100 sm_clock_mhz 101 memory_clock_mhz 102 video_clock_mhz"),
    *_values("110 application_sm_clock_mhz 111 application_memory_clock_mhz"),
    *_values("112 clocks_event_reasons 140 memory_temperature_c 150 temperature_c"),
    *_values("151 max_memory_temperature_c 152 max_temperature_c 153 temperature_margin_c"),
    *_values("155 power_mw 157 power_mw", kind="d", divisor=1000),
    *_values("156 energy_mj 158 slowdown_temperature_c 159 shutdown_temperature_c"),
    *_values("160 power_limit_mw 164 power_limit_mw", kind="d", divisor=1000),
    *_values("171 fabric_status 173 fabric_clique 174 fabric_health_mask"),
    *_values("175 fabric_health_summary 190 performance_state 191 fan_speed"),
    *_values("200 pcie_tx_kib 201 pcie_rx_kib 202 pcie_replays"),
    *_values("203 utilization 204 memory_utilization", not_on_mig=True),
    *_values("206 encoder_utilization 207 decoder_utilization", not_on_mig=True),
    Field(XID, "xid_errors", source="xid"),
    *_values("237 pcie_generation 238 pcie_width 240 violation_power_ns"),
    *_values("241 violation_thermal_ns 242 violation_sync_boost_ns 243 violation_board_limit_ns"),
    *_values("244 violation_low_utilization_ns 245 violation_reliability_ns"),
    *_values("246 violation_application_clocks_ns 247 violation_base_clocks_ns"),
    *(Field(n, f"fb_{n}", source="memory") for n in (250, 251, 252, 253)),
    Field(254, "fb_used_percent", "d", "memory"),
    *_values("285 c2c_links 286 c2c_status 287 c2c_bandwidth_mbps 300 ecc_mode 301 ecc_mode"),
    *_values("310 ecc_sbe_volatile 311 ecc_dbe_volatile 312 ecc_sbe_aggregate"),
    *_values("313 ecc_dbe_aggregate 314 ecc_sbe_volatile_l1 315 ecc_dbe_volatile_l1"),
    *_values("316 ecc_sbe_volatile_l2 317 ecc_dbe_volatile_l2 320 ecc_sbe_volatile_reg"),
    *_values("321 ecc_dbe_volatile_reg 322 ecc_sbe_volatile_tex 323 ecc_dbe_volatile_tex"),
    *_values("324 ecc_sbe_aggregate_l1 325 ecc_dbe_aggregate_l1 326 ecc_sbe_aggregate_l2"),
    *_values("327 ecc_dbe_aggregate_l2 330 ecc_sbe_aggregate_reg 331 ecc_dbe_aggregate_reg"),
    *_values("332 ecc_sbe_aggregate_tex 333 ecc_dbe_aggregate_tex 337 ecc_dbe_volatile_cbu"),
    *_values("341 ecc_dbe_aggregate_cbu 346 sram_threshold_exceeded"),
    # DRAM is the total without SRAM; uncorrected SRAM errors are parity and SEC-DED ones.
    *_facts("318 ecc_sbe_vol_dev 319 ecc_dbe_vol_dev 328 ecc_sbe_agg_dev 329 ecc_dbe_agg_dev"),
    *_facts("342 ecc_sbe_vol_srm 343 ecc_dbe_vol_srm 344 ecc_sbe_agg_srm 345 ecc_dbe_agg_srm"),
    *_values("385 remap_banks_max 386 remap_banks_high 387 remap_banks_partial", not_on_mig=True),
    *_values("388 remap_banks_low 389 remap_banks_none", not_on_mig=True),
    *_values("390 retired_sbe 391 retired_dbe 392 retired_pending"),
    *_values("393 remap_uncorrectable 394 remap_correctable", not_on_mig=True),
    *_values("395 remap_failure 396 remap_pending", not_on_mig=True),
    *_links("409 crc_flit 419 crc_data 429 replay 439 recovery", "old_links"),
    Field(449, "nvlink_bandwidth_total", source="bandwidth", not_on_mig=True),
    *_links("1200 tx_packets 1201 tx_bytes 1202 rx_packets 1203 rx_bytes", "new_links"),
    *_links("1204 malformed 1205 overruns 1206 rx_errors 1207 rx_remote_errors", "new_links"),
    *_links("1208 rx_general_errors 1209 integrity_errors 1210 tx_discards", "new_links"),
    *_links("1211 recovered 1212 recovery_failed 1213 recoveries 1214 symbol_errors", "new_links"),
    *_links("1219 effective_errors", "new_links"),
    *_values("1400 c2c_errors 1401 c2c_replays 1402 c2c_back_to_back_replays"),
    *_values("1420 violation_power_ns 1421 violation_sync_boost_ns 1422 slowed_sw_thermal_ns"),
    *_values("1423 slowed_hw_thermal_ns 1424 slowed_hw_power_brake_ns"),
    *_values("1501 pcie_correctable_errors 1523 recovery_action"),
    *_profiling(1001, "graphics sm occupancy tensor dram fp64 fp32 fp16", MILLIONTHS),
    *_profiling(1009, "pcie_tx_mib pcie_rx_mib nvlink_tx_mib nvlink_rx_mib", 1 / MIB, "i"),
    *_profiling(1013, "imma hmma dfma integer", MILLIONTHS),
    *_profiling(1017, "nvdec " * 8 + "nvjpg " * 8 + "nvofa " * 2, MILLIONTHS),
)


def _ids(text: str) -> set[int]:
    """Read `1-3 7`."""
    pairs = [(part.split("-")[0], part.split("-")[-1]) for part in text.split()]
    return {number for first, last in pairs for number in range(int(first), int(last) + 1)}


_KNOWN = _ids(
    "1-6 50-77 80-94 100-102 110-115 120 130 140 150-153 155-167 170-175 190-191 200-207 230 "
    "235-238 240-247 250-254 285-287 300-301 310-346 350-363 385-396 400-489 491-513 520-534 "
    "571-577 580-592 701-707 780-843 856-897 1001-1034 1040-1096 1100-1104 1110-1112 1120 "
    "1130-1133 1140-1141 1200-1220 1300-1310 1400-1442 1501-1503 1507-1509 1523-1533"
)
"""Ids that DCGM 4.6 has; what is not mapped above is absent on every simulated GPU."""
_TYPES = {
    "s": _ids("3 68 81 520-521 523-524 532-533 571-572 877-878 1140-1141 1502 1524"),
    "d": _ids("1100-1104 1110-1112 1130-1133 1216 1218 1310 1428-1432 1434-1436 1439-1441"),
    "b": _ids("60-62 75-77 91 130 165-167 205 362 501-513 528-531"),
}
"""Of what is not mapped; the others are int64."""
_LEVELS = {
    GLOBAL: _ids("1-6 60-62 91 350-363 1502-1503"),
    VGPU: _ids("503-505 520-534"),
    SWITCH: _ids("701-707 856-864 866-869 1524"),
    GPU_INSTANCE: _ids("1005"),
    COMPUTE_INSTANCE: _ids("50 54 68 90 92-93 250-254 1001-1004 1006-1008 1013-1016"),
    LINK: _ids("580-592 780-824 865 870-878 1508-1509 1525-1533"),
    CPU: _ids("1110-1112 1130-1133 1140-1141"),
    CPU_CORE: _ids("1100-1104 1120"),
    CONNECTX: _ids("1300-1310"),
}
"""The others are of a GPU."""


def fields() -> list[Field]:
    """Return all known fields by id."""
    found: dict[int, Field] = {}
    for number in _KNOWN:
        kind = next((letter for letter, numbers in _TYPES.items() if number in numbers), "i")
        # Unmapped profiling fields are of links and of C2C, in bytes per second.
        source = "profiling" if number in PROFILING else "absent"
        found[number] = Field(number, f"field_{number}", kind, source)
    found |= {field.id: field for field in _MAPPED}
    levels = {number: level for level, numbers in _LEVELS.items() for number in numbers}
    return [
        msgspec.structs.replace(found[number], level=levels.get(number, GPU))
        for number in sorted(found)
    ]


def header() -> str:
    """Return fields.h: the table by id, and what a GPU's profiling module has by default."""
    rows = fields()
    profiling = ", ".join(map(str, DEFAULT_PROFILING))
    return "\n".join(
        (
            "/* Generated by simulator/dcgm_build.py from simulator/dcgm_fields.py. */",
            f"#define FIELD_LIMIT {rows[-1].id + 1}",
            "static const struct field field_rows[FIELD_LIMIT] = {",
            *(_row(field) for field in rows),
            "};",
            f"const unsigned short default_profiling[] = {{{profiling}}};",
            "",
        )
    )


def _row(field: Field) -> str:
    """One row; a number that the scenario does not have is -1."""
    of_links = field.source in ("old_links", "new_links")
    number, piece = ("LINK" if of_links else "VALUE"), -1
    known = grammar.LINK_WORDS if of_links else grammar.VALUE_NAMES
    value = f"{number}_{field.value.upper()}" if field.value in known else "-1"
    if field.value in {value.name for value in SLICE_VALUES}:
        piece = f"SLICE_{field.value.upper()}"
    on_mig = "true" if field.not_on_mig else "false"
    return (
        f"[{field.id}] = {{{field.id}, '{field.type}', {field.level}, "
        f"SOURCE_{field.source.upper()}, {value}, {piece}, {field.divisor!r}, {on_mig}, "
        f'"{field.tag[:47]}"}},'
    )


def unknown_values() -> list[str]:
    """Return the numbers that some field wants to show and the scenario does not have."""
    known = {*grammar.VALUE_NAMES, *grammar.LINK_WORDS}
    return sorted({field.value for field in _MAPPED} - known - {""})
