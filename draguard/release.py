"""Taking back what Draguard has set in a cluster: its rules, and its Node conditions.

What is ours is told by two signs that the remediator puts on everything it
writes: the label `app.kubernetes.io/managed-by=draguard`, and a taint key of our
domain. A rule with one of them alone is somebody else's and stays.
"""

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import msgspec

from exporter.report import ObjectMeta
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound
from kubeapi.discovery import served
from remediator.hands.node_conditions import NodeConditions
from remediator.hands.versions import RULE_VERSIONS
from remediator.objects.nodes import CONDITION_TYPES, MARK, REPAIR_NEEDED
from remediator.objects.taints import DOMAIN, INCIDENT, MANAGED_BY, MANAGER, RawRule

NODES = "/api/v1/nodes"
PAGE = "500"
T = TypeVar("T")


class Found(msgspec.Struct, frozen=True):
    """One thing of ours in the cluster."""

    kind: str
    name: str
    what: str
    incident: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What became of it; `error` "" when it is gone."""

    found: Found
    error: str = ""


class _Meta(msgspec.Struct, frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _Listed(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] | None = ()
    metadata: _Meta = _Meta()


class _Condition(msgspec.Struct, frozen=True):
    type: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()


class Releaser:
    """Finds and removes; each removal says how it went."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._conditions = NodeConditions(client)

    def rules(self, incidents: Collection[str] | None) -> Iterator[tuple[Found, RawRule]]:
        """Give our rules, of some incidents or of all (None). Raises ApiError."""
        path = self._rules_path()
        for raw in self._listed(path, RawRule, {"labelSelector": f"{MANAGED_BY}={MANAGER}"}):
            incident = raw.metadata.labels.get(INCIDENT, "")
            taint = raw.spec.taint
            if taint.key.partition("/")[0] != DOMAIN:
                continue
            if incidents is None or incident in incidents:
                named = raw.spec.device_selector
                device = f"{named.driver}/{named.pool}/{named.device}" if named else "no device"
                what = f"{taint.effect} {taint.key}={taint.value} on {device}"
                yield Found("DeviceTaintRule", raw.metadata.name, what, incident), raw

    def nodes(self) -> Iterator[Found]:
        """Give the Nodes that carry a condition of ours. Raises ApiError."""
        for node in self._listed(NODES, _Node, {}):
            types = {one.type for one in node.status.conditions or ()} & {REPAIR_NEEDED}
            types |= set(node.metadata.annotations.get(MARK, "").split(",")) & {*CONDITION_TYPES}
            if types:
                yield Found("Node", node.metadata.name, f"condition {', '.join(sorted(types))}")

    def remove_rule(self, found: Found, raw: RawRule) -> Outcome:
        """Delete exactly the rule that was seen, whatever was written to it since."""
        exactly = {"preconditions": {"uid": raw.metadata.uid}}
        path = f"{self._rules_path()}/{found.name}"
        return _tried(found, lambda: self._client.delete(path, exactly))

    def remove_conditions(self, found: Found) -> Outcome:
        refused = self._conditions.forbidden
        outcome = _tried(found, lambda: self._conditions.remove(found.name))
        if self._conditions.forbidden > refused:
            return Outcome(found, "403 Forbidden: patch nodes/status is needed for it")
        return outcome

    def _rules_path(self) -> str:
        version = served(self._client, "resource.k8s.io", "devicetaintrules", RULE_VERSIONS)
        return f"/apis/resource.k8s.io/{version}/devicetaintrules" if version else ""

    def _listed(self, path: str, kind: type[T], params: dict[str, str]) -> Iterator[T]:
        if not path:
            return  # a cluster that serves no rules has none
        token = ""
        while True:
            asked = {"limit": PAGE, **params, **({"continue": token} if token else {})}
            page = self._client.get(path, asked)
            items, token = _page(path, page, kind)
            yield from items
            if not token:
                return


def _page(path: str, page: bytes, kind: type[T]) -> tuple[tuple[T, ...], str]:
    try:
        found = msgspec.json.decode(page, type=_Listed)
        items = tuple(msgspec.json.decode(one, type=kind) for one in found.items or ())
    except UNREADABLE as error:
        raise ApiError(f"GET {path}: the answer is no list of those ({error})") from error
    return items, found.metadata.continue_


def _tried(found: Found, remove: Callable[[], object]) -> Outcome:
    try:
        remove()
    except NotFound:
        return Outcome(found)
    except ApiError as error:
        return Outcome(found, error.message)
    return Outcome(found)
