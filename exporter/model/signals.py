"""One piece of news about a GPU, numbered.

The sensor turns kernel-log records and NVML events into signals; the agent
counts them. Pure: numbers and times come in.
"""

from typing import Literal

import msgspec

from kubeapi.types import Moment

PLACES_A_SECOND = 16_000_000
"""Of `Signal.kernel_sequence`, which is a record's time since boot."""

Kind = Literal[
    "xid", "fell-off", "driver-load", "identity", "recovery", "sxid", "rate-limit", "topology"
]
"""`fell-off` is the kernel's line about a lost GPU without the word Xid (code 79), `identity` the
line that ties a bus id to a UUID, `recovery` NVML's event that the recovery action changed, `sxid`
an NVSwitch's error, `rate-limit` the driver's word that lines of `code` are left out from now on,
`topology` NVML's event that GPUs were bound, unbound or cut into other instances."""

ERRORS: tuple[Kind, ...] = ("xid", "fell-off")
"""Kinds that are counted."""
PASSING: tuple[Kind, ...] = ("recovery", "topology")
"""Kinds that only have the GPUs looked at. The reading says the rest: no agent need hear them."""


class Partner(msgspec.Struct, frozen=True, omit_defaults=True):
    """The earlier sighting of the same error, and its instance."""

    number: int
    gi: int | None = None
    ci: int | None = None


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of news. Fields that a kind does not have keep their default."""

    kind: Kind
    source: Literal["kmsg", "syslog", "nvml", "dcgm"]
    """`syslog`: the kernel log, too, read by syslog(2)."""
    at: Moment
    number: int = 0
    """Position in the stream of this sensor run, from 1."""
    kernel_sequence: int | None = None
    """Place of the record in the kernel log, in time since boot (PLACES_A_SECOND)."""
    bus_id: str = ""
    """In the form of `device.normal_bus_id`."""
    uuid: str = ""
    code: int = 0
    gi: int | None = None
    ci: int | None = None
    reset: bool | None = None
    drain_reset: bool | None = None
    pid: int | None = None
    process: str = ""
    message: str = ""
    caused_by: int | None = None
    """XID that the line names as the root cause (45, new drivers)."""
    recovery_to: int | None = None
    """The recovery action that a line with XID 154 says is requested from now on."""
    link: int | None = None
    """NVLink of a `sxid`."""
    fatal: bool | None = None
    """Of a `sxid`: `Fatal` or `Non-fatal` as printed."""
    times: int = 1
    """How many signals this one stands for (`overflow`)."""
    unfinished: bool = False
    """More lines of the same error follow it in the kernel log."""
    further: bool = False
    """A line of an error whose report began with an earlier line; set with `partner`."""
    past: bool = False
    """It was in the kernel log when that was opened."""
    booted_at: Moment | None = None
    """When the node booted, by the clock that dated it."""
    partner: Partner | None = None
    """Set when this error was reported before: it is then counted already."""
