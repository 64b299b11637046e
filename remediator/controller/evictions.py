"""Evicts pods by the Eviction API (policy/v1): before NoExecute, or where it does not reach them.

A refusal concerns its pod alone: that eviction is requested again after a backoff, and the other
pods of the GPU are evicted meanwhile. Where the policy allows it, a pod that NoExecute does not
reach is deleted.
"""

import logging
from collections.abc import Callable
from time import monotonic

import msgspec

from kubeapi.client import ApiError, Client, Conflict, NotFound
from remediator.model.incident_status import AffectedPod

_log = logging.getLogger(__name__)
TOO_MANY_REQUESTS = 429
"""A PodDisruptionBudget refuses for now, or the API server is busy."""
FIRST_WAIT = 1.0
"""Seconds to the second request for a pod, and to any request after one without an answer."""
LONGEST_WAIT = 60.0
SETTLING = 30.0
"""Seconds for which an accepted eviction is not requested again: a list of the node's pods may be
older than it."""
FORGOTTEN_AFTER = 600.0
"""Seconds after `again_at` after which a pod is forgotten: no decision has named it since."""
WHY_LIMIT = 256
"""Characters of a refusal that are kept."""


class _Eviction(msgspec.Struct, frozen=True):
    again_at: float
    """Monotonic seconds before which no request is sent."""
    refusals: int = 0
    why: str = ""
    """Of the last refusal."""


class Evictions:
    """Requests one eviction at a time, and again after a backoff where it was refused.

    `pause` is called with the seconds for which a busy server refused all writes.
    """

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._pause = pause
        self._evictions: dict[str, _Eviction] = {}
        """By pod UID."""
        self._silent_until = clock()
        self.not_looked_at: frozenset[AffectedPod] = frozenset()
        """Pods of the present decision that get no request, even if they come due: they were not
        due when its facts were read again."""
        self.accepted = 0
        self.refused = 0
        self.failed = 0
        """Answers since the start: `refused` by a PodDisruptionBudget, `failed` all others."""

    def evict(self, pod: AffectedPod, *, delete: bool = False) -> None:
        """Request an eviction once, or not at all during a backoff; the next decision asks again.

        It has succeeded if the pod is gone, or another one has its name. Every error counts for
        this pod alone: two PodDisruptionBudgets for one pod are a 500.
        """
        now = self._clock()
        for uid, eviction in list(self._evictions.items()):
            if now >= eviction.again_at + FORGOTTEN_AFTER:
                del self._evictions[uid]
        before = self._evictions.get(pod.uid, _Eviction(now))
        if pod in self.not_looked_at or not self.is_due(pod):
            return
        try:
            if delete:
                # As the eviction controller does, with the pod's own grace period.
                path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.pod}"
                self._client.delete(path, {"preconditions": {"uid": pod.uid}})
            else:
                self._request(pod)
        except (NotFound, Conflict):
            self._evictions[pod.uid] = _Eviction(now + SETTLING)
        except ApiError as error:
            self._note_refusal(pod, before.refusals, error, now)
        else:
            self.accepted += 1
            self._evictions[pod.uid] = _Eviction(now + SETTLING)
            done = "deleted" if delete else "evicted"
            _log.info("%s/%s is %s from %s", pod.namespace, pod.pod, done, pod.device)

    def is_due(self, pod: AffectedPod) -> bool:
        """Whether a request for a pod would be sent now.

        A server that does not answer costs a decision one time limit, not one for each pod.
        """
        now, known = self._clock(), self._evictions.get(pod.uid)
        return now >= max(known.again_at if known else now, self._silent_until)

    @property
    def refused_pod_count(self) -> int:
        """How many pods were refused at their last request."""
        return sum(eviction.refusals > 0 for eviction in list(self._evictions.values()))

    def refusals(self) -> dict[str, str]:
        """Return why the last request for a pod was refused, by pod UID."""
        return {
            uid: eviction.why for uid, eviction in list(self._evictions.items()) if eviction.why
        }

    def _note_refusal(self, pod: AffectedPod, refusals: int, error: ApiError, now: float) -> None:
        budget = error.status == TOO_MANY_REQUESTS
        self.refused += budget
        self.failed += not budget
        if not budget and error.retry_after:
            self._pause(error.retry_after)
        if error.status is None:
            # By the clock of now: the time limit of the request has passed meanwhile.
            self._silent_until = self._clock() + FIRST_WAIT
        wait = max(min(FIRST_WAIT * 2 ** min(refusals, 16), LONGEST_WAIT), error.retry_after)
        why = error.message.partition(": ")[2] or error.message
        why = "; ".join((why, *error.causes)) if error.causes else why
        self._evictions[pod.uid] = _Eviction(now + wait, refusals + 1, why[:WHY_LIMIT])
        level = logging.DEBUG if refusals else logging.INFO if budget else logging.WARNING
        _log.log(
            level,
            "eviction refused, requested again with backoff: pod=%s/%s error=%s",
            pod.namespace,
            pod.pod,
            error,
        )

    def _request(self, pod: AffectedPod) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.pod}/eviction"
        self._client.create(
            path,
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.pod, "namespace": pod.namespace},
                "deleteOptions": {"preconditions": {"uid": pod.uid}},
            },
        )
