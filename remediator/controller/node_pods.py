"""The pods of one node, listed when an incident needs them; there is no watch of pods.

A list comes from the API server's cache. Only for a node that is to be handed over for repair it is
of the newest state, because no pod may hold a GPU there.
"""

import logging
from collections.abc import Callable, Mapping
from time import monotonic

import msgspec

from kubeapi.client import UNREADABLE, ApiError, Client
from remediator.model.pod import PodFacts, RawPod, facts_of

_log = logging.getLogger(__name__)
PODS = "/api/v1/pods"
REMEMBERED = 5.0
"""Seconds for which an answer, or a failure, is used again: a node in a storm is listed once."""
REMEMBERED_WITHOUT = 1.0
"""The same where an answer lacks a pod that is awaited: it may have come a moment later."""
PAGE = 500
CACHED: Mapping[str, str] = {"resourceVersion": "0"}
"""From the API server's cache, as an informer reads. For the newest state it waits up to 100 ms,
and the worker with it. Because that cache may lag, a device must be seen empty twice."""
LIVE: Mapping[str, str] = {}
"""A list without a version is of the newest state."""


class _ListMeta(msgspec.Struct, frozen=True):
    more: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[RawPod, ...] | None = None


_pages = msgspec.json.Decoder(_Page)


class NodePods:
    """Lists with `spec.nodeName`, and remembers for a moment."""

    def __init__(self, client: Client, clock: Callable[[], float] = monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[str, bool], tuple[float, tuple[PodFacts, ...] | None]] = {}
        """By node and whether the newest state was requested: when it was listed, and the pods."""
        self._failing: dict[str, str] = {}
        """By node: why its pods could not be listed, which was logged once."""

    def list_pods(
        self, node: str, *, live: bool = False, within: float = REMEMBERED
    ) -> tuple[PodFacts, ...] | None:
        """Return the pods of a node; None when they cannot be listed now.

        `live` requests the newest state, whatever that costs. An answer that is remembered is
        younger than `within` seconds.
        """
        now = self._clock()
        for key, (since, _) in list(self._known.items()):
            if now - since >= (within if key == (node, live) else REMEMBERED):
                del self._known[key]
        if (node, live) not in self._known:
            found = self._try_list(node, LIVE if live else CACHED)
            # A list that takes long is not made twice for that.
            self._known[node, live] = (self._clock(), found)
        return self._known[node, live][1]

    def list_newest(self, node: str) -> tuple[PodFacts, ...] | None:
        """Return the pods of a node in the newest state, and remember them as that."""
        return self.list_pods(node, live=True, within=0.0)

    def why_unlisted(self, node: str) -> str:
        """Return why the pods of a node could not be listed the last time, "" if they could."""
        return self._failing.get(node, "")

    def _try_list(self, node: str, freshness: Mapping[str, str]) -> tuple[PodFacts, ...] | None:
        try:
            found = self._list_all_pages(node, freshness)
        except (ApiError, *UNREADABLE) as error:
            if node not in self._failing:
                _log.warning(
                    "%s: its pods cannot be listed, so NoExecute waits, none is evicted by the "
                    "Eviction API and no device counts as drained: %s",
                    node,
                    error,
                )
            self._failing[node] = str(error)
            return None
        self._failing.pop(node, None)
        return found

    def _list_all_pages(self, node: str, freshness: Mapping[str, str]) -> tuple[PodFacts, ...]:
        query = {"fieldSelector": f"spec.nodeName={node}", "limit": str(PAGE)}
        found: list[PodFacts] = []
        more = ""
        while True:
            # A further page is of the version of the first: the server refuses both in one.
            where = {"continue": more} if more else freshness
            answer = self._client.get(PODS, {**query, **where})
            page = _pages.decode(answer)
            found += map(facts_of, page.items or ())
            more = page.metadata.more
            if not more:
                return tuple(found)
