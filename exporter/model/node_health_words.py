"""The words of a report, as Kubernetes writes enums, and what they stand for.

A word that this version does not know, from an agent of another release, is read as Unknown: it
must neither heal nor hurt, and never stop a reader. Pure.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

UNKNOWN = "Unknown"


class Word(StrEnum):
    """A word that is compared as the text that it is."""

    @classmethod
    def _missing_(cls, value: object) -> "Word | None":
        return cls(UNKNOWN) if isinstance(value, str) and value != UNKNOWN else None


if TYPE_CHECKING:
    Presence = Literal["Present", "Lost", "Unknown"]
    MigMode = Literal["Enabled", "Disabled", "Unknown"]
    Answer = Literal["True", "False", "Unknown"]
    Support = Literal["Supported", "Unsupported", "Unknown"]
    SourceState = Literal["Up", "Down", "Unknown"]
    Via = Literal["Device", "Journal", "Syslog", "Unknown"]
    ResetRequest = Literal["Immediate", "AfterDrain", "NotRequested", "Unknown"]
    SxidSeverity = Literal["Fatal", "NonFatal", "Unknown"]
    ConfigState = Literal["Answers", "AllOnes", "Gone", "Unknown"]
else:
    # A type checker sees the words; what is decoded is a `Word`, which takes any other for Unknown.
    def _words(name: str, *words: str) -> type[Word]:
        return Word(name, {word: word for word in (*words, UNKNOWN)})

    Presence = _words("Presence", "Present", "Lost")
    MigMode = _words("MigMode", "Enabled", "Disabled")
    Answer = _words("Answer", "True", "False")
    Support = _words("Support", "Supported", "Unsupported")
    SourceState = _words("SourceState", "Up", "Down")
    Via = _words("Via", "Device", "Journal", "Syslog")
    ResetRequest = _words("ResetRequest", "Immediate", "AfterDrain", "NotRequested")
    SxidSeverity = _words("SxidSeverity", "Fatal", "NonFatal")
    ConfigState = _words("ConfigState", "Answers", "AllOnes", "Gone")


COST_OF_SYSLOG = "a fault that only the kernel log reports is not tainted"
"""What a node lacks whose kernel log is read by syslog(2)."""


def answer(value: bool | None) -> Answer:  # noqa: FBT001 - the value itself
    """Return what was read as a word; None: it could not be read."""
    return "Unknown" if value is None else "True" if value else "False"


def known(word: str, yes: str, no: str) -> bool | None:
    """Return what a word of two says, None for any other."""
    return True if word == yes else False if word == no else None


def mig_mode(enabled: bool | None) -> MigMode:  # noqa: FBT001 - the value itself
    return "Unknown" if enabled is None else "Enabled" if enabled else "Disabled"


_REQUESTS: tuple[ResetRequest, ...] = ("Unknown", "NotRequested", "AfterDrain", "Immediate")
"""What a line wants, the worst last."""


def reset_request(*, at_once: bool | None, after_drain: bool | None) -> ResetRequest:
    """Return what a line with `RST` and `D-RST` wants; None: it has no such word."""
    if at_once or after_drain:
        return "Immediate" if at_once else "AfterDrain"
    return "Unknown" if at_once is None and after_drain is None else "NotRequested"


def worst_request(requests: Iterable[ResetRequest]) -> ResetRequest:
    return _REQUESTS[max(map(_REQUESTS.index, requests), default=0)]


OTHER = "Other"
"""Name of a code that this version has no name for."""

RECOVERY_ACTIONS = (
    "None",
    "GPUReset",
    "NodeReboot",
    "DrainP2P",
    "DrainAndReset",
    "RecoverIMEXDomain",
    "BusReset",
    "SystemReboot",
)
"""nvmlGpuRecoveryAction_t (nvml.h), by value."""
FABRIC_STATES = ("NotSupported", "NotStarted", "InProgress", "Completed")
"""nvmlGpuFabricState_t, by value."""
FABRIC_SUMMARIES = ("NotSupported", "Healthy", "Unhealthy", "LimitedCapacity")
"""NVML_GPU_FABRIC_HEALTH_SUMMARY_*, by value."""


def name_of(code: int | None, names: tuple[str, ...]) -> str:
    """Return the name of a code for people, "" where there is no code."""
    if code is None:
        return ""
    return names[code] if 0 <= code < len(names) else OTHER
