"""Where each pod with devices stands. Pure but for its memory.

Pods that request the same and may run on the same nodes wait for the same: what becomes of their
claims is computed once for all of them. While there is no time for all, those come first whose
answer is the oldest; until then a pod keeps its last answer, or has none.
"""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Protocol

import msgspec

from allocation.answers import Answers, OutOfTimeError
from allocation.capacity import CapacityError
from allocation.demand import Demand
from allocation.explainer.turns import in_turn
from allocation.layers.admission import admission
from allocation.layers.explanation import (
    Inventory,
    Known,
    Outcome,
    demand_of,
    elsewhere,
    notes_on,
    supplies_of,
    taints_of,
    view_of,
)
from allocation.layers.finding import Finding
from allocation.layers.scheduling import scheduler
from allocation.layers.walk import first_finding
from allocation.model.claims import Claim, ClaimSpec
from allocation.model.events import Event
from allocation.model.nodes import NodeSelectorError
from allocation.model.pods import Pod
from allocation.model.slices import Taint
from allocation.plugin import classes_of_resources
from allocation.reasons import Why
from allocation.summary import Group, Summary, summarize
from exporter.model.device import Device
from kubeapi.types import EARLIEST, NamespacedMeta

MOST_NAMES = 20_000_000
"""Names that all answers keep together, some 160 MB: each may name all claims of a large cluster,
and tenants choose how many there are."""
_OF_GROUP = 34
"""Names that take as much room as a group of devices and its request: some 270 bytes."""
MOST_REQUESTS = 200
"""Of the claims of one pod: more cannot be tried (`search.DEEPEST`)."""
MOST_COMPARED = 10_000
"""Values of one pod that are compared with each node: more would take all of a look."""
EASE = 20
"""An answer is computed anew when it is so many times as old as its computation took."""
_ENDED = frozenset({"Succeeded", "Failed"})
_BY_CLAIMS: frozenset[Why] = frozenset({"Allocated", "Capacity"})
"""Reasons whose `by` names claims."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a cluster at one moment."""

    at: datetime
    version: object
    """Differs where what allocations rest on has changed."""
    pods: Mapping[str, Pod]
    """Those that use claims or extended resources."""
    claims: Mapping[str, Claim]
    """By `namespace/name`, as the pods."""
    inventory: Inventory
    incidents: Mapping[Device, str] = {}
    unreadable: str = ""
    """What cannot be read of what allocations rest on; it names no object: tenants read it."""

    @property
    def basis(self) -> tuple[object, str]:
        """Return the same while answers stay the same."""
        return self.version, self.unreadable


class Remarks(Protocol):
    """What is read of a pod when it is looked at, and not watched."""

    def templates(self, pod: Pod, claims: Collection[str]) -> Mapping[str, bool] | None:
        """Return whether each template exists that is due; None: that is unknown of one."""
        ...

    def events(self, pod: Pod) -> tuple[Event, ...]:
        """Return the Events on it, where they matter."""
        ...


class Answer(msgspec.Struct, frozen=True):
    """What becomes of the claims of pods that are alike."""

    outcome: Outcome
    at: datetime
    basis: tuple[object, str]
    cost: float
    """Seconds that it took."""
    in_time: bool = True
    """False: time ran out, so it is computed further as soon as there is some."""

    def is_due(self, snapshot: Snapshot) -> bool:
        age = (snapshot.at - self.at).total_seconds()
        changed = not self.in_time or self.basis != snapshot.basis
        return changed and not 0 <= age < EASE * self.cost

    @property
    def size(self) -> int:
        """Return how many names it keeps, and what else takes as much room."""
        requests = self.outcome.summary.requests if self.outcome.summary else ()
        of_groups = sum(
            _OF_GROUP + len(group.by) for request in requests for group in request.groups
        )
        return of_groups + _OF_GROUP * len(self.outcome.elsewhere or ())


class Look(msgspec.Struct, frozen=True):
    findings: Mapping[str, Finding]
    """By the UID of the pod."""
    unexplained: int
    """Pods without any, for want of time."""
    oldest: datetime | None
    """Of the answers in `findings`, of those that may have changed since they were computed."""
    errors: tuple[Exception, ...] = ()
    """Of pods that could not be explained for a fault of this program."""


