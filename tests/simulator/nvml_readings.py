"""Each number of a scenario, and the pynvml line on GPU 3 that reads it."""

from tests.simulator.nvml_client import NvmlClient

WORDS = r"""
def field(handle, number, scope=0):
    found = nvmlDeviceGetFieldValues(handle, [(number, scope)])[0]
    if found.nvmlReturn:
        raise p.NVMLError(found.nvmlReturn)
    value = found.value
    return {1: value.uiVal, 3: value.ullVal, 5: value.siVal}[found.valueType]

def sram(handle):
    found = c_nvmlEccSramErrorStatus_v1_t()
    nvmlDeviceGetSramEccErrorStatus(handle, byref(found))
    return found

def fabric(handle):
    found = c_nvmlGpuFabricInfo_v3_t()
    nvmlDeviceGetGpuFabricInfoV(handle, byref(found))
    return found

def gpm(handle, metric, gi=None):
    request = c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = NVML_GPM_METRICS_GET_VERSION, 1
    request.metrics[0].metricId = metric
    samples = [nvmlGpmSampleAlloc(), nvmlGpmSampleAlloc()]
    for one in samples:
        nvmlGpmSampleGet(handle, one) if gi is None else nvmlGpmMigSampleGet(handle, gi, one)
    request.sample1, request.sample2 = samples
    nvmlGpmMetricsGet(request)
    for one in samples:
        nvmlGpmSampleFree(one)
    if request.metrics[0].nvmlReturn:
        raise p.NVMLError(request.metrics[0].nvmlReturn)
    return request.metrics[0].value
"""


def teach(nvml: NvmlClient) -> None:
    """Let a client know the words that the lines below use."""
    nvml.ask(f"exec({WORDS!r})")


