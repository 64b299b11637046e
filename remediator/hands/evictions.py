"""Pods that NoExecute does not reach, moved by the Eviction API (policy/v1)."""

import logging
from collections.abc import Callable
from time import monotonic

import msgspec

from kubeapi.client import ApiError, Client, Conflict, NotFound
from remediator.objects.incident import PodHold

_log = logging.getLogger(__name__)
TOO_MANY_REQUESTS = 429
"""A PodDisruptionBudget refuses for now, or the API server is busy."""
FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0
SETTLING = 30.0
"""Seconds for which an accepted eviction is not asked for again: a list of the node's pods may be
older than it."""
FORGOTTEN_AFTER = 600.0
"""Seconds after its moment in which nothing more was asked for a pod."""


class _Asked(msgspec.Struct, frozen=True):
    again_at: float
    """Monotonic seconds before which nothing is asked."""
    refusals: int = 0


class Evictions:
    """Asks for one eviction at a time; a PodDisruptionBudget may refuse, then it is asked again."""

    def __init__(self, client: Client, clock: Callable[[], float] = monotonic) -> None:
        self._client = client
        self._clock = clock
        self._asked: dict[str, _Asked] = {}
        """By pod UID."""
        self.accepted = 0
        self.refused = 0
        """Answers since the start."""

    def evict(self, pod: PodHold) -> None:
        """Ask once, or not at all while a refusal is fresh; the next decision names the pod again.

        A pod that is gone, or another one under its name, is a success. Raises
        ApiError for any answer but that and "not now".
        """
        now = self._clock()
        self._forget(now)
        before = self._asked.get(pod.uid, _Asked(now))
        if now < before.again_at:
            return
        try:
            self._ask(pod)
        except (NotFound, Conflict):
            self._asked[pod.uid] = _Asked(now + SETTLING)
        except ApiError as error:
            if error.status != TOO_MANY_REQUESTS:
                raise
            self._refused(pod, before.refusals, error, now)
        else:
            self.accepted += 1
            self._asked[pod.uid] = _Asked(now + SETTLING)
            _log.info("%s/%s is evicted from %s", pod.namespace, pod.pod, pod.device)

    @property
    def waiting(self) -> int:
        """How many pods were refused when they were last asked for."""
        return sum(one.refusals > 0 for one in list(self._asked.values()))

    def _refused(self, pod: PodHold, refusals: int, error: ApiError, now: float) -> None:
        self.refused += 1
        wait = max(min(FIRST_WAIT * 2 ** min(refusals, 16), LONGEST_WAIT), error.retry_after)
        self._asked[pod.uid] = _Asked(now + wait, refusals + 1)
        level = logging.DEBUG if refusals else logging.INFO
        _log.log(level, "%s/%s cannot be evicted yet: %s", pod.namespace, pod.pod, error)

    def _forget(self, now: float) -> None:
        for uid, one in list(self._asked.items()):
            if now >= one.again_at + FORGOTTEN_AFTER:
                del self._asked[uid]

    def _ask(self, pod: PodHold) -> None:
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