class _Waiting(msgspec.Struct, frozen=True):
    """A pod that waits for what the scheduler has to find.

    What is computed for one is for all of its kind. So it knows claims only by their names within
    the pod, and no namespace.
    """

    pod: Pod
    known: Known
    demand: Demand
    requested: Mapping[str, int]

    @property
    def shared_demand(self) -> Demand:
        """Return the demand as all pods of its kind have it."""
        in_pod = {claim: name for name, claim in self.pod.claim_names().items()}
        waiting = tuple(
            msgspec.structs.replace(
                claim,
                metadata=NamespacedMeta(name=in_pod.get(claim.metadata.name, claim.metadata.name)),
            )
            for claim in self.demand.waiting
        )
        placed = tuple((in_pod.get(name, ""), where) for name, where in self.demand.placed)
        return Demand(waiting, self.pod, placed)

    def kind(self, digests: Iterable[bytes]) -> bytes:
        """Return the same for pods for which the scheduler finds the same.

        `digests` are of the claims that wait.
        """
        spec, demand = self.pod.spec, self.shared_demand
        return _digest_of(
            (
                [claim.metadata.name for claim in demand.waiting],
                [*digests],
                demand.placed,
                sorted(self.requested.items()),
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
                demand.may_end_in_error,
            )
        )


