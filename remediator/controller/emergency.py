"""The emergency stop: one annotation on our namespace stops all new taints and evictions.

```
kubectl annotate namespace draguard-system draguard.dev/stop='ann: driver roll-out went wrong'
kubectl annotate namespace draguard-system draguard.dev/stop-
```

`brakes` defers what a stop forbids. A stop can only be seen, never assumed: while our role lacks
the right to read the namespace nothing is stopped, and that is logged. A stop that was seen stays
until it is seen to be gone.
"""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from kubeapi.client import UNREADABLE, ApiError, Client
from kubeapi.reflector import Reflector
from kubeapi.store import Change
from kubeapi.types import ObjectMeta
from remediator.model.taint_rule import DOMAIN

_log = logging.getLogger(__name__)
ANNOTATION = f"{DOMAIN}/stop"
NAMESPACES = "/api/v1/namespaces"
FORBIDDEN = 403
"""HTTP status of what our role does not allow."""


class Namespace(msgspec.Struct, frozen=True):
    """A Namespace as the API server stores it, cut to what is read."""

    metadata: ObjectMeta


class _Namespaces(msgspec.Struct, frozen=True):
    items: tuple[Namespace, ...] = ()


def do_nothing() -> None:
    """Do nothing about a change."""


class Emergency:
    """Watches one Namespace. While a stop is set in it, `brakes` defers every new action.

    `on_change` runs on the watch's thread when the stop is set, changed or removed; it must be
    short.
    """

    def __init__(
        self, client: Client, namespace: str, on_change: Callable[[], None] = do_nothing
    ) -> None:
        self._namespace = namespace
        self._on_change = on_change
        self._client = client
        self._only = {"fieldSelector": f"metadata.name={namespace}"}
        self._stopped = ""
        self._looked = False
        self._logged_blind = False
        self._reflector = Reflector(
            client,
            NAMESPACES,
            Namespace,
            params=self._only,
            on_change=self._on_namespace,
        )

    def start(self) -> None:
        self._reflector.start()

    def stop(self) -> None:
        self._reflector.stop()

    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Return the watch, so that its age can be exported."""
        return (self._reflector,)

    @property
    def stop_reason(self) -> str:
        """The user and reason of the stop; "" while there is none, as far as could be read."""
        if self.why_blind and not self._logged_blind:
            _log.warning("emergency stop: %s", self.why_blind)
        self._logged_blind = bool(self.why_blind)
        return self._stopped

    def read_stop(self) -> str:
        """Read the stop as it is stored now; one that is found is in force from now on.

        Raises ApiError, or one of UNREADABLE. Without the right to read it, the stop that was seen
        last is returned.
        """
        try:
            answer = self._client.get(NAMESPACES, self._only)
        except ApiError as error:
            if error.status == FORBIDDEN and self._reflector.refused:
                return self._stopped
            raise
        items = msgspec.json.decode(answer, type=_Namespaces).items
        found = stop_of(next(iter(items), None))
        # Only the watch ends a stop: it also calls `on_change`.
        self._stopped = found or self._stopped
        return found

    def look(self) -> None:
        """Read the stop at start, when all other watches are synced.

        By then the API server has loaded the roles, so it refuses only what our role lacks. Before
        that it refuses everything.
        """
        try:
            self.read_stop()
            self._looked = True
        except ApiError as error:
            self._looked = error.status == FORBIDDEN
            if not self._looked:
                _log.warning("emergency stop: cannot be read yet: %s", error)
        except UNREADABLE as error:
            _log.warning("emergency stop: cannot be read yet: %s", error)

    @property
    def is_settled(self) -> bool:
        """Whether decisions need not wait: the namespace was read once, or we may not read it."""
        return self._reflector.synced or self._looked

    @property
    def why_blind(self) -> str:
        """Why a stop would not be seen, "" when it would."""
        if self._reflector.synced or not self._reflector.error:
            return ""
        return (
            f"the annotation {ANNOTATION} of namespace {self._namespace} stops nothing, because "
            f"the namespace cannot be read ({self._reflector.error}); allow get, list and watch "
            "of it, or use emergency_stop of the policy file"
        )

    def _on_namespace(self, change: Change[Namespace]) -> None:
        before, self._stopped = self._stopped, stop_of(change.new)
        # Something else of the namespace has changed.
        if self._stopped == before:
            return
        if self._stopped:
            _log.warning("emergency stop: no new actions until it is cleared: %s", self._stopped)
        else:
            _log.warning("emergency stop cleared, remediation resumes")
        self._on_change()


def stop_of(namespace: Namespace | None) -> str:
    """Return the user and reason of the stop, as the annotation has it; "" without one."""
    annotations = namespace.metadata.annotations if namespace else {}
    if ANNOTATION not in annotations:
        return ""
    return " ".join(annotations[ANNOTATION].split()) or "no reason given"
