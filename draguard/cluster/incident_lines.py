"""Incidents into the few facts that lists show, the worst first. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec

from draguard.cluster.incidents import gpu_index, short_name, urgency
from remediator.model.incident import Incident
from remediator.plan.words import need_of, ours


class Line(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    short: str
    """The name that lists show: the short one, where no other incident has it."""
    node: str
    index: int | None
    """Of the GPU on its node, as `draguard cordon NODE/INDEX` takes it; None: not known."""
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
    """Return the open ones, the most urgent first, and then closed ones, the youngest first.

    `nodes`: only those on these nodes.
    """
    incidents = tuple(incidents)
    times = Counter(short_name(incident.name) for incident in incidents)
    mine = [incident for incident in incidents if nodes is None or incident.node in nodes]
    found = sorted((incident for incident in mine if incident.open), key=urgency)
    if closed:
        over = [incident for incident in mine if not incident.open]
        found += sorted(
            over, key=lambda incident: str(incident.status.history.closed_at), reverse=True
        )
    return tuple(_line(incident, times) for incident in found)


def _line(incident: Incident, times: Mapping[str, int]) -> Line:
    status = incident.status
    affected = {(pod.namespace, pod.pod) for pod in status.scope.affected if pod.pod}
    short = short_name(incident.name)
    return Line(
        name=incident.name,
        short=short if times[short] == 1 else incident.name,
        node=incident.node,
        index=gpu_index(incident),
        uuid=incident.spec.uuid,
        fault=status.fault.fault_class,
        cause=status.fault.cause,
        scope=status.scope.summary,
        phase=status.phase,
        mode=ours(status.policy.mode),
        opened=incident.metadata.creation_timestamp,
        closed=status.history.closed_at,
        pods=len(affected) + status.scope.affected_left_out,
        needs="" if need_of(status.repair.needs) == "nothing" else ours(status.repair.needs),
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