class Findings:
    """Remembers what was computed; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.answers: Mapping[bytes, Answer] = {}
        """By the kind of demand."""
        self._on_nodes: dict[str, tuple[object, Finding]] = {}
        self._served: dict[str, float] = {}
        """By namespace: when something was last computed for it."""
        self._digests: dict[str, tuple[ClaimSpec, bytes]] = {}
        """By claim, as long as it is the same object: its watch gives another when it changes."""

    def look(
        self,
        snapshot: Snapshot,
        answers: Answers,
        remarks: Remarks,
        budget: float,
    ) -> Look:
        """Return where all pods stand; `budget` is the seconds for computations."""
        seen = _Seen(
            snapshot,
            remarks,
            classes_of_resources(snapshot.inventory.classes),
            taints_of(snapshot.inventory.slices),
        )
        findings: dict[str, Finding] = {}
        on_nodes: dict[str, tuple[object, Finding]] = {}
        waiting: dict[bytes, list[_Waiting]] = {}
        unexplained = 0
        errors: list[Exception] = []
        for pod in snapshot.pods.values():
            uid, uses = pod.metadata.uid, pod.extended_resources().keys() & seen.classes.keys()
            if pod.status.phase in _ENDED or not (pod.spec.resource_claims or uses):
                continue
            try:
                if pod.spec.node_name:
                    on_nodes[uid] = seen.on_node(pod, self._on_nodes.get(uid))
                    findings[uid] = on_nodes[uid][1]
                    continue
                stand = seen.before_node(pod)
                if isinstance(stand, _Waiting):
                    kind = stand.kind(map(self._digest, stand.demand.waiting))
                    waiting.setdefault(kind, []).append(stand)
            except Exception as error:  # noqa: BLE001 - one pod must not hide where all others stand
                message = _fault(error)
                stand = Finding(layer="Allocation", reason="NotEvaluated", message=message)
                errors.append(error)
            if isinstance(stand, Finding):
                findings[uid] = stand
            unexplained += stand is None
        self._on_nodes = on_nodes
        self._digests = {
            key: each
            for key, each in self._digests.items()
            if (claim := snapshot.claims.get(key)) and claim.spec is each[0]
        }
        errors += self._answer(snapshot, waiting, answers, budget)
        stale = [each.at for each in self.answers.values() if each.basis != snapshot.basis]
        for kind, pods in waiting.items():
            if kind in self.answers:
                findings |= _with_answer(pods, self.answers[kind])
            else:
                unexplained += len(pods)
        return Look(findings, unexplained, min(stale, default=None), tuple(errors))

    def _digest(self, claim: Claim) -> bytes:
        """Return the same for claims that request the same.

        Many pods may name one of a megabyte.
        """
        spec, found = self._digests.get(claim.key, (None, b""))
        if spec is not claim.spec:
            found = _digest_of(claim.spec.devices)
            self._digests[claim.key] = claim.spec, found
        return found

    def _answer(
        self,
        snapshot: Snapshot,
        waiting: Mapping[bytes, list[_Waiting]],
        answers: Answers,
        budget: float,
    ) -> list[Exception]:
        """Compute what is due, as long as there is time and room, and forget kinds that are gone.

        Returns what went wrong.
        """
        begun, errors = self._clock(), list[Exception]()
        kept = {kind: each for kind, each in self.answers.items() if kind in waiting}
        whose = {
            kind: {each.pod.metadata.namespace for each in pods} for kind, pods in waiting.items()
        }
        namespaces = set[str]().union(*whose.values())
        self._served = {name: at for name, at in self._served.items() if name in namespaces}
        names = Counter[str]()
        for kind, each in kept.items():
            names.update(dict.fromkeys(whose[kind], each.size))
        share = MOST_NAMES // max(len(namespaces), 1)
        due = [kind for kind in waiting if kind not in kept or kept[kind].is_due(snapshot)]
        for number, kind in enumerate(self._in_order(due, kept, whose)):
            if number and self._clock() - begun > budget:
                break
            if names.total() > MOST_NAMES and all(names[name] > share for name in whose[kind]):
                kept.pop(kind, None)
                continue
            now, in_time = self._clock(), True
            try:
                outcome = _outcome(snapshot, waiting[kind][0], answers)
            except OutOfTimeError as error:
                outcome, in_time = Outcome(unknown=str(error)), False
            except Exception as error:  # noqa: BLE001 - as in `look`
                outcome = Outcome(unknown=_fault(error))
                errors.append(error)
            cost = self._clock() - now
            new = Answer(outcome, snapshot.at, snapshot.basis, cost, in_time)
            more = new.size - (kept[kind].size if kind in kept else 0)
            kept[kind] = new
            names.update(dict.fromkeys(whose[kind], more))
            self._served.update(dict.fromkeys(whose[kind], now))
        self.answers = kept
        return errors

    def _in_order(
        self, due: list[bytes], kept: Mapping[bytes, Answer], whose: Mapping[bytes, set[str]]
    ) -> Iterable[bytes]:
        """Return what is due: what was never computed, then the oldest, each namespace in turn.

        In a turn the namespace comes first that was served longest ago: one whose answers take long
        delays no other. A kind of several namespaces has the best of their turns.
        """
        since = {kind: kept[kind].at if kind in kept else EARLIEST for kind in due}
        entries = [
            (self._served.get(name, float("-inf")), since[kind], name, kind)
            for kind in due
            for name in whose[kind]
        ]
        return dict.fromkeys(kind for *_, kind in in_turn(sorted(entries), itemgetter(2)))


def _digest_of(stated: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(stated), digest_size=16).digest()


class _Seen(msgspec.Struct, frozen=True):
    """What one look goes by."""

    snapshot: Snapshot
    remarks: Remarks
    classes: Mapping[str, str]
    """By extended resource."""
    taints: Mapping[Device, tuple[Taint, ...]]

    def on_node(self, pod: Pod, before: tuple[object, Finding] | None) -> tuple[object, Finding]:
        """Return where a pod stands that has a node, and what that rests on: itself and its claims.

        `before` is what was returned for it at the last look. How old Events are matters, too.
        """
        claims, events = self._claims(pod), self.remarks.events(pod)
        health = tuple(notes_on(claims, self.taints, self.snapshot.incidents))
        rests_on = (pod, claims, events, health)
        if before is not None and before[0] == rests_on and not events:
            return before
        known = _known(self.snapshot, pod, claims, events=events)
        view = view_of(known, pod, Demand.of(pod, (), claims), Outcome(), health)
        return rests_on, first_finding(view)

    def before_node(self, pod: Pod) -> Finding | _Waiting | None:
        """Return where a pod stands that has no node yet; None: that is not known."""
        templates = self.remarks.templates(pod, self.snapshot.claims)
        if templates is None:
            return None
        claims = self._claims(pod)
        events = self.remarks.events(pod)
        known = _known(self.snapshot, pod, claims, templates=templates, events=events)
        demand, requested = demand_of(pod, claims, self.classes)
        health = tuple(notes_on(claims, self.taints, self.snapshot.incidents))
        view = view_of(known, pod, demand, Outcome(), health)
        if pod.metadata.deletion_timestamp is not None:
            return first_finding(view)
        early = admission(view) or scheduler(view)
        if early is None and (size := _too_large(demand)):
            message = f"{size}, so what it waits for is not known here"
            return Finding(layer="Allocation", reason="NotEvaluated", message=message)
        return early or _Waiting(pod, known, demand, requested)

    def _claims(self, pod: Pod) -> tuple[Claim, ...]:
        found = map(self.snapshot.claims.get, pod.claim_keys())
        return tuple(claim for claim in found if claim is not None)


def _too_large(demand: Demand) -> str:
    """Return of what there is too much to be computed, "" for nothing."""
    if sum(len(claim.spec.devices.requests) for claim in demand.waiting) > MOST_REQUESTS:
        return f"its claims have more than {MOST_REQUESTS} requests"
    if demand.comparisons > MOST_COMPARED:
        return f"it compares more than {MOST_COMPARED} values with each node"
    return ""


def _fault(error: Exception) -> str:
    """Return what a tenant reads where this program fails; its log has more."""
    return f"not known here, for a fault of Draguard ({type(error).__name__})"


def _known(
    snapshot: Snapshot,
    pod: Pod,
    claims: tuple[Claim, ...],
    *,
    templates: Mapping[str, bool] = {},
    events: tuple[Event, ...] = (),
) -> Known:
    return Known(
        at=snapshot.at,
        pod=pod,
        claims=claims,
        templates=templates,
        events=events,
        inventory=snapshot.inventory,
    )


def _outcome(snapshot: Snapshot, first: _Waiting, answers: Answers) -> Outcome:
    """Return what becomes of a demand, as far as it is kept. Raises OutOfTimeError."""
    stock = snapshot.inventory
    plain = Outcome(
        supplies=supplies_of(first.requested, stock) if first.requested else (),
        elsewhere=elsewhere(first.demand, stock.nodes, answers),
    )
    if not first.demand.waiting:
        return plain
    if snapshot.unreadable:
        return msgspec.structs.replace(plain, unknown=snapshot.unreadable)
    try:
        summary = summarize(first.shared_demand, stock.nodes, stock.cluster, answers)
    except (NodeSelectorError, CapacityError) as error:
        # Something that is published or requested says nothing to the scheduler either.
        return msgspec.structs.replace(plain, unknown=str(error))

    def without_devices(group: Group) -> Group:
        """No finding names them."""
        return msgspec.structs.replace(group, devices=())

    return msgspec.structs.replace(plain, summary=_of_groups(summary, without_devices))


def _of_groups(summary: Summary, change: Callable[[Group], Group]) -> Summary:
    requests = tuple(
        msgspec.structs.replace(request, groups=tuple(map(change, request.groups)))
        for request in summary.requests
    )
    return msgspec.structs.replace(summary, requests=requests)


def _with_answer(pods: list[_Waiting], answer: Answer) -> Iterator[tuple[str, Finding]]:
    """Yield the finding of each pod, by its UID, in which no other namespace is named."""
    within: dict[str, Outcome] = {}
    outcome = answer.outcome
    for each in pods:
        namespace = each.pod.metadata.namespace
        if namespace not in within:
            summary = outcome.summary and summary_within(outcome.summary, namespace)
            within[namespace] = msgspec.structs.replace(outcome, summary=summary)
        # No device: what is allocated of its claims is not what it waits for.
        view = view_of(each.known, each.pod, each.demand, within[namespace], ())
        yield each.pod.metadata.uid, first_finding(view)


def summary_within(summary: Summary, namespace: str) -> Summary:
    """Return a summary that names no claim of another namespace."""

    def within(group: Group) -> Group:
        # Sorted, so those of one namespace follow each other: "0" is the next after "/".
        begin, end = (bisect_left(group.by, f"{namespace}{mark}") for mark in "/0")
        others = len(group.by) - (end - begin)
        if group.why not in _BY_CLAIMS or not others:
            return group
        claims = "1 claim of another namespace" if others == 1 else f"{others} of other namespaces"
        return msgspec.structs.replace(group, by=(*group.by[begin:end], claims))

    return _of_groups(summary, within)
