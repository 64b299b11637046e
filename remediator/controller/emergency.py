"""The emergency stop: one annotation on our namespace stops all new taints and evictions.

```
kubectl annotate namespace draguard-system draguard.dev/stop='ann: driver roll-out went wrong'
kubectl annotate namespace draguard-system draguard.dev/stop-
```

`budget` defers what a stop forbids. A stop can only be seen, never assumed: while the namespace
cannot be read nothing is stopped, and that is logged. A stop that was seen stays until it is seen
to be gone.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

import msgspec

from kubeapi.client import ApiError, Client
from kubeapi.reflector import Reflector
from kubeapi.store import Change
from kubeapi.types import ObjectMeta
from remediator.model.taint_rule import DOMAIN

_log = logging.getLogger(__name__)
ANNOTATION = f"{DOMAIN}/stop"
NAMESPACES = "/api/v1/namespaces"
FORBIDDEN = 403
"""HTTP status of what our role does not allow."""
PATIENCE = 5.0
"""Seconds for which refusals after a start say nothing about our role: an API server that starts
too refuses everything until it has read the roles."""


class Namespace(msgspec.Struct, frozen=True):
    """A Namespace as the API server stores it, cut to what is read."""

    metadata: ObjectMeta


class _Namespaces(msgspec.Struct, frozen=True):
    items: tuple[Namespace, ...] = ()


def nothing() -> None:
    """Do nothing about a change."""


class Emergency:
    """Watches one Namespace. A stop in it goes into every budget.

    `on_change` runs on the watch's thread when the stop is set, changed or removed; it must be
    short.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        on_change: Callable[[], None] = nothing,
        patience: float = PATIENCE,
    ) -> None:
        self._namespace = namespace
        self._on_change = on_change
        self._patience, self._begun = patience, monotonic()
        self._client = client
        self._only = {"fieldSelector": f"metadata.name={namespace}"}
        self._stopped = ""
        self._logged_blind = False
        self._reflector = Reflector(
            client,
            NAMESPACES,
            Namespace,
            params=self._only,
            on_change=self._changed,
        )

    def start(self) -> None:
        self._begun = monotonic()
        self._reflector.start()

    def stop(self) -> None:
        self._reflector.stop()

    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Return the watch, so that its age can be reported."""
        return (self._reflector,)

    @property
    def stopped(self) -> str:
        """The user and reason of the stop; "" while there is none, as far as could be read."""
        if self.blind and not self._logged_blind:
            _log.warning("emergency stop: %s", self.blind)
        self._logged_blind = bool(self.blind)
        return self._stopped

    def stored(self) -> str:
        """Return the stop as the API server has it now.

        Raises ApiError, or one of UNREADABLE. Without the right to read it a stop is what was seen.
        """
        try:
            answer = self._client.get(NAMESPACES, self._only)
        except ApiError as error:
            if error.status == FORBIDDEN and self.forbidden:
                return self._stopped
            raise
        found = msgspec.json.decode(answer, type=_Namespaces).items
        return stop_of(next(iter(found), None))

    @property
    def settled(self) -> bool:
        """Whether the namespace was read once, or we may not read it: acting need not wait."""
        return self._reflector.synced or self.forbidden

    @property
    def forbidden(self) -> bool:
        """Whether we may not read the namespace, going by more than one refusal."""
        refused = self._reflector.refused and self._reflector.status == FORBIDDEN
        return refused and monotonic() - self._begun >= self._patience

    @property
    def blind(self) -> str:
        """Why a stop would not be seen, "" when it would."""
        if self._reflector.synced or not self._reflector.error:
            return ""
        return (
            f"the annotation {ANNOTATION} of namespace {self._namespace} stops nothing, because "
            f"the namespace cannot be read ({self._reflector.error}); allow get, list and watch "
            "of it, or use emergency_stop of the policy file"
        )

    def _changed(self, change: Change[Namespace]) -> None:
        before, self._stopped = self._stopped, stop_of(change.new)
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
