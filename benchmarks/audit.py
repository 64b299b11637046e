"""kube-apiserver's audit log into the legs of one incident: where the time went.

The apiserver stamps each request when it arrives and when its answer is complete, so the legs are
measured without touching what is measured. Pure.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise

import msgspec

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, patch, update]
  resources:
  - {group: draguard.dev}
  - {group: resource.k8s.io, resources: [devicetaintrules]}
- level: Metadata
  verbs: [delete]
  resources:
  - {group: "", resources: [pods]}
- level: None
"""
POLICY_OF_ALL = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
"""
REPORT, RULE = "nodedevicehealths", "devicetaintrules"
POD = "pods"
LEGS = (
    "line written -> read by the sensor",
    "-> report arrives at the apiserver",
    "-> report stored and answered",
    "-> rule arrives",
    "-> rule stored and answered",
    "-> rule seen by a watch",
)


class Reference(msgspec.Struct, frozen=True):
    resource: str = ""
    name: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the audit log."""

    verb: str
    object_ref: Reference = Reference()
    """Empty for what is about no object, such as discovery."""
    request_received_timestamp: datetime
    stage_timestamp: datetime
    user_agent: str = ""

    @property
    def arrived(self) -> float:
        return self.request_received_timestamp.timestamp()

    @property
    def answered(self) -> float:
        return self.stage_timestamp.timestamp()


def requests(log: bytes) -> tuple[Request, ...]:
    """Parse an audit log, in order of arrival; a last line that is not whole is left out."""
    lines = log.split(b"\n")[:-1]
    found = (msgspec.json.decode(line, type=Request) for line in lines if line)
    return tuple(sorted(found, key=lambda request: request.request_received_timestamp))


def legs(
    log: Iterable[Request], *, written: float, read: float, seen: float
) -> tuple[float, ...] | None:
    """Return the seconds of each of LEGS, None when a request of the incident is not in the log.

    `written` is when the line was written, `read` when the sensor read it by its own report, `seen`
    when a watch gave the rule; all in seconds of wall time.
    """
    path = [written, read]
    later = [request for request in log if request.arrived >= written]
    for resource in (REPORT, RULE):
        first = _first(later, resource)
        if first is None:
            return None
        path += [first.arrived, first.answered]
    path.append(seen)
    return tuple(after - before for before, after in pairwise(path))


def eviction(log: Iterable[Request], *, written: float) -> float | None:
    """Return the seconds from the request that raises a rule to NoExecute to a deleted pod.

    `written` is when the incident began, in seconds of wall time. None when the log has none.
    """
    later = [request for request in log if request.arrived >= written]
    raised = _first(later, RULE, "patch")
    if raised is None:
        return None
    deleted = _first(
        [request for request in later if request.arrived >= raised.arrived], POD, "delete"
    )
    return deleted.answered - raised.arrived if deleted else None


def _first(log: Iterable[Request], resource: str, verb: str = "") -> Request | None:
    """Return the first request about a resource; any verb when none is given."""
    matching = (request for request in log if request.object_ref.resource == resource)
    return next((request for request in matching if verb in ("", request.verb)), None)