_STATE = {
    "nvmlDeviceGetPowerUsage(g[3])": "power_mw",
    "field(g[3], 185)": "power_mw",
    "nvmlDeviceGetEnforcedPowerLimit(g[3])": "power_limit_mw",
    "nvmlDeviceGetPowerManagementLimit(g[3])": "power_limit_mw",
    "nvmlDeviceGetTotalEnergyConsumption(g[3])": "energy_mj",
    "field(g[3], 83)": "energy_mj",
    "nvmlDeviceGetTemperature(g[3], 0)": "temperature_c",
    "nvmlDeviceGetTemperatureV(g[3], 0)": "temperature_c",
    "field(g[3], 82)": "memory_temperature_c",
    "nvmlDeviceGetMarginTemperature(g[3])": "temperature_margin_c",
    "nvmlDeviceGetTemperatureThreshold(g[3], 0)": "shutdown_temperature_c",
    "nvmlDeviceGetTemperatureThreshold(g[3], 1)": "slowdown_temperature_c",
    "nvmlDeviceGetTemperatureThreshold(g[3], 2)": "max_memory_temperature_c",
    "nvmlDeviceGetTemperatureThreshold(g[3], 3)": "max_temperature_c",
    "-field(g[3], 193)": "shutdown_tlimit_c",
    "-field(g[3], 194)": "slowdown_tlimit_c",
    "-field(g[3], 195)": "max_memory_tlimit_c",
    "-field(g[3], 196)": "max_tlimit_c",
    "nvmlDeviceGetClockInfo(g[3], NVML_CLOCK_SM)": "sm_clock_mhz",
    "nvmlDeviceGetClockInfo(g[3], NVML_CLOCK_GRAPHICS)": "sm_clock_mhz",
    "nvmlDeviceGetClockInfo(g[3], NVML_CLOCK_MEM)": "memory_clock_mhz",
    "nvmlDeviceGetClockInfo(g[3], NVML_CLOCK_VIDEO)": "video_clock_mhz",
    "nvmlDeviceGetApplicationsClock(g[3], NVML_CLOCK_SM)": "application_sm_clock_mhz",
    "nvmlDeviceGetClock(g[3], NVML_CLOCK_MEM, 1)": "application_memory_clock_mhz",
    "nvmlDeviceGetUtilizationRates(g[3]).gpu": "utilization",
    "nvmlDeviceGetUtilizationRates(g[3]).memory": "memory_utilization",
    "nvmlDeviceGetEncoderUtilization(g[3])[0]": "encoder_utilization",
    "nvmlDeviceGetDecoderUtilization(g[3])[0]": "decoder_utilization",
    "nvmlDeviceGetJpgUtilization(g[3])[0]": "jpeg_utilization",
    "nvmlDeviceGetOfaUtilization(g[3])[0]": "ofa_utilization",
    "nvmlDeviceGetCurrentClocksEventReasons(g[3])": "clocks_event_reasons",
    "nvmlDeviceGetSupportedClocksEventReasons(g[3])": "supported_clocks_event_reasons",
    "nvmlDeviceGetPerformanceState(g[3])": "performance_state",
    "nvmlDeviceGetComputeMode(g[3])": "compute_mode",
    "nvmlDeviceGetPersistenceMode(g[3])": "persistence_mode",
    "nvmlDeviceGetFanSpeed(g[3])": "fan_speed",
    "nvmlDeviceGetAutoBoostedClocksEnabled(g[3])[0]": "auto_boost",
    "nvmlDeviceGetInforomConfigurationChecksum(g[3])": "inforom_checksum",
    "nvmlDeviceGetMemoryInfo(g[3], nvmlMemory_v2).used // 2**20": "memory_used_mib",
    "nvmlDeviceGetBAR1MemoryInfo(g[3]).bar1Used // 2**20": "bar1_used_mib",
    "field(g[3], 230)": "recovery_action",
}
_POLICIES = {
    "violation_power_ns": (0, 74),
    "violation_thermal_ns": (1, 75),
    "violation_sync_boost_ns": (2, 76),
    "violation_board_limit_ns": (3, 77),
    "violation_low_utilization_ns": (4, 78),
    "violation_reliability_ns": (5, 79),
    "violation_application_clocks_ns": (10, 80),
    "violation_base_clocks_ns": (11, 81),
}
_SLOWED = {
    **{
        f"nvmlDeviceGetViolationStatus(g[3], {policy}).violationTime": name
        for name, (policy, _) in _POLICIES.items()
    },
    **{f"field(g[3], {number})": name for name, (_, number) in _POLICIES.items()},
    "field(g[3], 269)": "slowed_sw_thermal_ns",
    "field(g[3], 270)": "slowed_hw_thermal_ns",
    "field(g[3], 271)": "slowed_hw_power_brake_ns",
}
_PCIE = {
    "nvmlDeviceGetCurrPcieLinkGeneration(g[3])": "pcie_generation",
    "nvmlDeviceGetCurrPcieLinkWidth(g[3])": "pcie_width",
    "nvmlDeviceGetPcieThroughput(g[3], NVML_PCIE_UTIL_TX_BYTES)": "pcie_tx_kib",
    "nvmlDeviceGetPcieThroughput(g[3], NVML_PCIE_UTIL_RX_BYTES)": "pcie_rx_kib",
    "nvmlDeviceGetPcieReplayCounter(g[3])": "pcie_replays",
    "field(g[3], NVML_FI_DEV_PCIE_REPLAY_COUNTER)": "pcie_replays",
    "field(g[3], NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER)": "pcie_replay_rollovers",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_TX_BYTES)": "pcie_tx_bytes",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_RX_BYTES)": "pcie_rx_bytes",
    "field(g[3], NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER)": "pcie_l0_to_recovery",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS)": "pcie_correctable_errors",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED)": "pcie_naks_received",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR)": "pcie_receiver_errors",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_BAD_TLP)": "pcie_bad_tlp",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_NAKS_SENT)": "pcie_naks_sent",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_BAD_DLLP)": "pcie_bad_dllp",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR)": "pcie_non_fatal_errors",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR)": "pcie_fatal_errors",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_UNSUPPORTED_REQ)": "pcie_unsupported_requests",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_LCRC_ERROR)": "pcie_lcrc_errors",
    "field(g[3], NVML_FI_DEV_PCIE_COUNT_LANE_ERROR)": "pcie_lane_errors",
}
_KINDS = {
    "SBE_VOL": "sbe_volatile",
    "DBE_VOL": "dbe_volatile",
    "SBE_AGG": "sbe_aggregate",
    "DBE_AGG": "dbe_aggregate",
}
_PLACES = {
    f"field(g[3], NVML_FI_DEV_ECC_{kind}_{place})": f"ecc_{name}_{place.lower()}"
    for kind, name in _KINDS.items()
    for place in ("L1", "L2", "REG", "TEX", *(("CBU",) if "DBE" in kind else ()))
}
_MEMORY = {
    "nvmlDeviceGetEccMode(g[3])[0]": "ecc_mode",
    "field(g[3], NVML_FI_DEV_ECC_CURRENT)": "ecc_mode",
    **{f"field(g[3], NVML_FI_DEV_ECC_{k}_TOTAL)": f"ecc_{name}" for k, name in _KINDS.items()},
    "nvmlDeviceGetTotalEccErrors(g[3], 0, 0)": "ecc_sbe_volatile",
    "nvmlDeviceGetTotalEccErrors(g[3], 1, 0)": "ecc_dbe_volatile",
    "nvmlDeviceGetTotalEccErrors(g[3], 0, 1)": "ecc_sbe_aggregate",
    "nvmlDeviceGetTotalEccErrors(g[3], 1, 1)": "ecc_dbe_aggregate",
    **_PLACES,
    "nvmlDeviceGetMemoryErrorCounter(g[3], 0, 0, NVML_MEMORY_LOCATION_L1_CACHE)": (
        "ecc_sbe_volatile_l1"
    ),
    "sram(g[3]).volatileCor": "sram_corrected_volatile",
    "sram(g[3]).volatileUncParity": "sram_parity_volatile",
    "sram(g[3]).volatileUncSecDed": "sram_secded_volatile",
    "sram(g[3]).aggregateCor": "sram_corrected_aggregate",
    "sram(g[3]).aggregateUncParity": "sram_parity_aggregate",
    "sram(g[3]).aggregateUncSecDed": "sram_secded_aggregate",
    "sram(g[3]).aggregateUncBucketL2": "sram_bucket_l2",
    "sram(g[3]).aggregateUncBucketSm": "sram_bucket_sm",
    "sram(g[3]).aggregateUncBucketPcie": "sram_bucket_pcie",
    "sram(g[3]).aggregateUncBucketMcu": "sram_bucket_mcu",
    "sram(g[3]).aggregateUncBucketOther": "sram_bucket_other",
    "sram(g[3]).bThresholdExceeded": "sram_threshold_exceeded",
    "nvmlDeviceGetRemappedRows(g[3])[0]": "remap_correctable",
    "nvmlDeviceGetRemappedRows(g[3])[1]": "remap_uncorrectable",
    "nvmlDeviceGetRemappedRows(g[3])[2]": "remap_pending",
    "nvmlDeviceGetRemappedRows(g[3])[3]": "remap_failure",
    "field(g[3], NVML_FI_DEV_REMAPPED_COR)": "remap_correctable",
    "field(g[3], NVML_FI_DEV_REMAPPED_UNC)": "remap_uncorrectable",
    "field(g[3], NVML_FI_DEV_REMAPPED_PENDING)": "remap_pending",
    "field(g[3], NVML_FI_DEV_REMAPPED_FAILURE)": "remap_failure",
    **{
        f"nvmlDeviceGetRowRemapperHistogram(g[3]).{left}": f"remap_banks_{left}"
        for left in ("max", "high", "partial", "low", "none")
    },
    "len(nvmlDeviceGetRetiredPages(g[3], 0))": "retired_sbe",
    "len(nvmlDeviceGetRetiredPages_v2(g[3], 1))": "retired_dbe",
    "field(g[3], NVML_FI_DEV_RETIRED_SBE)": "retired_sbe",
    "field(g[3], NVML_FI_DEV_RETIRED_DBE)": "retired_dbe",
    "nvmlDeviceGetRetiredPagesPendingStatus(g[3])": "retired_pending",
    "field(g[3], NVML_FI_DEV_RETIRED_PENDING)": "retired_pending",
    "field(g[3], NVML_FI_DEV_RETIRED_PENDING_SBE)": "retired_pending_sbe",
    "field(g[3], NVML_FI_DEV_RETIRED_PENDING_DBE)": "retired_pending_dbe",
    "nvmlDeviceGetRepairStatus(g[3])[0]": "repair_channel_pending",
    "nvmlDeviceGetRepairStatus(g[3])[1]": "repair_tpc_pending",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1(g[3])": "unrepairable_memory",
}
_FABRIC = {
    "fabric(g[3]).state": "fabric_state",
    "fabric(g[3]).status": "fabric_status",
    "fabric(g[3]).cliqueId": "fabric_clique",
    "fabric(g[3]).healthMask": "fabric_health_mask",
    "fabric(g[3]).healthSummary": "fabric_health_summary",
    "nvmlDeviceGetP2PStatus(g[3], g[4], 0)": "p2p_status",
    "nvmlDeviceGetP2PStatus(g[4], g[3], NVML_P2P_CAPS_INDEX_NVLINK)": "p2p_status",
    "field(g[3], NVML_FI_DEV_C2C_LINK_COUNT)": "c2c_links",
    "field(g[3], NVML_FI_DEV_C2C_LINK_GET_STATUS)": "c2c_status",
    "field(g[3], NVML_FI_DEV_C2C_LINK_GET_MAX_BW)": "c2c_bandwidth_mbps",
    "field(g[3], NVML_FI_DEV_C2C_LINK_ERROR_INTR)": "c2c_errors",
    "field(g[3], NVML_FI_DEV_C2C_LINK_ERROR_REPLAY)": "c2c_replays",
    "field(g[3], NVML_FI_DEV_C2C_LINK_ERROR_REPLAY_B2B)": "c2c_back_to_back_replays",
    "field(g[3], NVML_FI_DEV_C2C_LINK_POWER_STATE)": "c2c_power_state",
}
RATIOS = {
    "gpm_graphics": 1, "gpm_sm": 2, "gpm_occupancy": 3, "gpm_integer": 4, "gpm_tensor": 5,
    "gpm_dfma": 6, "gpm_hmma": 7, "gpm_dmma": 8, "gpm_imma": 9, "gpm_dram": 10, "gpm_fp64": 11,
    "gpm_fp32": 12, "gpm_fp16": 13, "gpm_nvdec": 30, "gpm_nvjpg": 40, "gpm_nvofa": 50,
}  # fmt: skip
_RATES = {
    "gpm(g[3], NVML_GPM_METRIC_PCIE_TX_PER_SEC)": "gpm_pcie_tx_mib",
    "gpm(g[3], NVML_GPM_METRIC_PCIE_RX_PER_SEC)": "gpm_pcie_rx_mib",
    "gpm(g[3], NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC)": "gpm_nvlink_tx_mib",
    "gpm(g[3], NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC)": "gpm_nvlink_rx_mib",
}
_TOTALS = {
    f"gpm(g[3], NVML_GPM_METRIC_{metric})": name
    for metric, name in {
        "SM_CYCLES_ELAPSED": "gpm_sm_cycles_elapsed",
        "SM_CYCLES_ACTIVE": "gpm_sm_cycles_active",
        "MMA_CYCLES_ACTIVE": "gpm_mma_cycles",
        "DMMA_CYCLES_ACTIVE": "gpm_dmma_cycles",
        "HMMA_CYCLES_ACTIVE": "gpm_hmma_cycles",
        "IMMA_CYCLES_ACTIVE": "gpm_imma_cycles",
        "DFMA_CYCLES_ACTIVE": "gpm_dfma_cycles",
        "PCIE_TX": "gpm_pcie_tx_bytes",
        "PCIE_RX": "gpm_pcie_rx_bytes",
        "INTEGER_CYCLES_ACTIVE": "gpm_integer_cycles",
        "FP64_CYCLES_ACTIVE": "gpm_fp64_cycles",
        "FP32_CYCLES_ACTIVE": "gpm_fp32_cycles",
        "FP16_CYCLES_ACTIVE": "gpm_fp16_cycles",
    }.items()
}

READINGS = {
    **_STATE,
    **_SLOWED,
    **_PCIE,
    **_MEMORY,
    **_FABRIC,
    **{f"round(gpm(g[3], {metric}) * 10000)": name for name, metric in RATIOS.items()},
    **_RATES,
    **_TOTALS,
}
"""pynvml line to the name of the number that it reads."""
