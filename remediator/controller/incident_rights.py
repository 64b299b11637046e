"""Whether incidents may be written at all: without that, nothing is tainted, evicted or untainted.

A refusal of one write may concern that incident alone. So after one, dry runs on an incident that
does not exist are sent to the API server. If it refuses these as well, the right is gone. They are
repeated on a timer, and work resumes by itself.
"""

from collections.abc import Callable

from kubeapi.client import ApiError, Client
from remediator.model.incident import IncidentSpec

REFUSALS = frozenset({401, 403, 405})
_NOBODY = "gpu-00000000-0000-0000-0000-000000000000-0"
_DRY_RUN = {"dryRun": "All"}


class IncidentRights:
    def __init__(self, client: Client, collection: str) -> None:
        self._client, self._collection = client, collection
        self.refused = ""
        """Why incidents cannot be written; "" while they can, as far as is known."""

    def look(self) -> None:
        """Check whether incidents may be written. No answer changes nothing."""
        spec = IncidentSpec("nobody", "GPU-00000000-0000-0000-0000-000000000000")
        body = {
            "apiVersion": "draguard.dev/v1alpha1",
            "kind": "DeviceIncident",
            "metadata": {"name": _NOBODY},
            "spec": spec,
        }
        path = f"{self._collection}/{_NOBODY}"
        try:
            # Create, patch and patch of the status are separate rights.
            self.refused = (
                self._refusal(lambda: self._client.create(self._collection, body, _DRY_RUN))
                or self._refusal(lambda: self._client.merge_patch(path, {}, _DRY_RUN))
                or self._refusal(lambda: self._client.merge_patch(f"{path}/status", {}, _DRY_RUN))
            )
        except ConnectionError:
            return

    @staticmethod
    def _refusal(ask: Callable[[], object]) -> str:
        """Return why a request is refused, whatever it is about; raises when there is no answer."""
        try:
            ask()
        except ApiError as error:
            if error.status is None or error.status >= 500 or error.status == 429:
                raise ConnectionError from error
            if error.status in REFUSALS:
                return f"the API server refuses to write deviceincidents ({error.status})"
        return ""
