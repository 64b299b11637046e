"""What is read of a pod one by one: Events of the kubelet on it, and templates that it names.

Both matter for pods that hang alone, so neither is watched. Each look reads a few, the oldest
reading first and each namespace in turn; a reading stays until the next one replaces it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from operator import itemgetter
from time import monotonic
from typing import Literal

import msgspec

from allocation.explainer.observe import Observer
from allocation.explainer.turns import in_turn
from allocation.model.events import Event
from allocation.model.pods import Pod
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound
from kubeapi.decoding import Decoder
from kubeapi.types import EARLIEST

FRESH = timedelta(seconds=30)
"""A reading that is younger is not repeated."""
AT_ONCE = 20
"""Readings in one look."""
PATIENCE, IN_ALL = 3.0, 5.0
"""Seconds for one, and after which no other begins in the same look: a look does not wait for a
server that hangs."""
MOST_EVENTS = "50"
"""Of one pod: it has a few kinds."""
HANGS_AFTER = timedelta(seconds=20)
"""From the binding of a pod to its node: most are prepared by then."""
_What = Literal["events", "template"]
_Key = tuple[_What, str, str]
"""With a namespace, and the UID of a pod or the name of a template."""
Found = tuple[Event, ...] | bool | None
"""Events; whether the template exists; None: it could not be read."""


class _Events(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()


class PodRemarks:
    """Implements `findings.Remarks`; call `read` before each look. `clock` gives seconds."""

    def __init__(
        self, client: Client, observer: Observer, clock: Callable[[], float] = monotonic
    ) -> None:
        self._client, self._observer, self._clock = client.sibling(PATIENCE), observer, clock
        self._events, self._event = Decoder(_Events), Decoder(Event)
        self._known: dict[_Key, tuple[datetime, Found]] = {}

    def read(self, pods: Iterable[Pod], claims: Collection[str], at: datetime) -> None:
        """Read what is due of these pods, and forget what is not needed any more.

        `claims` has `namespace/name` of those that exist.
        """
        needed = {key for pod in pods for key in _keys_of(pod, claims, at)}
        self._known = {key: each for key, each in self._known.items() if key in needed}
        due = in_turn(sorted(needed, key=self._read_at), itemgetter(1))
        stale = [key for key in due if not timedelta() <= at - self._read_at(key) < FRESH]
        begun = self._clock()
        for key in stale[:AT_ONCE]:
            if self._clock() - begun > IN_ALL:
                break
            self._known[key] = at, self._find(key)

    def close(self) -> None:
        self._client.close()

    def templates(self, pod: Pod, claims: Collection[str]) -> Mapping[str, bool] | None:
        due = pod.templates_due(claims).values()
        found = {name: self._of("template", pod, name) for name in due}
        known = {name: exists for name, exists in found.items() if isinstance(exists, bool)}
        return known if len(known) == len(found) else None

    def events(self, pod: Pod) -> tuple[Event, ...]:
        found = self._of("events", pod, pod.metadata.uid)
        return found if isinstance(found, tuple) else ()

    def _of(self, what: _What, pod: Pod, name: str) -> Found:
        return self._known.get((what, pod.metadata.namespace, name), (EARLIEST, None))[1]

    def _read_at(self, key: _Key) -> datetime:
        return self._known[key][0] if key in self._known else EARLIEST

    def _find(self, key: _Key) -> Found:
        what, namespace, name = key
        try:
            if what == "events":
                path = f"/api/v1/namespaces/{namespace}/events"
                only = {"fieldSelector": f"involvedObject.uid={name}", "limit": MOST_EVENTS}
                found: list[Event] = []
                for raw in self._events.decode(self._client.get(path, only)).items:
                    with suppress(*UNREADABLE):
                        found.append(self._event.decode(raw))
                return tuple(found)
            path = f"{self._observer.dra}/namespaces/{namespace}/resourceclaimtemplates/{name}"
            self._client.get(path)
        except NotFound:
            return False
        except (ApiError, *UNREADABLE):
            return None
        return True


def _keys_of(pod: Pod, claims: Collection[str], at: datetime) -> list[_Key]:
    """Return what has to be read of a pod."""
    namespace, templates = pod.metadata.namespace, pod.templates_due(claims).values()
    needed: list[_Key] = [("template", namespace, name) for name in templates]
    scheduled = pod.condition("PodScheduled")
    since = scheduled.last_transition_time if scheduled and pod.spec.node_name else None
    hangs = pod.status.phase == "Pending" and since is not None and at - since >= HANGS_AFTER
    if templates or hangs:
        needed.append(("events", namespace, pod.metadata.uid))
    return needed
