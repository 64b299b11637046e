"""The pods of this node, kept by one watch with a field selector, where that was requested.

Off, nothing runs and nothing is requested. On, pod labels and UIDs can ride on the
devices, a container is a holder only of the requests that it names, and an
extended resource is named as the pod requested it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from exporter.agent.join.pod_facts import Allowed, PodFact, PodKey, RawPod, fact_of
from exporter.kube import reason_of
from exporter.model.node_health import SourceHealth
from kubeapi import clock
from kubeapi.client import Client
from kubeapi.reflector import Pace, Reflector
from kubeapi.store import Change

PATH = "/api/v1/pods"
_STALE_SECONDS = 300.0
"""Without an answer or bookmark for so long, the watch counts as down; its data is kept."""


class Pods:
    """What is known of the node's pods; `on_change` is called on the watch's thread.

    With `labels`, devices get the pod labels that `allow` (regular expressions) lets through;
    raises PodLabelsError for an invalid expression.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        on_change: Callable[[], None],
        *,
        labels: bool = False,
        allow: Iterable[str] = (),
        pace: Pace = Pace(),  # noqa: B008 - frozen
    ) -> None:
        self._allowed = Allowed(allow) if labels else None
        self._on_change = on_change
        self._lock = threading.Lock()
        self._facts: dict[PodKey, PodFact] = {}
        self._reflector = Reflector(
            client,
            PATH,
            RawPod,
            params={"fieldSelector": f"spec.nodeName={node}"},
            on_change=self._changed,
            pace=pace,
        )

    def start(self) -> None:
        self._reflector.start()

    def stop(self) -> None:
        self._reflector.stop()

    def facts(self) -> Mapping[PodKey, PodFact]:
        """Return what is known; the same mapping until something that is shown changes."""
        with self._lock:
            return self._facts

    def source(self) -> SourceHealth:
        """Return the state of the watch, as a source of the page."""
        error = self._reflector.error
        if not self._reflector.synced or error:
            return SourceHealth(
                name="pods",
                state="Down",
                reason=reason_of(self._reflector.status) if error else "Starting",
                message=error and f"pods cannot be watched, so their labels are missing: {error}",
            )
        if time.monotonic() - self._reflector.last_contact > _STALE_SECONDS:
            return SourceHealth(name="pods", state="Down", reason="Stale")
        return SourceHealth(name="pods", state="Up", last_success=clock.now())

    def _changed(self, change: Change[RawPod]) -> None:
        old, new = change.old, change.new
        with self._lock:
            facts = dict(self._facts)
            if old is not None:
                facts.pop((old.metadata.namespace, old.metadata.name), None)
            if new is not None:
                facts[new.metadata.namespace, new.metadata.name] = fact_of(new, self._allowed)
            changes = facts != self._facts
            if changes:
                self._facts = facts
        if changes:
            # A pod's status changes often; what is shown of it seldom does.
            self._on_change()
