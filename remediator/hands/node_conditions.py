"""Conditions of a Node: ours are read and written, those of others stay as they are.

Strategic merge patch on nodes/status, where conditions merge by type. The same
patch sets `nodes.MARK`, the annotation that says which types we have set, so
that a restarted remediator finds every condition that it must take back, also
when the incident behind it was pruned long ago. The Node's UID goes along: a
Node that was registered again under the same name refuses the patch.

The right to patch nodes/status is a role of its own (deploy/manifests/
node-conditions.yaml), because with it a client may write any condition.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from time import monotonic
from typing import Literal

import msgspec

from exporter.report import ObjectMeta
from kubeapi import clock
from kubeapi.client import UNREADABLE, ApiError, Client, Conflict, NotFound
from remediator.objects.nodes import CONDITION_TYPES, MARK, REPAIR_NEEDED, NodeCondition, marked

_log = logging.getLogger(__name__)
READ_AGAIN = 60.0
"""Seconds for which a Node that was read counts as known; somebody else may write it meanwhile."""
REFUSED_FOR = 60.0
"""Seconds before a refused right is tried again."""
FORBIDDEN = 403
INVALID = 422
ROLE = "deploy/manifests/node-conditions.yaml"


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str = "Unknown"
    """The API server takes any word."""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()


class _Known(msgspec.Struct, frozen=True):
    """A Node as last read or written."""

    uid: str
    marked: frozenset[str]
    conditions: tuple[NodeCondition, ...]
    at: float


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
        """How often the API server refused for want of the role."""

    def read(self, node: str) -> tuple[NodeCondition, ...] | None:
        """Return our conditions on a Node as stored; None when that cannot be told now.

        Asks at most each `READ_AGAIN` seconds. `AcceleratedHardwareReady` is
        ours only where the mark says that we set it: another agent's is not.
        """
        if self._may_not():
            return None
        try:
            known = self._look(node)
        except ApiError as error:
            if error.status == FORBIDDEN:
                self._refused(error)
            else:
                _log.warning("cannot read the conditions of node %s: %s", node, error)
            return None
        return known.conditions if known else ()

    def write(self, node: str, condition: NodeCondition) -> None:
        """Set one condition. Raises ApiError, Conflict when the Node is another one by now.

        A Node that is gone needs none; without the role nothing is written, and said once.
        """
        if condition.type not in CONDITION_TYPES:
            raise ValueError(f"{condition.type} is no condition of ours")
        if self._may_not():
            return
        try:
            known = self._look(node)
            if known is not None:
                mark = ",".join(sorted(known.marked | {condition.type}))
                self._patch(node, known.uid, mark, [_entry(condition, self._now())])
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            self._refused(error)

    def remove(self, node: str) -> None:
        """Take every condition of ours, and the mark, off a Node. Raises ApiError, 403 too."""
        known = self._look(node)
        if known is not None and (known.marked or known.conditions):
            types = sorted(known.marked | {one.type for one in known.conditions})
            gone = [{"$patch": "delete", "type": one} for one in types]
            self._patch(node, known.uid, None, gone)

    def _patch(
        self, node: str, uid: str, mark: str | None, entries: Sequence[Mapping[str, object]]
    ) -> None:
        body = {
            "metadata": {"uid": uid, "annotations": {MARK: mark}},
            "status": {"conditions": entries},
        }
        try:
            answer = self._client.strategic_merge_patch(f"{_path(node)}/status", body)
        except NotFound:
            self._forget(node)
        except ApiError as error:
            self._forget(node)
            # A status patch answers 422, where other patches answer 409 (tried on 1.37.1).
            if error.status == INVALID and "metadata.uid" in error.message:
                raise Conflict(error.message, status=error.status, reason=error.reason) from error
            raise
        else:
            self._refused_at = None
            self._heard(node, answer)

    def _may_not(self) -> bool:
        return self._refused_at is not None and self._elapsed() - self._refused_at < REFUSED_FOR

    def _refused(self, error: ApiError) -> None:
        if not self.forbidden:
            _log.error(
                "node conditions are switched on and the role for them is missing: apply %s, or "
                "switch them off; everything else goes on (%s)",
                ROLE,
                error,
            )
        self.forbidden += 1
        self._refused_at = self._elapsed()

    def _look(self, node: str) -> _Known | None:
        """Return what is known of a Node, None when there is no such Node. Raises ApiError."""
        with self._lock:
            known = self._known.get(node)
        if known is not None and self._elapsed() - known.at < READ_AGAIN:
            return known
        try:
            return self._heard(node, self._client.get(_path(node)))
        except NotFound:
            self._forget(node)
            return None

    def _heard(self, node: str, answer: bytes) -> _Known:
        try:
            raw = msgspec.json.decode(answer, type=_Node)
        except UNREADABLE as error:
            raise ApiError(f"GET {_path(node)}: the answer is no Node ({error})") from error
        types = marked(raw.metadata.annotations)
        ours = {REPAIR_NEEDED, *types}
        known = _Known(
            raw.metadata.uid,
            types,
            tuple(_condition(one) for one in raw.status.conditions or () if one.type in ours),
            self._elapsed(),
        )
        with self._lock:
            self._known[node] = known
        return known

    def _forget(self, node: str) -> None:
        with self._lock:
            self._known.pop(node, None)


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
