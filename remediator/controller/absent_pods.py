"""The pods of a node as its view needs them, and which pods of its claims are proven to be gone.

A claim is reserved for a pod before the pod is bound to its node. A list from the API server's
cache may also be older than the claim. So a pod that is not listed may still come. But a
reservation may stay in a claim for ever, and nothing may wait for ever. So a pod, or the last one
of a PodGroup, counts as gone once every list has lacked it for `GONE_AFTER`, and after that time a
list of the newest state lacks it too.

No watch reports the end of a pod: only the reservation of its claim goes. The remembered pods of
the node are older than that, so they are listed anew, once for each look that finds it.

The memory ends with the process, which only delays this.
"""

from collections.abc import Callable
from time import monotonic

import msgspec

from remediator.controller.node_pods import REMEMBERED, REMEMBERED_WITHOUT, NodePods
from remediator.model.claim import absent_consumers
from remediator.plan.pods import GONE_AFTER
from remediator.plan.view import NodeView

_Reservation = tuple[str, str, str]
"""Namespace and name of a claim, and the UID of what it is reserved for."""


class _Absence(msgspec.Struct, frozen=True):
    since: float
    proven: bool = False


class AbsentPods:
    """Used by one thread for each node."""

    def __init__(self, pods: NodePods, clock: Callable[[], float] = monotonic) -> None:
        self._pods = pods
        self._clock = clock
        self._known: dict[str, dict[str, _Absence]] = {}
        """By node and UID of what a claim is reserved for."""
        self._reserved: dict[str, frozenset[_Reservation]] = {}
        """By node: the reservations when its pods were last listed."""

    def without_pods(self, view: NodeView) -> NodeView:
        """Return a view for which no pods are needed, and forget its node."""
        self._known.pop(view.node, None)
        self._reserved.pop(view.node, None)
        return view

    def with_pods(self, view: NodeView, *, live: bool) -> NodeView:
        """Return a view with its pods, and with the UIDs of those that are gone.

        `live` requests the newest state. While they cannot be listed nothing is proven, and what
        is known stays.
        """
        reserved = _reservations(view)
        ended = self._reserved.get(view.node, frozenset()) - reserved
        self._reserved[view.node] = reserved
        view = self._list_pods(view, live=live, within=0.0 if ended else REMEMBERED)
        if view.usage.pods is None:
            return view
        before, now = self._known.get(view.node, {}), self._clock()
        # Some pod is newly absent: a remembered list may be older than the pod.
        if _absent_uids(view) - {uid for uid, absence in before.items() if absence.proven}:
            view = self._list_pods(view, live=live, within=REMEMBERED_WITHOUT)
            if view.usage.pods is None:
                return view
        found = {uid: before.get(uid, _Absence(now)) for uid in _absent_uids(view)}
        overdue = {
            uid
            for uid, absence in found.items()
            if not absence.proven and now - absence.since >= GONE_AFTER.total_seconds()
        }
        if overdue:
            # The lists so far may have come from the API server's cache: that proves nothing.
            newest = view if live else self._list_pods(view, live=True)
            if newest.usage.pods is not None:
                view, there = newest, _absent_uids(newest)
                found = {
                    uid: _Absence(absence.since, absence.proven or uid in overdue)
                    for uid, absence in found.items()
                    if uid in there
                }
        if found:
            self._known[view.node] = found
        else:
            self._known.pop(view.node, None)
        gone = frozenset(uid for uid, absence in found.items() if absence.proven)
        usage = msgspec.structs.replace(view.usage, pods_gone=gone)
        return msgspec.structs.replace(view, usage=usage)

    def _list_pods(self, view: NodeView, *, live: bool, within: float = REMEMBERED) -> NodeView:
        pods = self._pods.list_pods(view.node, live=live, within=within)
        usage = msgspec.structs.replace(view.usage, pods=pods, pods_live=live)
        return msgspec.structs.replace(view, usage=usage)


def _reservations(view: NodeView) -> frozenset[_Reservation]:
    return frozenset(
        (claim.metadata.namespace, claim.metadata.name, consumer.uid)
        for claim in view.usage.claims
        for consumer in claim.consumers
    )


def _absent_uids(view: NodeView) -> frozenset[str]:
    """Return the UIDs of what devices of the node are reserved for without a pod that is listed."""
    devices = {device.device for device in view.slices.devices} | {
        rule.device for rule in view.stored.rules
    }
    found = absent_consumers(view.usage.claims, devices, view.usage.pods)
    return frozenset(entry.uid for entry in found if entry.uid)
