"""The words of a scenario file: which values a GPU has, which events and limits there are.

The one table behind both readers of the file: `simulator.scenario` in Python
and the C library, which gets it as a generated header. Pure.
"""

from simulator.quantities import GPU_VALUES, LINK_VALUES, SLICE_VALUES, Value

UNSUPPORTED = "unsupported"
"""Instead of a number: NVML answers NOT_SUPPORTED for it."""

MAX_GPUS = 32
MAX_INSTANCES = 7
MAX_PROCESSES = 64
MAX_LINKS = 18
MAX_WORDS = 60
"""Words of one `instance`, `process`, `link` or `event` line."""
MAX_EVENTS = 512
"""Events kept in the file; older ones are dropped when new ones are added."""
MAX_COMPLAINT = 1023
"""Bytes of the complaint about a bad line, which may quote a long value."""
MAX_TEXT = 95
"""Bytes of the longest text value; NVML's longest string buffer holds 96."""


VALUES = GPU_VALUES
VALUE_NAMES = tuple(value.name for value in VALUES)

INSTANCE_WORDS = ("gi", "ci", "profile", "start", "uuid", *(v.name for v in SLICE_VALUES))
PROCESS_VALUES = (
    Value("sm_util", 100, 0, "percent of the SMs, of a whole GPU"),
    Value("mem_util", 100, 0, "percent of the memory's time, of a whole GPU"),
)
PROCESS_WORDS = (
    *("pid", "memory_mib", "gi", "ci", "type", "pod", "container"),
    *(value.name for value in PROCESS_VALUES),
)
LINK_WORDS = tuple(value.name for value in LINK_VALUES)
PROCESS_TYPES = ("compute", "graphics", "mps")
EVENT_WORDS = ("gpu", "type", "data", "gi", "ci")
"""What may stand in `instance`, `process`, `link` and `event` lines."""

SYSTEM_EVENT = 0x1_0000_0000
"""Marks the bits of nvmlSystemEventType*, whose numbers are also those of device events."""

EVENT_TYPES = {
    "sbe": 0x1,
    "dbe": 0x2,
    "xid": 0x8,
    "mig": 0x100,
    "unavailable": 0x4000,
    "recovery": 0x8000,
    "unbind": SYSTEM_EVENT | 0x1,
    "bind": SYSTEM_EVENT | 0x2,
}
"""Name in the file to nvmlEventType* bit."""

WHOLE_FAILURES = ("none", "lost", "gone", "unbound", "removed")
"""Of the GPU, whatever the call."""
FAILURES = (*WHOLE_FAILURES, "hung", "segfault", "error", "slow", "garbage")
NOT_LISTED = ("gone", "unbound", "removed")
"""NVML counts such a GPU no more."""
FAILURES_WITH_NUMBER = {"error": 999, "slow": 3_600_000}
"""Kind to its largest number: an nvmlReturn_t, milliseconds."""
