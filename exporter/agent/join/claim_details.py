"""Reads each claim that a pod of this node holds, once, by its name.

No list and no watch: a node needs the claims of its own pods, and no selector
could cut them out. Without the right to read claims, labels lack what only the
claim says (request, class, admin access), and nothing else changes.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from urllib.parse import quote

import msgspec

from exporter.agent.join.claim_queue import ClaimQueue, Failure, Held
from exporter.kube import reason_of
from exporter.model.claim_objects import (
    ClaimDetail,
    ClaimKey,
    RawClaim,
    class_of_extended,
    detail_of,
    is_extended,
    key_of,
)
from exporter.model.device import GpuDrivers
from exporter.model.node_health import SourceHealth
from exporter.model.readings import ContainerDevices
from kubeapi import clock
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound
from kubeapi.discovery import served
from kubeapi.types import kubernetes_case

_log = logging.getLogger(__name__)

GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")
_GAP = 0.05
"""Seconds between two requests: a node whose pods all start at once asks 20 times a second."""
_IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that every DeviceClass has (KEP-5004)."""


class _ClassSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    extended_resource_name: str | None = None


class _DeviceClass(msgspec.Struct, frozen=True):
    spec: _ClassSpec = _ClassSpec()


def claims_held(
    containers: Iterable[ContainerDevices], drivers: GpuDrivers
) -> dict[ClaimKey, Held]:
    """Return the claims with a GPU in them, and who holds what of each."""
    found: dict[ClaimKey, Held] = {}
    for container in containers:
        for claim in container.claims:
            if claim.driver in drivers:
                key, device = key_of(claim), (claim.driver, claim.pool, claim.device)
                held = found.get(key, Held(frozenset()))
                found[key] = Held(held.pods | {container.pod}, held.devices | {device})
    return found


class ClaimDetails:
    """What the claims of this node say; `on_change` is called on the reader's thread."""

    def __init__(self, client: Client, on_change: Callable[[], None], drivers: GpuDrivers) -> None:
        self._client, self._drivers = client.sibling(), drivers
        self._on_change = on_change
        self._queue = ClaimQueue()
        self._guard = threading.Condition()
        self._stopping = False
        self._version: str | None = None
        self._classes: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name="claims", daemon=True)
        self._last_success = clock.now()
        self._failing = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; returns within two seconds whatever the server does."""
        with self._guard:
            self._stopping = True
            self._guard.notify_all()
        self._client.abort()
        if self._thread.ident is not None:
            self._thread.join(timeout=2.0)
        self._client.close()

    def want(self, containers: Iterable[ContainerDevices]) -> None:
        """Read what these containers hold, forget all else."""
        held = claims_held(containers, self._drivers)
        with self._guard:
            self._queue.want(held, monotonic())
            self._guard.notify_all()

    def details(self) -> Mapping[ClaimKey, ClaimDetail]:
        """Return what is known; the same mapping until something changes."""
        with self._guard:
            return self._queue.details()

    def source(self) -> SourceHealth:
        """Return the state of the reading, as a source of the page."""
        with self._guard:
            failures, last = self._queue.failures(), self._last_success
        if not failures:
            return SourceHealth(name="claims", state="Up", last_success=last)
        (key, failure), *others = failures
        more = f" (and {len(others)} more)" if others else ""
        return SourceHealth(
            name="claims",
            state="Down",
            reason=failure.reason,
            message=f"labels lack what claim {key.namespace}/{key.name}{more} says: "
            f"{failure.message}",
            last_success=last,
        )

    def _run(self) -> None:
        while (key := self._next()) is not None:
            self._read(key)
            with self._guard:
                self._guard.wait_for(lambda: self._stopping, _GAP)

    def _next(self) -> ClaimKey | None:
        """Wait for a claim that is due; None at the end."""
        with self._guard:
            while not self._stopping:
                key, seconds = self._queue.next(monotonic())
                if key is not None:
                    return key
                self._guard.wait(seconds)
        return None

    def _read(self, key: ClaimKey) -> None:
        try:
            detail = self._detail(key)
        except ApiError as error:
            self._failed(key, error)
            return
        except Exception as error:  # noqa: BLE001 - logged with its trace; a claim is what its author likes
            _log.exception("claim %s/%s cannot be read", key.namespace, key.name)
            self._failed(key, ApiError(f"its content cannot be read: {error!r}"))
            return
        with self._guard:
            before = self._queue.details()
            self._queue.got(key, detail, monotonic())
            changes = self._queue.details() is not before
            self._last_success, self._failing = clock.now(), ""
        if changes:
            self._on_change()

    def _failed(self, key: ClaimKey, error: ApiError) -> None:
        if isinstance(error, NotFound):
            self._version = None
        failure = Failure(reason_of(error.status), error.message)
        with self._guard:
            if self._stopping:
                return
            self._queue.failed(key, failure, monotonic(), error.retry_after)
            repeated, self._failing = self._failing == failure.reason, failure.reason
        _log.log(logging.DEBUG if repeated else logging.WARNING, "%s", error.message)

    def _detail(self, key: ClaimKey) -> ClaimDetail:
        if self._version is None:
            self._version = _version(self._client)
        root = f"/apis/{GROUP}/{self._version}"
        # Names come from the kubelet's answer: none may lead to another path.
        namespace, name = quote(key.namespace, safe=""), quote(key.name, safe="")
        path = f"{root}/namespaces/{namespace}/resourceclaims/{name}"
        raw = self._client.get(path)
        try:
            claim = msgspec.json.decode(raw, type=RawClaim)
        except UNREADABLE as error:
            raise ApiError(f"GET {path}: the answer is not a claim ({error})") from error
        detail = detail_of(claim)
        if not is_extended(claim):
            return detail
        resource = self._resource(root, class_of_extended(detail))
        return msgspec.structs.replace(detail, resource=resource)

    def _resource(self, root: str, device_class: str) -> str:
        """Return the resource name that a class goes by; the pod's own status says it better."""
        if device_class and device_class not in self._classes:
            try:
                raw = self._client.get(f"{root}/deviceclasses/{quote(device_class, safe='')}")
                found = msgspec.json.decode(raw, type=_DeviceClass).spec.extended_resource_name
            except (ApiError, *UNREADABLE) as error:
                _log.debug("the resource name of class %s is not known: %s", device_class, error)
                return ""
            self._classes[device_class] = found or f"{_IMPLICIT}{device_class}"
        return self._classes.get(device_class, "")


def _version(client: Client) -> str:
    try:
        found = served(client, GROUP, "resourceclaims", VERSIONS)
    except ApiError as error:
        if error.status != 403:
            raise
        # Without the right to read discovery the newest version may still be served.
        found = VERSIONS[0]
    if found is None:
        raise ApiError(f"{GROUP} serves no resourceclaims in {', '.join(VERSIONS)}", status=404)
    return found
