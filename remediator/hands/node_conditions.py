"""Conditions of a Node, written by strategic merge, which keeps those of others."""

from kubeapi.client import Client
from remediator.objects.nodes import NodeCondition


class NodeConditions:
    """Writes nothing but conditions of our own types."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def write(self, node: str, condition: NodeCondition) -> None:
        """Set one condition. Raises ApiError."""
        raise NotImplementedError
