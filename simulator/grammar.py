"""The words of a scenario file: which values a GPU has, which events and limits there are.

The one table behind both readers of the file: `simulator.scenario` in Python
and the C library, which gets it as a generated header. Pure.
"""

import msgspec

UNSUPPORTED = "unsupported"
"""Instead of a number: NVML answers NOT_SUPPORTED for it."""

MAX_GPUS = 32
MAX_INSTANCES = 7
MAX_PROCESSES = 64
MAX_EVENTS = 512
"""Events kept in the file; older ones are dropped when new ones are added."""
MAX_COMPLAINT = 1023
"""Bytes of what is said about a bad line, which may quote a long value."""
MAX_TEXT = 95
"""Bytes of the longest text value; NVML's longest string buffer holds 96."""


class Value(msgspec.Struct, frozen=True):
    """One number of a GPU: its largest value and what a healthy idle GPU shows."""

    name: str
    largest: int
    default: int
    meaning: str


_U32 = 2**32 - 1
_COUNTER = 2**63 - 1

VALUES = (
    Value("utilization", 100, 0, "percent of time with a kernel running"),
    Value("memory_utilization", 100, 0, "percent of time with memory read or written"),
    Value("memory_used_mib", _U32, 0, "framebuffer used by processes"),
    Value("power_mw", _U32, 72_000, "power draw"),
    Value("power_limit_mw", _U32, 700_000, "enforced power limit"),
    Value("energy_mj", _COUNTER, 1_000_000, "energy since the driver was loaded"),
    Value("temperature_c", 200, 31, "GPU temperature"),
    Value("memory_temperature_c", 200, 38, "memory temperature"),
    Value("sm_clock_mhz", _U32, 345, "SM and graphics clock"),
    Value("memory_clock_mhz", _U32, 2619, "memory clock"),
    Value("video_clock_mhz", _U32, 765, "video clock"),
    Value("clocks_event_reasons", _COUNTER, 1, "bit mask nvmlClocksEventReason*; 1 is idle"),
    Value("performance_state", 15, 0, "P-state"),
    Value("pcie_replays", _U32, 0, "PCIe replay counter"),
    Value("ecc_mode", 1, 1, "1: ECC is on"),
    Value("ecc_sbe_volatile", _COUNTER, 0, "corrected errors since the driver was loaded"),
    Value("ecc_dbe_volatile", _COUNTER, 0, "uncorrected errors since the driver was loaded"),
    Value("ecc_sbe_aggregate", _COUNTER, 0, "corrected errors of the GPU's life"),
    Value("ecc_dbe_aggregate", _COUNTER, 0, "uncorrected errors of the GPU's life"),
    Value("remap_correctable", _U32, 0, "rows remapped for corrected errors"),
    Value("remap_uncorrectable", _U32, 0, "rows remapped for uncorrected errors"),
    Value("remap_pending", 1, 0, "1: a row waits for a reset to be remapped"),
    Value("remap_failure", 1, 0, "1: a row could not be remapped"),
    Value("recovery_action", _U32, 0, "NVML field 230: 0 none, 1 GPU reset, 2 node reboot ..."),
)
VALUE_NAMES = tuple(value.name for value in VALUES)

EVENT_TYPES = {
    "sbe": 0x1,
    "dbe": 0x2,
    "xid": 0x8,
    "mig": 0x100,
    "unavailable": 0x4000,
    "recovery": 0x8000,
}
"""Name in the file to nvmlEventType* bit."""

FAILURES = ("none", "lost", "gone", "hung", "segfault", "error", "slow")
FAILURES_WITH_NUMBER = {"error": 999, "slow": 3_600_000}
"""Kind to its largest number: an nvmlReturn_t, milliseconds."""
