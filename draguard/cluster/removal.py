"""Finds Draguard's taint rules, Node conditions and Leases, removes them, and verifies that.

A rule is ours by two signs that the remediator puts on everything it writes: the label
`app.kubernetes.io/managed-by=draguard`, and a taint key of our domain. A rule with only one of
them is not ours and stays, unless it has the name that we give for its device, because labels can
be lost. Users' cordons for maintenance stay, too.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

import msgspec

from draguard.cluster.cordon_rule import is_maintenance
from draguard.cluster.installation import EXPLAINER_ACCOUNT
from draguard.cluster.listing import listed
from draguard.cluster.stored_incidents import RULE_RESOURCE
from draguard.phrases import some
from kubeapi.client import ApiError, Client, NotFound
from kubeapi.discovery import served
from kubeapi.lease import Lease, leases
from kubeapi.resources import NODES
from kubeapi.types import ObjectMeta
from kubeapi.versions import GROUP, RULE_VERSIONS
from remediator.controller.agents import AGENT_LEASE_PREFIX, LEASE_NAME
from remediator.controller.node_conditions import NodeConditions
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
UNTRIED = "not tried: the server does not answer"
_REMAINS = (
    "it still exists: a finalizer blocks its deletion, or a running remediator has created it "
    "again; lower the mode first, or use `draguard untaint`"
)


class Found(msgspec.Struct, frozen=True):
    """One thing of ours in the cluster."""

    kind: str
    name: str
    what: str
    incident: str = ""
    gpu: str = ""
    """UUID of the GPU of a rule."""

    @property
    def reference(self) -> str:
        """Return it as `-o name` prints it."""
        rule = self.kind == "DeviceTaintRule"
        return f"{RULE_RESOURCE if rule else self.kind.lower()}/{self.name}"


Rules = list[tuple[Found, RawRule]]
"""Ours, each as it is shown and as it is stored."""


class Outcome(msgspec.Struct, frozen=True):
    """The result of a removal; `error` "" when it is gone."""

    found: Found
    error: str = ""

    @property
    def unanswered(self) -> bool:
        return self.error.startswith(UNANSWERED)


Removal = tuple[Found, Callable[[], Outcome]]


class _Condition(msgspec.Struct, frozen=True):
    type: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()


class Remover:
    """Finds and removes; each removal says how it went."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._leases = client, leases(namespace)
        self._conditions = NodeConditions(client)

    def rules(self) -> Iterator[tuple[Found, RawRule]]:
        """Give our rules. Raises ApiError."""
        for raw in self._rules():
            taint, named = raw.spec.taint, raw.spec.device_selector
            labelled = raw.metadata.labels.get(MANAGED_BY) == MANAGER
            signed = labelled and taint.key.partition("/")[0] == DOMAIN
            # The remediator recognizes its own without a label, too.
            if is_maintenance(raw) or not (signed or is_ours(raw)):
                continue
            notes = {**raw.metadata.annotations, **raw.metadata.labels}
            device = f"{named.driver}/{named.pool}/{named.device}" if named else "no device"
            what = f"{taint.effect} {taint.key}={taint.value} on {device}"
            incident, gpu = notes.get(INCIDENT, ""), notes.get(GPU, "")
            yield Found("DeviceTaintRule", raw.metadata.name, what, incident, gpu), raw

    def maintenance(self) -> list[str]:
        """Return the names of users' cordons for maintenance, which stay."""
        return sorted(raw.metadata.name for raw in self._rules() if is_maintenance(raw))

    def nodes(self) -> Iterator[Found]:
        """Give the Nodes that carry a condition of ours. Raises ApiError."""
        for node in self._all(NODES, _Node):
            types = {condition.type for condition in node.status.conditions or ()} & {REPAIR_NEEDED}
            types |= set(node.metadata.annotations.get(MARK, "").split(",")) & {*CONDITION_TYPES}
            if types:
                yield Found("Node", node.metadata.name, f"condition {', '.join(sorted(types))}")

    def leases(self) -> Iterator[Found]:
        """Give the Leases of agents and leaders in Draguard's namespace. Raises ApiError."""
        for lease in self._all(self._leases, Lease):
            name = lease.metadata.name
            if name in {LEASE_NAME, EXPLAINER_ACCOUNT} or name.startswith(AGENT_LEASE_PREFIX):
                holder = lease.spec.holder_identity
                yield Found("Lease", name, f"held by {holder}" if holder else "without a holder")

    def removals(
        self, rules: Rules, nodes: Iterable[Found] = (), leases: Iterable[Found] = ()
    ) -> list[Removal]:
        """Return how each of them is removed, in this order."""
        return [
            *((rule, partial(self.remove_rule, rule, raw)) for rule, raw in rules),
            *((node, partial(self.remove_conditions, node)) for node in nodes),
            *((lease, partial(self.remove_lease, lease)) for lease in leases),
        ]

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

    def remove_lease(self, found: Found) -> Outcome:
        return _tried(found, lambda: self._client.delete(f"{self._leases}/{found.name}"))

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


def _tried(found: Found, remove: Callable[[], object]) -> Outcome:
    try:
        remove()
    except NotFound:
        return Outcome(found)
    except ApiError as error:
        unanswered = f"{UNANSWERED}: {error}"
        return Outcome(found, unanswered if error.status is None else error.message)
    return Outcome(found)


def remove_all(removals: Iterable[Removal], left: Callable[[], list[Found]]) -> list[Outcome]:
    """Remove one after the other, and return the outcome of each. `left` lists what remains.

    After a request without an answer nothing more is tried. A deletion that was requested counts
    only once the object is gone.
    """
    outcomes: list[Outcome] = []
    for found, step in removals:
        unanswered_ones = outcomes and (outcomes[-1].unanswered or outcomes[-1].error == UNTRIED)
        outcomes.append(Outcome(found, UNTRIED) if unanswered_ones else step())
    try:
        remaining = {(found.kind, found.name): Outcome(found, _REMAINS) for found in left()}
    except ApiError as error:
        why = f"removal was requested, but could not be verified: {error}"
        return [outcome if outcome.error else Outcome(outcome.found, why) for outcome in outcomes]
    verified: list[Outcome] = []
    for outcome in outcomes:
        remains = remaining.get((outcome.found.kind, outcome.found.name))
        if remains is None:
            verified.append(Outcome(outcome.found))  # it is gone, whatever the answer was
        else:
            verified.append(outcome if outcome.error else remains)
    failed = {(outcome.found.kind, outcome.found.name) for outcome in verified if outcome.error}
    return verified + [outcome for key, outcome in remaining.items() if key not in failed]


def outcome_lines(outcomes: list[Outcome], done: str) -> Iterator[str]:
    """Give a line for each outcome; `done` is the word for success."""
    for outcome in outcomes:
        found = outcome.found
        incident = f" (incident {found.incident})" if found.incident else ""
        end = f"NOT removed: {outcome.error}" if outcome.error else done
        yield f"{found.kind} {found.name}: {found.what}{incident}: {end}"
