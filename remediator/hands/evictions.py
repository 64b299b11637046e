"""Pods that NoExecute does not reach, moved by the Eviction API (policy/v1)."""

from kubeapi.client import Client
from remediator.objects.incident import PodHold


class Evictions:
    """Asks for one eviction at a time; a PodDisruptionBudget may refuse, then it is asked again."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def evict(self, pod: PodHold) -> None:
        """Ask once. Raises ApiError."""
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
