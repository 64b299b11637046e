"""What is read of a pod one by one: Events of the kubelet on it, and templates that it names.

Both matter for pods that hang alone, so neither is watched. A reading is kept for a while, and
there are so many at the most in one look: what is not read now is read at the next one.
"""

from datetime import datetime, timedelta

import msgspec

from allocation.explainer.observe import Observer
from allocation.model.events import Event
from allocation.model.pods import Pod
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound
from kubeapi.types import EARLIEST

KEPT = timedelta(minutes=1)
AT_ONCE = 20
"""Readings in one look."""
HANGS_AFTER = timedelta(seconds=20)
"""From the binding of a pod to its node: most are prepared by then."""


class _Events(msgspec.Struct, frozen=True):
    items: tuple[Event, ...] = ()


class PodRemarks:
    """Implements `findings.Remarks`; call `begin` before each look."""

    def __init__(self, client: Client, observer: Observer) -> None:
        self._client, self._observer = client, observer
        self._at = EARLIEST
        self._left = 0
        self._events: dict[str, tuple[datetime, tuple[Event, ...]]] = {}
        self._templates: dict[str, tuple[datetime, bool]] = {}

    def begin(self, at: datetime) -> None:
        """Begin a look: what is older than it may be is read anew."""
        self._at, self._left = at, AT_ONCE
        for kept in (self._events, self._templates):
            for key, (read, _) in list(kept.items()):
                if not timedelta() <= at - read < KEPT:
                    del kept[key]

    def templates(self, pod: Pod) -> frozenset[str]:
        names = pod.claim_names()
        found: set[str] = set()
        for claim in pod.spec.resource_claims:
            template = claim.resource_claim_template_name
            if template and not names.get(claim.name) and self._exists(pod, template):
                found.add(template)
        return frozenset(found)

    def events(self, pod: Pod) -> tuple[Event, ...]:
        scheduled = pod.condition("PodScheduled")
        since = scheduled.last_transition_time if scheduled else None
        if pod.status.phase != "Pending" or since is None or self._at - since < HANGS_AFTER:
            return ()
        uid = pod.metadata.uid
        if uid not in self._events and self._left:
            self._left -= 1
            self._events[uid] = self._at, self._read_events(pod)
        return self._events[uid][1] if uid in self._events else ()

    def _exists(self, pod: Pod, template: str) -> bool:
        """Whether there is such a template; unknown is taken for yes."""
        namespace = pod.metadata.namespace
        key = f"{namespace}/{template}"
        if key not in self._templates and self._left:
            self._left -= 1
            path = f"{self._observer.dra}/namespaces/{namespace}/resourceclaimtemplates/{template}"
            try:
                self._client.get(path)
                exists = True
            except NotFound:
                exists = False
            except ApiError:
                return True
            self._templates[key] = self._at, exists
        return self._templates[key][1] if key in self._templates else True

    def _read_events(self, pod: Pod) -> tuple[Event, ...]:
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/events"
        try:
            raw = self._client.get(
                path, {"fieldSelector": f"involvedObject.uid={pod.metadata.uid}"}
            )
            return msgspec.json.decode(raw, type=_Events).items
        except (ApiError, *UNREADABLE):
            return ()
