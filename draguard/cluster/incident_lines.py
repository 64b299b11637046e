"""Incidents into the few facts that lists show, the worst first. Pure."""

from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec

from draguard.cluster.incidents import severity
from remediator.model.incident import Incident
from remediator.plan.api_words import need_of, ours


class Line(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    node: str
    uuid: str
    fault: str
    cause: str
    scope: str
    phase: str
    mode: str
    opened: datetime | None
    closed: datetime | None
    pods: int
    """Different pods to which a device in scope is, or was, allocated."""
    needs: str
    """The repair, "" where none is needed."""
    deferred: str
    """Why the next step is deferred, "" if it is not."""
    message: str


def incident_lines(
    incidents: Iterable[Incident], *, closed: bool = False, nodes: Collection[str] | None = None
) -> tuple[Line, ...]:
    """Return the open ones, the worst first, and then closed ones, the youngest first.

    `nodes`: only those on these nodes.
    """
    mine = [incident for incident in incidents if nodes is None or incident.node in nodes]
    found = sorted((incident for incident in mine if incident.open), key=severity)
    if closed:
        over = [incident for incident in mine if not incident.open]
        found += sorted(over, key=lambda incident: str(incident.status.closed_at), reverse=True)
    return tuple(map(_line, found))


def _line(incident: Incident) -> Line:
    status = incident.status
    affected = {(pod.namespace, pod.pod) for pod in status.affected if pod.pod}
    return Line(
        name=incident.name,
        node=incident.node,
        uuid=incident.spec.uuid,
        fault=status.fault,
        cause=status.cause,
        scope=status.scope.summary,
        phase=status.phase,
        mode=ours(status.mode),
        opened=incident.metadata.creation_timestamp,
        closed=status.closed_at,
        pods=len(affected) + status.affected_left_out,
        needs="" if need_of(status.needs) == "nothing" else ours(status.needs),
        deferred=next(
            (
                condition.reason
                for condition in status.conditions
                if condition.type == "Deferred" and condition.status == "True"
            ),
            "",
        ),
        message=status.message,
    )
