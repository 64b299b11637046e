"""Whether the API server takes the node's reports, as a state with a sentence.

What it answered becomes a source like any other: a stable word for why not, and
what to do about it. Pure.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from exporter.model.node_health import SourceHealth
from exporter.model.readings import STARTING

SOURCE = "report"
"""Name of this source on the page."""

FIELDS_DROPPED = "FieldsDropped"
"""Reason while reports are accepted, but parts of them are not stored."""
WARNED = "Warned"
"""Reason while reports are accepted and the server says something else beside it."""
TOO_LARGE = "TooLarge"
REDUCED = "Reduced"
"""Reason while a smaller report is accepted, as the whole one is refused as invalid."""

_ETCD_TOO_LARGE = ("request is too large", "message larger than max")
"""How etcd's limits (1.5 MiB stored, 2 MiB sent) sound through an API server, with status 500."""

_NAMED = 3
"""Fields named in a sentence."""
_QUOTED = 300
"""Characters kept of what the server said."""


class Refusal(msgspec.Struct, frozen=True):
    """One way of not taking a report."""

    reason: str
    advice: str


_UNREACHABLE = Refusal(
    "Unreachable", "reports wait for it; check the API server's address and the network"
)
_REFUSED = Refusal("Refused", "see the API server's log")
_FAILED = Refusal("ServerError", "the API server or its etcd is in trouble; it is tried again")
_CRDS = "upgrade the chart, or apply deploy/manifests/crds.yaml of the agent's release"
_OTHER_RELEASE = f"agent and CRD do not fit: {_CRDS}"
_BY_STATUS: dict[int, Refusal] = {
    400: Refusal("Invalid", _OTHER_RELEASE),
    401: Refusal("Unauthorized", "check the agent's service account token"),
    403: Refusal(
        "Forbidden",
        "grant the agent's service account get and create on nodedevicehealths and update on "
        "nodedevicehealths/status; an admission policy may allow only its own node's name",
    ),
    404: Refusal(
        "NotServed",
        "the cluster does not serve NodeDeviceHealth, so only metrics are given: install or "
        "upgrade the chart, or apply deploy/manifests/crds.yaml",
    ),
    409: Refusal(
        "Conflict",
        "another agent writes this node's report: look for a second agent with its node name",
    ),
    413: Refusal(TOO_LARGE, "it is written with fewer XID records from now on"),
    422: Refusal("Invalid", _OTHER_RELEASE),
    429: Refusal("Throttled", "the API server is throttling"),
}

STARTED = SourceHealth(
    name=SOURCE, state="Down", reason=STARTING, message="no report was written yet"
)


def refused(status: int | None, answer: str, before: SourceHealth) -> SourceHealth:
    """Return the state after a write that was not taken; `status` None: no answer."""
    if status is None:
        kind = _UNREACHABLE
    elif status < 500:
        kind = _BY_STATUS.get(status, _REFUSED)
    else:
        kind = _BY_STATUS[413] if any(word in answer for word in _ETCD_TOO_LARGE) else _FAILED
    return SourceHealth(
        name=SOURCE,
        state="Down",
        reason=kind.reason,
        message=f"the node's report is not written: {answer[:_QUOTED]}; {kind.advice}",
        last_success=before.last_success,
    )


def accepted(warnings: Sequence[str], at: datetime) -> SourceHealth:
    """Return the state after a write that was taken, with what the server said beside it."""
    dropped = fields_dropped(warnings)
    if dropped:
        reason, message = (
            FIELDS_DROPPED,
            (
                f"the cluster's NodeDeviceHealth is older than this agent and stores only part of "
                f"its reports: {_named(dropped)}; {_CRDS}"
            ),
        )
    elif warnings:
        reason, message = WARNED, f"the API server accepts reports and warns: {_named(warnings)}"
    else:
        reason, message = "", ""
    return SourceHealth(name=SOURCE, state="Up", reason=reason, message=message, last_success=at)


def reduced(size: str, answer: str, at: datetime) -> SourceHealth:
    """Return the state after a smaller report was taken in the place of an invalid one."""
    message = (
        f"the API server refuses the node's whole report, so it is written as {size} and the rest "
        f"is unknown to the remediator: {answer[:_QUOTED]}; {_OTHER_RELEASE}"
    )
    return SourceHealth(name=SOURCE, state="Up", reason=REDUCED, message=message, last_success=at)


def fields_dropped(warnings: Sequence[str]) -> list[str]:
    """Return those warnings of an API server that tell of a field it did not store."""
    return [warning for warning in warnings if warning.startswith("unknown field")]


def _named(warnings: Sequence[str]) -> str:
    more = len(warnings) - _NAMED
    return "; ".join(warnings[:_NAMED])[:_QUOTED] + (f" and {more} more" if more > 0 else "")
