"""Conditions of a Node: ours are read and written, those of others stay as they are.

Strategic merge patch on nodes/status, where conditions merge by type. The same patch sets
`nodes.MARK`, the annotation with the types that we have set. So a restarted remediator finds every
condition that it must remove, also when the incident behind it was pruned long ago. The Node's UID
is in the patch, so the API server refuses it for a Node that was registered again under that name.
The Node is read anew before the first write of a type and before each call for a repair, and its
resourceVersion is in the patch. So an `AcceleratedHardwareReady` that another agent has set to
False stays, and a patch that takes effect late does not undo what was written since.

The right to patch nodes/status is a role of its own (`deploy/manifests/node-conditions.yaml`),
because with it a client may write any condition.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from time import monotonic
from typing import Literal

import msgspec

from exporter.model.plugin_ids import possibly_gpu
from exporter.model.quantity import whole
from kubeapi import clock
from kubeapi.client import UNREADABLE, ApiError, Client, Conflict, NotFound
from kubeapi.types import ObjectMeta
from remediator.model.node import (
    CONDITION_TYPES,
    MARK,
    PROBLEM,
    NodeCondition,
    is_ours,
    marked_types,
)

_log = logging.getLogger(__name__)
READ_AGAIN = 60.0
"""Seconds for which a Node that was read counts as known; others may write it meanwhile."""
REFUSED_FOR = 60.0
"""Seconds before a refused right is tried again."""
FORBIDDEN = 403
INVALID = 422
ROLE = "deploy/manifests/node-conditions.yaml"


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str = "Unknown"
    """The API server accepts any text."""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = ()
    capacity: dict[str, str | float] | None = None


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()


class StoredConditions(msgspec.Struct, frozen=True, kw_only=True):
    """What a Node reports of itself, as far as the hand-over reads it."""

    conditions: tuple[NodeCondition, ...] = ()
    """Ours."""
    others: tuple[NodeCondition, ...] = ()
    """Of types that we may write, by another agent."""
    plugin_resources: tuple[str, ...] = ()
    """Of its capacity, what may be GPUs of a device plugin; sorted."""


class _Known(msgspec.Struct, frozen=True):
    """A Node as last read or written."""

    uid: str
    version: str
    marked: frozenset[str]
    stored: StoredConditions
    at: float


_NO_NODE = StoredConditions()


class NodeConditions:
    """Writes nothing but conditions of our own types. Any thread."""

    def __init__(
        self,
        client: Client,
        *,
        now: Callable[[], datetime] = clock.now,
        elapsed: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client
        self._now = now
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._refused_at: float | None = None
        self.forbidden = 0
        """How often the API server refused a request because the role is missing."""

    @property
    def lacks_role(self) -> bool:
        """Whether the role was missing a moment ago: then no request is sent."""
        return self._refused_at is not None and self._elapsed() - self._refused_at < REFUSED_FOR

    def read(self, node: str) -> StoredConditions | None:
        """Return the conditions of a Node as stored; None when that is unknown now.

        Sends at most one request each `READ_AGAIN` seconds.
        """
        if self.lacks_role:
            return None
        try:
            known = self._look(node)
        except ApiError as error:
            if error.status == FORBIDDEN:
                self._note_refusal(error)
            else:
                _log.warning("cannot read the conditions of node %s: %s", node, error)
            return None
        return known.stored if known else _NO_NODE

    def write(self, node: str, conditions: Sequence[NodeCondition]) -> None:
        """Set conditions by one patch. Raises ApiError, Conflict when the Node is another one.

        Does nothing for a Node that is gone, or without the role, which is logged once.
        """
        types = {condition.type for condition in conditions}
        if foreign := sorted(types.difference(CONDITION_TYPES)):
            raise ValueError(f"{foreign[0]} is not a condition of ours")
        if self.lacks_role:
            return
        try:
            calls = any(condition.status == PROBLEM[condition.type] for condition in conditions)
            decided_on = known = self._look(node)
            afresh = known is not None and (calls or not types <= known.marked)
            if decided_on is not None and afresh:
                known = self._look(node, afresh=True)
                # The conditions were decided for the Node that had this name before.
                if known is not None and known.uid != decided_on.uid:
                    raise Conflict(f"node {node} was registered again")
            if known is None:
                return
            ours = [
                condition for condition in conditions if not _owned_by_another(condition, known)
            ]
            if ours:
                mark = ",".join(sorted(known.marked | {condition.type for condition in ours}))
                exactly = {"uid": known.uid}
                exactly |= {"resourceVersion": known.version} if afresh else {}
                self._patch(
                    node, exactly, mark, [_entry(condition, self._now()) for condition in ours]
                )
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            self._note_refusal(error)

    def look_again(self) -> None:
        """Forget what is on the Nodes: another leader may have written them meanwhile."""
        with self._lock:
            self._known.clear()

    def remove(self, node: str) -> None:
        """Take every condition of ours, and the mark, off a Node. Raises ApiError, 403 too."""
        known = self._look(node)
        if known is not None and (known.marked or known.stored.conditions):
            types = sorted(condition.type for condition in known.stored.conditions)
            gone = [{"$patch": "delete", "type": kind} for kind in types]
            self._patch(node, {"uid": known.uid}, None, gone)

    def _patch(
        self,
        node: str,
        exactly: Mapping[str, str],
        mark: str | None,
        entries: Sequence[Mapping[str, object]],
    ) -> None:
        body = {
            "metadata": {**exactly, "annotations": {MARK: mark}},
            "status": {"conditions": entries},
        }
        try:
            answer = self._client.strategic_merge_patch(f"{_path(node)}/status", body)
        except NotFound:
            self._forget(node)
        except ApiError as error:
            # The patch may have been stored all the same: the Node is read before the next one.
            self._forget(node)
            # A status patch answers 422, where other patches answer 409 (tried on 1.37.1).
            if error.status == INVALID and "metadata.uid" in error.message:
                raise Conflict(error.message, status=error.status, reason=error.reason) from error
            raise
        else:
            self._refused_at = None
            self._remember(node, answer)

    def _note_refusal(self, error: ApiError) -> None:
        if not self.forbidden:
            _log.error(
                "node conditions are enabled but the role for them is missing: apply %s, or "
                "disable them; everything else goes on (%s)",
                ROLE,
                error,
            )
        self.forbidden += 1
        self._refused_at = self._elapsed()

    def _look(self, node: str, *, afresh: bool = False) -> _Known | None:
        """Return what is known of a Node, None when there is no such Node. Raises ApiError."""
        with self._lock:
            known = self._known.get(node)
        if known is not None and not afresh and self._elapsed() - known.at < READ_AGAIN:
            return known
        try:
            return self._remember(node, self._client.get(_path(node)))
        except NotFound:
            self._forget(node)
            return None

    def _remember(self, node: str, answer: bytes) -> _Known:
        try:
            raw = msgspec.json.decode(answer, type=_Node)
        except UNREADABLE as error:
            raise ApiError(f"GET {_path(node)}: the answer is not a Node ({error})") from error
        types = marked_types(raw.metadata.annotations)
        written = [
            _condition(condition)
            for condition in raw.status.conditions or ()
            if condition.type in CONDITION_TYPES
        ]
        # What a device plugin offers; one that has left leaves a 0 behind.
        capacity = (raw.status.capacity or {}).items()
        offered = (name for name, amount in capacity if whole(amount) != 0)
        stored = StoredConditions(
            conditions=tuple(condition for condition in written if is_ours(condition, types)),
            others=tuple(condition for condition in written if not is_ours(condition, types)),
            plugin_resources=tuple(sorted(filter(possibly_gpu, offered))),
        )
        meta = raw.metadata
        known = _Known(meta.uid, meta.resource_version, types, stored, self._elapsed())
        with self._lock:
            self._known[node] = known
        return known

    def _forget(self, node: str) -> None:
        with self._lock:
            self._known.pop(node, None)


def _owned_by_another(condition: NodeCondition, known: _Known) -> bool:
    """Whether another agent reports a problem by this condition: then it stays."""
    return any(
        other.type == condition.type and other.status == PROBLEM[other.type]
        for other in known.stored.others
    )


def _path(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def _condition(raw: _Condition) -> NodeCondition:
    known: Mapping[str, Literal["True", "False"]] = {"True": "True", "False": "False"}
    return NodeCondition(
        type=raw.type,
        status=known.get(raw.status, "Unknown"),
        reason=raw.reason,
        message=raw.message,
        last_transition_time=raw.last_transition_time,
    )


def _entry(condition: NodeCondition, now: datetime) -> Mapping[str, object]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
        "lastHeartbeatTime": now.replace(microsecond=0),
    }
