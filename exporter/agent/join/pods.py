"""The pods of this node, kept by one watch with a field selector, where that was requested.

Off, nothing runs and nothing is requested. On, pod labels and UIDs can ride on the
devices, a container is a holder only of the requests that it names, and an
extended resource is named as the pod requested it.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping

import msgspec

from exporter.agent.join.pod_facts import (
    MOST_LABEL_BYTES,
    MOST_LABELS,
    Allowed,
    PodFact,
    PodKey,
    RawPod,
    fact_of,
)
from exporter.kube import reason_of
from exporter.model.node_health import SourceHealth
from kubeapi import clock
from kubeapi.client import Client
from kubeapi.reflector import Pace, Reflector
from kubeapi.store import Change

_log = logging.getLogger(__name__)

PATH = "/api/v1/pods"
LABELS_LEFT_OUT = "LabelsLeftOut"
"""Reason of a watch that works: a pod has more labels than are shown."""
_PAGE = 50
"""Pods of one list request: an object may have 1.5 MB, and a page is in memory as a whole."""
_STALE_SECONDS = 300.0
"""Without an answer or bookmark for so long, the watch counts as down; its data is kept."""


class Pods:
    """What is known of the node's pods; `on_change` is called on the watch's thread.

    With `labels`, devices get the pod labels that `allow` (regular expressions) lets through;
    raises PatternError for an invalid expression. Of a pod nothing is kept but its facts: what its
    author may write is larger than what a node can keep.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        on_change: Callable[[], None],
        *,
        labels: bool = False,
        allow: Collection[str] = (),
        pace: Pace = Pace(page=_PAGE),  # noqa: B008 - frozen
    ) -> None:
        allowed = Allowed(allow) if labels else None
        raw_pods = msgspec.json.Decoder(RawPod)
        self._warned = False
        self._on_change = on_change
        self._lock = threading.Lock()
        self._facts: dict[PodKey, PodFact] = {}
        self._reflector = Reflector(
            client,
            PATH,
            PodFact,
            decode=lambda raw: fact_of(raw_pods.decode(raw), allowed),
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
        cut = _left_out(self.facts())
        reason = LABELS_LEFT_OUT if cut else ""
        return SourceHealth(
            name="pods", state="Up", reason=reason, message=cut, last_success=clock.now()
        )

    def _changed(self, change: Change[PodFact]) -> None:
        namespace, _, name = change.key.partition("/")
        with self._lock:
            facts = dict(self._facts)
            facts.pop((namespace, name), None)
            if change.new is not None:
                facts[namespace, name] = change.new
            changes = facts != self._facts
            if changes:
                self._facts = facts
        if not self._warned and change.new is not None and change.new.labels_left_out:
            self._warned = True
            _log.warning("%s; later ones are on /debug only", _left_out(facts))
        if changes:
            # A pod's status changes often; what is shown of it seldom does.
            self._on_change()


def _left_out(facts: Mapping[PodKey, PodFact]) -> str:
    """Return a sentence about pods with too many labels, "" where there are none."""
    pods = sorted(key for key, fact in facts.items() if fact.labels_left_out)
    if not pods:
        return ""
    (namespace, name), *others = pods
    more = f" (and {len(others)} more)" if others else ""
    number = facts[namespace, name].labels_left_out
    return (
        f"{number} labels of pod {namespace}/{name}{more} are left out: the first {MOST_LABELS} by "
        f"the order of keys are shown, up to {MOST_LABEL_BYTES} bytes; choose labels with "
        "--pod-label-allow"
    )
