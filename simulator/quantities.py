"""The numbers that a scenario can set: of a GPU, of an NVLink, of a MIG slice.

Each is a row: its name in the file, its largest value, and what a healthy idle
GPU shows. Where a product differs from the row, `simulator.product` says so. Pure.
"""

import msgspec


class Value(msgspec.Struct, frozen=True):
    """One number: its largest value and what a healthy idle GPU shows."""

    name: str
    largest: int
    default: int | None
    """None: NVML answers NOT_SUPPORTED."""
    meaning: str


U32 = 2**32 - 1
COUNTER = 2**63 - 1
MILLIONTHS = 1_000_000
"""GPM ratios are in millionths: 1,000,000 is 100 percent."""


def _counter(name: str, meaning: str, default: int | None = 0) -> Value:
    return Value(name, COUNTER, default, meaning)


_STATE = (
    Value("utilization", 100, 0, "percent of time with a kernel running"),
    Value("memory_utilization", 100, 0, "percent of time with memory read or written"),
    Value("encoder_utilization", 100, 0, "percent, video encoders"),
    Value("decoder_utilization", 100, 0, "percent, video decoders"),
    Value("jpeg_utilization", 100, 0, "percent, JPEG engines"),
    Value("ofa_utilization", 100, 0, "percent, optical flow engine"),
    Value("memory_used_mib", U32, 0, "framebuffer used by processes"),
    Value("bar1_used_mib", U32, 1, "BAR1 used"),
    Value("power_mw", U32, 72_000, "power draw"),
    Value("power_limit_mw", U32, 700_000, "enforced power limit"),
    Value("energy_mj", COUNTER, 1_000_000, "energy since the driver was loaded"),
    Value("temperature_c", 200, 31, "GPU temperature"),
    Value("memory_temperature_c", 200, 38, "memory temperature"),
    Value("temperature_margin_c", 200, 56, "how far below its limit the GPU is"),
    Value("shutdown_temperature_c", 200, 92, "threshold: the GPU shuts down"),
    Value("slowdown_temperature_c", 200, 89, "threshold: the GPU slows down"),
    Value("max_temperature_c", 200, 87, "threshold: highest operating temperature"),
    Value("max_memory_temperature_c", 200, 95, "threshold of the memory"),
    Value("shutdown_tlimit_c", 200, 8, "NVML reports it negative: degrees beyond the limit"),
    Value("slowdown_tlimit_c", 200, 2, "NVML reports it negative"),
    Value("max_memory_tlimit_c", 200, 0, "NVML reports it negative"),
    Value("max_tlimit_c", 200, 0, "NVML reports it negative"),
    Value("sm_clock_mhz", U32, 345, "SM and graphics clock"),
    Value("memory_clock_mhz", U32, 2619, "memory clock"),
    Value("video_clock_mhz", U32, 765, "video clock"),
    Value("application_sm_clock_mhz", U32, 1980, "application clock of the SMs"),
    Value("application_memory_clock_mhz", U32, 2619, "application clock of the memory"),
    Value("clocks_event_reasons", COUNTER, 1, "bit mask nvmlClocksEventReason*; 1 is idle"),
    Value("supported_clocks_event_reasons", COUNTER, 0x1FF, "those that the GPU can have"),
    Value("performance_state", 15, 0, "P-state"),
    Value("compute_mode", 3, 0, "0 default, 2 prohibited, 3 exclusive process"),
    Value("persistence_mode", 1, 1, "1: on"),
    Value("fan_speed", 100, None, "percent; passive boards have no fan"),
    Value("auto_boost", 1, None, "1: clocks boost by themselves; not a word on data centre boards"),
    Value("inforom_checksum", U32, 0x1B2C3D4E, "of the InfoROM's configuration"),
    Value("recovery_action", U32, 0, "NVML field 230: 0 none, 1 GPU reset, 2 node reboot ..."),
)

_SLOWED = tuple(
    _counter(f"{name}_ns", f"nanoseconds slowed for {meaning}, since the driver was loaded")
    for name, meaning in (
        ("violation_power", "power (policy 0, field 74)"),
        ("violation_thermal", "temperature (policy 1, field 75)"),
        ("violation_sync_boost", "sync boost (policy 2, field 76)"),
        ("violation_board_limit", "the board's limit (policy 3, field 77)"),
        ("violation_low_utilization", "low use (policy 4, field 78)"),
        ("violation_reliability", "reliability (policy 5, field 79)"),
        ("violation_application_clocks", "application clocks (policy 10, field 80)"),
        ("violation_base_clocks", "base clocks (policy 11, field 81)"),
        ("slowed_sw_thermal", "software thermal slowdown (field 269)"),
        ("slowed_hw_thermal", "hardware thermal slowdown (field 270)"),
        ("slowed_hw_power_brake", "the power brake (field 271)"),
    )
)

