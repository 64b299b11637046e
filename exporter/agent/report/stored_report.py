"""The node's own object at the API server: read once, then replaced.

The status is put as a whole, with the resourceVersion of the last answer: the server merges
nothing, and answers with the metadata alone.
"""

from collections.abc import Callable

import msgspec

from exporter.model.node_health import API_GROUP, API_VERSION, NodeDeviceHealth, NodeHealth
from kubeapi.client import METADATA, Client, Conflict, NotFound
from kubeapi.types import ObjectMeta

COLLECTION = f"/apis/{API_GROUP}/{API_VERSION}/nodedevicehealths"


class _Named(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class StoredReport:
    """One NodeDeviceHealth, with a single writer."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._node = node
        self._path = f"{COLLECTION}/{node}"
        self._version = ""
        """The resourceVersion that the next write replaces; "" while it is not known."""
        self._there = True
        """Whether the object exists, as far as is known."""

    def read(self) -> NodeHealth:
        """Return what is stored; raises NotFound, other ApiErrors and errors of decoding."""
        try:
            body = self._client.get(self._path)
        except NotFound:
            self._there = False
            raise
        self._version = msgspec.json.decode(body, type=_Named).metadata.resource_version
        return msgspec.json.decode(body, type=NodeDeviceHealth).status

    def write(self, report: NodeHealth, on_warning: Callable[[str], None]) -> None:
        """Put the status; made first where there is none, looked at again after another's write."""
        if not self._there:
            self._create()
        try:
            self._put(report, on_warning)
        except NotFound:
            self._there = False
            self._create()
            self._put(report, on_warning)
        except Conflict:
            # Labels of people move the resourceVersion, too. A second writer shows the second time.
            self._version = ""
            self._put(report, on_warning)

    def _put(self, report: NodeHealth, on_warning: Callable[[str], None]) -> None:
        if not self._version:
            self._learn(self._client.get(self._path, accept=METADATA))
        body = {
            **self._object(),
            "metadata": {"name": self._node, "resourceVersion": self._version},
            "status": report,
        }
        self._learn(
            self._client.replace(
                f"{self._path}/status", body, accept=METADATA, on_warning=on_warning
            )
        )

    def _create(self) -> None:
        try:
            self._learn(
                self._client.create(
                    COLLECTION, {**self._object(), "metadata": {"name": self._node}}
                )
            )
        except Conflict:
            self._version = ""
        self._there = True

    def _object(self) -> dict[str, object]:
        return {"apiVersion": f"{API_GROUP}/{API_VERSION}", "kind": "NodeDeviceHealth"}

    def _learn(self, body: bytes) -> None:
        self._version = msgspec.json.decode(body, type=_Named).metadata.resource_version
