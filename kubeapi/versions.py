"""Watches of kinds that clusters serve under different versions.

Which version has the kind is read from the resource lists, newest first: a group version that is
served need not have every kind. They are read again on a timer and whenever a request comes back
with 404.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kubeapi.client import Client
from kubeapi.discovery import served
from kubeapi.reflector import Reflector
from kubeapi.store import Change

T = TypeVar("T")
_log = logging.getLogger(__name__)
GROUP = "resource.k8s.io"
RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")
"""Of DeviceTaintRule: 1.37, 1.36, 1.33 to 1.36."""
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Of ResourceSlice and ResourceClaim: 1.34, 1.33, 1.32."""


class Versioned(Generic[T]):
    """One kind of resource.k8s.io, watched in the newest version that has it."""

    def __init__(
        self,
        client: Client,
        resource: str,
        versions: Sequence[str],
        kind: type[T],
        on_change: Callable[[Change[T]], None],
    ) -> None:
        self._client = client
        self.resource = resource
        self._versions = tuple(versions)
        self._kind = kind
        self._on_change = on_change
        self.version: str | None = None
        """None: served in none of them, or not read yet (`probed`)."""
        self.probed = False
        self.switches = 0
        """Number of version changes, "not served" included."""
        self.reflector: Reflector[T] | None = None

    @property
    def path(self) -> str:
        """Path of the collection. Raises LookupError while no version is served."""
        if self.version is None:
            raise LookupError(f"{self.resource} are not served")
        return self._path(self.version)

    def probe(self) -> str | None:
        """Find the version that is served now and watch it. Raises ApiError without an answer."""
        version = served(self._client, GROUP, self.resource, self._versions)
        if version != self.version:
            self._switch(version)
        self.probed = True
        return version

    def stop(self) -> None:
        if self.reflector is not None:
            self.reflector.stop()

    def _switch(self, version: str | None) -> None:
        before = self.reflector
        if self.version is None:
            _log.info("%s: served as %s", self.resource, version)
        else:
            _log.info("%s: %s instead of %s", self.resource, version or "nothing", self.version)
        if before is not None:
            before.stop()
        after = None
        if version is not None:
            after = Reflector(
                self._client,
                self._path(version),
                self._kind,
                on_change=self._on_change,
                by_watch=True,
                known=before.items() if before is not None else {},
            )
            # Set before `version`, so that an old copy is never taken for the version served now.
            # While no version is served the old copy stays: the next version may serve the same
            # stored objects.
            self.reflector = after
        self.version = version
        self.switches += 1
        if after is not None:
            after.start()

    def _path(self, version: str) -> str:
        return f"/apis/{GROUP}/{version}/{self.resource}"