_PCIE = (
    Value("pcie_generation", 7, 5, "current link generation"),
    Value("pcie_width", 32, 16, "current link width, lanes"),
    Value("pcie_tx_kib", U32, 0, "KiB/s sent over the last 20 ms"),
    Value("pcie_rx_kib", U32, 0, "KiB/s received over the last 20 ms"),
    Value("pcie_replays", U32, 0, "PCIe replay counter"),
    Value("pcie_replay_rollovers", U32, 0, "how often that counter overflowed"),
    *(
        _counter(f"pcie_{name}", meaning)
        for name, meaning in (
            ("tx_bytes", "bytes sent"),
            ("rx_bytes", "bytes received"),
            ("l0_to_recovery", "link left L0 for recovery"),
            ("correctable_errors", "correctable errors"),
            ("naks_received", "NAKs received"),
            ("receiver_errors", "receiver errors"),
            ("bad_tlp", "bad transaction packets"),
            ("naks_sent", "NAKs sent"),
            ("bad_dllp", "bad link packets"),
            ("non_fatal_errors", "uncorrectable errors that were not fatal"),
            ("fatal_errors", "fatal errors"),
            ("unsupported_requests", "unsupported requests"),
            ("lcrc_errors", "link CRC errors"),
            ("lane_errors", "lane errors"),
        )
    ),
)

_KINDS = ("sbe_volatile", "dbe_volatile", "sbe_aggregate", "dbe_aggregate")
# nvidia-smi shows only SRAM and DRAM from Ampere on, so the finer places are unsupported.
_PLACES = tuple(
    Value(f"ecc_{kind}_{place}", COUNTER, None, "of the place; since Ampere only SRAM and DRAM")
    for kind in _KINDS
    for place in ("l1", "l2", "reg", "tex", *(("cbu",) if kind.startswith("dbe") else ()))
)

_MEMORY = (
    Value("ecc_mode", 1, 1, "1: ECC is on"),
    Value("ecc_sbe_volatile", COUNTER, 0, "corrected errors since the driver was loaded"),
    Value("ecc_dbe_volatile", COUNTER, 0, "uncorrected errors since the driver was loaded"),
    Value("ecc_sbe_aggregate", COUNTER, 0, "corrected errors of the GPU's life"),
    Value("ecc_dbe_aggregate", COUNTER, 0, "uncorrected errors of the GPU's life"),
    *_PLACES,
    *(
        _counter(f"sram_{kind}_{age}", "SRAM errors; DRAM is the total without them")
        for age in ("volatile", "aggregate")
        for kind in ("corrected", "parity", "secded")
    ),
    *(
        _counter(f"sram_bucket_{place}", "uncorrected SRAM errors of the GPU's life there")
        for place in ("l2", "sm", "pcie", "mcu", "other")
    ),
    Value("sram_threshold_exceeded", 1, 0, "1: the board is to be replaced"),
    Value("remap_correctable", U32, 0, "rows remapped for corrected errors"),
    Value("remap_uncorrectable", U32, 0, "rows remapped for uncorrected errors"),
    Value("remap_pending", 1, 0, "1: a row waits for a reset to be remapped"),
    Value("remap_failure", 1, 0, "1: a row could not be remapped"),
    Value("remap_banks_max", U32, 2560, "banks with all spare rows left"),
    *(
        Value(f"remap_banks_{left}", U32, 0, f"banks with {left} spare rows left")
        for left in ("high", "partial", "low", "none")
    ),
    # Row remapping took the place of page retirement with Ampere.
    Value("retired_sbe", 64, None, "pages retired for corrected errors"),
    Value("retired_dbe", 64, None, "pages retired for an uncorrected error"),
    Value("retired_pending", 1, None, "1: a page waits for a reset to be retired"),
    Value("retired_pending_sbe", 64, None, "such pages, corrected errors"),
    Value("retired_pending_dbe", 64, None, "such pages, uncorrected errors"),
    Value("repair_channel_pending", 1, None, "1: a memory channel waits for repair (since Hopper)"),
    Value("repair_tpc_pending", 1, None, "1: a TPC waits for repair (since Hopper)"),
    Value("unrepairable_memory", 1, None, "1: memory that no repair can help (since Hopper)"),
)

_FABRIC = (
    Value("fabric_state", 3, 3, "1 not started, 2 in progress, 3 completed"),
    Value("fabric_status", 999, 0, "nvmlReturn_t of the completed registration"),
    Value("fabric_clique", U32, 0, "NVLink clique id"),
    Value("fabric_health_mask", U32, 0, "bit fields NVML_GPU_FABRIC_HEALTH_MASK_*"),
    Value("fabric_health_summary", 3, 1, "1 healthy, 2 unhealthy, 3 limited capacity"),
    Value("nvlink_disabled", 1, 0, "1: the driver has no NVLinks (NvLinkDisable); NVML alone"),
    Value("p2p_status", 6, 0, "nvmlGpuP2PStatus_t of every pair with this GPU; 0 is OK"),
    Value("c2c_links", 36, None, "NVLink-C2C links to the CPU (Grace boards)"),
    Value("c2c_status", 1, None, "1: a C2C link is up"),
    Value("c2c_bandwidth_mbps", U32, None, "of a C2C link"),
    Value("c2c_errors", COUNTER, None, "error interrupts of a C2C link"),
    Value("c2c_replays", COUNTER, None, "replays of a C2C link"),
    Value("c2c_back_to_back_replays", COUNTER, None, "replays right after replays"),
    Value("c2c_power_state", 1, None, "0 full power, 1 low power"),
)

