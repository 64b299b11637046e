"""Taking back what Draguard has set in a cluster: its rules, and its Node conditions.

What is ours is told by two signs that the remediator puts on everything it
writes: the label `app.kubernetes.io/managed-by=draguard`, and a taint key of our
domain. A rule with one of them alone is another's and stays, unless it has
the name that we give for its device: labels are lost. A user's taint for
maintenance stays too, and is told of.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from draguard.cluster.cordon_rule import is_maintenance
from draguard.cluster.listing import listed
from draguard.phrases import some
from exporter.model.node_health import ObjectMeta
from kubeapi.client import ApiError, Client, NotFound
from kubeapi.discovery import served
from remediator.controller.cluster import NODES
from remediator.controller.node_conditions import NodeConditions
from remediator.controller.versions import GROUP, RULE_VERSIONS
from remediator.model.node import CONDITION_TYPES, MARK, REPAIR_NEEDED
from remediator.model.taint_rule import (
    DOMAIN,
    GPU,
    INCIDENT,
    MANAGED_BY,
    MANAGER,
    RawRule,
    is_ours,
)

T = TypeVar("T")
UNANSWERED = "no answer, so it may or may not be removed"


class Found(msgspec.Struct, frozen=True):
    """One thing of ours in the cluster."""

    kind: str
    name: str
    what: str
    incident: str = ""
    gpu: str = ""
    """UUID of the GPU of a rule."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of it; `error` "" when it is gone."""

    found: Found
    error: str = ""

    @property
    def unanswered(self) -> bool:
        return self.error.startswith(UNANSWERED)


class _Condition(msgspec.Struct, frozen=True):
    type: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()


class Remover:
    """Finds and removes; each removal says how it went."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._conditions = NodeConditions(client)

    def rules(self) -> Iterator[tuple[Found, RawRule]]:
        """Give our rules. Raises ApiError."""
        for raw in self._rules():
            if _is_ours(raw):
                yield _found(raw), raw

    def maintenance(self) -> list[str]:
        """Return the names of people's cordons for maintenance, which no release takes away."""
        return sorted(one.metadata.name for one in self._rules() if is_maintenance(one))

    def nodes(self) -> Iterator[Found]:
        """Give the Nodes that carry a condition of ours. Raises ApiError."""
        for node in self._all(NODES, _Node):
            types = {one.type for one in node.status.conditions or ()} & {REPAIR_NEEDED}
            types |= set(node.metadata.annotations.get(MARK, "").split(",")) & {*CONDITION_TYPES}
            if types:
                yield Found("Node", node.metadata.name, f"condition {', '.join(sorted(types))}")

    def remove_rule(self, found: Found, raw: RawRule) -> Outcome:
        """Delete exactly the rule that was seen, whatever was written to it since."""
        exactly = {"preconditions": {"uid": raw.metadata.uid}}
        path = f"{self._path()}/{found.name}"
        return _tried(found, lambda: self._client.delete(path, exactly))

    def remove_conditions(self, found: Found) -> Outcome:
        refused = self._conditions.forbidden
        outcome = _tried(found, lambda: self._conditions.remove(found.name))
        if self._conditions.forbidden > refused:
            return Outcome(found, "403 Forbidden: this needs permission to patch nodes/status")
        return outcome

    def _path(self) -> str:
        version = served(self._client, GROUP, "devicetaintrules", RULE_VERSIONS)
        return f"/apis/{GROUP}/{version}/devicetaintrules" if version else ""

    def _rules(self) -> list[RawRule]:
        path = self._path()
        # A cluster that serves no rules has none.
        return self._all(path, RawRule) if path else []

    def _all(self, path: str, kind: type[T]) -> list[T]:
        found, unreadable = listed(self._client, path, kind)
        if unreadable:
            raise ApiError(f"GET {path}: this version cannot read {some(unreadable)}")
        return found


def _is_ours(raw: RawRule) -> bool:
    """Whether both signs are there, or the remediator knows it for its own without a label."""
    if is_maintenance(raw):
        return False
    labelled = raw.metadata.labels.get(MANAGED_BY) == MANAGER
    return is_ours(raw) or (labelled and raw.spec.taint.key.partition("/")[0] == DOMAIN)


def _found(raw: RawRule) -> Found:
    said = {**raw.metadata.annotations, **raw.metadata.labels}
    incident, gpu = said.get(INCIDENT, ""), said.get(GPU, "")
    return Found("DeviceTaintRule", raw.metadata.name, _what(raw), incident, gpu)


def _what(raw: RawRule) -> str:
    taint, named = raw.spec.taint, raw.spec.device_selector
    device = f"{named.driver}/{named.pool}/{named.device}" if named else "no device"
    return f"{taint.effect} {taint.key}={taint.value} on {device}"


def _tried(found: Found, remove: Callable[[], object]) -> Outcome:
    try:
        remove()
    except NotFound:
        return Outcome(found)
    except ApiError as error:
        unanswered = f"{UNANSWERED}: {error}"
        return Outcome(found, unanswered if error.status is None else error.message)
    return Outcome(found)