_RATIOS = tuple(
    Value(f"gpm_{name}", MILLIONTHS, 0, f"millionths of the time or the most: {meaning}")
    for name, meaning in (
        ("graphics", "graphics or compute engine busy"),
        ("sm", "SMs busy"),
        ("occupancy", "warps resident"),
        ("integer", "integer pipe"),
        ("tensor", "any tensor pipe"),
        ("dfma", "DFMA tensor pipe"),
        ("hmma", "HMMA tensor pipe"),
        ("dmma", "DMMA tensor pipe"),
        ("imma", "IMMA tensor pipe"),
        ("dram", "memory bandwidth"),
        ("fp64", "FP64 pipe"),
        ("fp32", "FP32 pipe"),
        ("fp16", "FP16 pipe"),
        ("nvdec", "each video decoder"),
        ("nvjpg", "each JPEG engine"),
        ("nvofa", "each optical flow engine"),
    )
)
_RATES = tuple(
    Value(f"gpm_{name}_mib", U32, 0, "MiB/s, as a GPM metric")
    for name in ("pcie_tx", "pcie_rx", "nvlink_rx", "nvlink_tx")
)

_CYCLES = tuple(
    _counter(f"gpm_{name}", "counted since the driver was loaded, as a GPM metric")
    for name in (
        *("sm_cycles_elapsed", "sm_cycles_active", "mma_cycles", "dmma_cycles", "hmma_cycles"),
        *("imma_cycles", "dfma_cycles", "integer_cycles", "fp64_cycles", "fp32_cycles"),
        "fp16_cycles",
    )
)
_BYTES = tuple(
    _counter(f"gpm_{name}", "bytes since the driver was loaded, as a GPM metric")
    for name in ("pcie_tx_bytes", "pcie_rx_bytes")
)

GPU_VALUES = (
    *(*_STATE, *_SLOWED, *_PCIE, *_MEMORY, *_FABRIC, *_RATIOS, *_RATES, *_CYCLES, *_BYTES),
    # Not known from hardware; a test may want either.
    Value("gpm_whole_gpu_with_mig", 1, 1, "0: no GPM sample of the whole GPU while MIG is on"),
)

LINK_VALUES = (
    Value("state", 3, 1, "0 inactive, 1 active, 2 asleep, 3 active without traffic"),
    *(
        _counter(name, meaning)
        for name, meaning in (
            ("tx_kib", "KiB of data sent"),
            ("rx_kib", "KiB of data received"),
            ("raw_tx_kib", "KiB sent with protocol"),
            ("raw_rx_kib", "KiB received with protocol"),
            ("crc_flit", "flow control CRC errors (before Blackwell)"),
            ("crc_data", "data CRC errors (before Blackwell)"),
            ("replay", "replays (before Blackwell)"),
            ("recovery", "recoveries (before Blackwell)"),
            ("ecc", "data ECC errors (before Blackwell)"),
            ("tx_packets", "Blackwell: packets sent"),
            ("tx_bytes", "Blackwell: bytes sent"),
            ("rx_packets", "Blackwell: packets received"),
            ("rx_bytes", "Blackwell: bytes received"),
            ("malformed", "Blackwell: malformed packets"),
            ("overruns", "Blackwell: buffer overruns"),
            ("rx_errors", "Blackwell: packets received with errors"),
            ("rx_remote_errors", "Blackwell: packets received that the other end marked bad"),
            ("rx_general_errors", "Blackwell: other errors of received packets"),
            ("integrity_errors", "Blackwell: local link integrity errors"),
            ("tx_discards", "Blackwell: packets that could not be sent"),
            ("recovered", "Blackwell: link recoveries that went well"),
            ("recovery_failed", "Blackwell: link recoveries that failed"),
            ("recoveries", "Blackwell: link recoveries"),
            ("effective_errors", "Blackwell: errors after correction"),
            ("effective_ber", "Blackwell: bit error rate after correction, encoded"),
            ("symbol_errors", "Blackwell: symbol errors"),
            ("symbol_ber", "Blackwell: symbol error rate, encoded"),
            *((f"fec_{errors}", f"Blackwell: blocks with {errors} errors") for errors in range(16)),
        )
    ),
)

SLICE_VALUES = (
    Value("sram_dbe", COUNTER, 0, "uncorrected SRAM errors since the driver was loaded"),
    *_RATIOS,
    *_CYCLES,
    *(
        Value(value.name, value.largest, None, "slices do not report")
        for value in (*_RATES, *_BYTES)
    ),
)
