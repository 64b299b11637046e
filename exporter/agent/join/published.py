"""What the DRA driver publishes on this node, kept by one watch with a field selector.

No cluster-wide watch runs on any node: only slices with this node's name come.
Which version of the API has them is queried at the start, and again when the
watch gets the answer that it is not served: v1 from Kubernetes 1.34, v1beta2 from 1.33
and v1beta1 from 1.32 to 1.37, where somebody switched them on.
"""

import logging
import threading
import time
from collections.abc import Callable

from exporter.agent.report.ledger import Published
from exporter.kube import reason_of
from exporter.model.device import GpuDrivers
from exporter.model.node_health import SourceHealth
from exporter.model.resource_slices import ResourceSlice, SliceDevice, inventory
from kubeapi import clock
from kubeapi.client import ApiError, Client
from kubeapi.discovery import served
from kubeapi.reflector import Pace, Reflector
from kubeapi.store import Change

_log = logging.getLogger(__name__)

GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")

_STALE_SECONDS = 300.0
"""Without an answer or bookmark for so long, the watch counts as down; its data is kept."""


class PublishedDevices:
    """The node's inventory; `on_change` is called on the watch's thread."""

    def __init__(
        self,
        client: Client,
        node: str,
        on_change: Callable[[], None],
        drivers: GpuDrivers,
        pace: Pace = Pace(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._drivers = drivers
        self._probing = client.sibling()
        self._node = node
        self._on_change = on_change
        self._pace = pace
        self._lock = threading.Lock()
        self._devices: tuple[SliceDevice, ...] = ()
        self._settled = False
        self._reflector: Reflector[ResourceSlice] | None = None
        self._failure: SourceHealth = _down("Starting")
        self._stopping = threading.Event()
        self._look_again = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resourceslices", daemon=True)
        self.version = ""
        """Of the API that is watched, "" before one was found."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._look_again.set()
        self._probing.abort()
        if self._thread.ident is not None:
            self._thread.join(timeout=2.0)
        if self._reflector is not None:
            self._reflector.stop()
        self._probing.close()

    def devices(self) -> tuple[SliceDevice, ...]:
        """Return what is published; the same tuple until it changes."""
        reflector = self._reflector
        if reflector is not None and reflector.synced and not self._settled:
            self._take(reflector)
        with self._lock:
            return self._devices

    def published(self) -> Published | None:
        """Return which GPUs are offered, None while that is not known."""
        known = self._reflector is not None and self._reflector.synced
        return published(self.devices()) if known else None

    def source(self) -> SourceHealth:
        """Return the state of the watch, as a source of the page."""
        reflector = self._reflector
        if reflector is None:
            return self._failure
        if reflector.missing:
            self._look_again.set()
        error = reflector.error
        if not reflector.synced or error:
            reason = "NotServed" if reflector.missing else reason_of(reflector.status)
            return _down(
                reason if error else "Starting",
                error and f"ResourceSlices cannot be watched: {error}",
            )
        if time.monotonic() - reflector.last_contact > _STALE_SECONDS:
            return _down("Stale", "no event from the watch of ResourceSlices for five minutes")
        return SourceHealth(
            name="resourceslices",
            state="Up",
            message=f"watched as {GROUP}/{self.version}",
            last_success=clock.now(),
        )

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            version = self._find()
            failures = 0 if version else failures + 1
            if version:
                self._watch(version)
                # Queried again when a look at `source` finds that this version is gone.
                self._look_again.wait()
                self._look_again.clear()
            self._stopping.wait(self._pace.retry_after(max(failures, 1)))

    def _find(self) -> str | None:
        try:
            version = served(self._probing, GROUP, "resourceslices", VERSIONS)
        except ApiError as error:
            if error.status == 403:
                # Without the right to read discovery the newest version may still be served.
                return VERSIONS[0]
            self._failure = _down(reason_of(error.status), error.message)
            _log.debug("%s", error.message)
            return None
        if version is None:
            self._failure = _down(
                "NotServed",
                f"{GROUP} has no resourceslices in {', '.join(VERSIONS)}, so metrics have no "
                "claim labels: Kubernetes is older than 1.32, or the API group is switched off",
            )
        return version

    def _watch(self, version: str) -> None:
        before = self._reflector
        if version == self.version and before is not None:
            return
        reflector: Reflector[ResourceSlice] = Reflector(
            self._client,
            f"/apis/{GROUP}/{version}/resourceslices",
            ResourceSlice,
            params={"fieldSelector": f"spec.nodeName={self._node}"},
            on_change=self._changed,
            pace=self._pace,
        )
        self.version, self._settled, self._reflector = version, False, reflector
        _log.info("watching ResourceSlices of this node as %s/%s", GROUP, version)
        reflector.start()
        if before is not None:
            before.stop()

    def _changed(self, change: Change[ResourceSlice]) -> None:
        del change  # the whole is worked out again: a pool is more than one slice
        reflector = self._reflector
        if reflector is not None and self._take(reflector):
            self._on_change()

    def _take(self, reflector: Reflector[ResourceSlice]) -> bool:
        """Work out what is published now; returns whether it is something else than before."""
        # Inside the lock: an older look must not overwrite the result of a newer one.
        with self._lock:
            settled = reflector.synced
            slices = [
                entry for entry in reflector.items().values() if entry.spec.node_name == self._node
            ]
            found = inventory(slices, self._drivers, self._devices)
            if not settled:
                # While a list is still coming in, what it has not named yet is not gone.
                listed = {(entry.spec.driver, entry.spec.pool.name) for entry in slices}
                rest = (d for d in self._devices if (d.device.driver, d.device.pool) not in listed)
                found = tuple(sorted((*found, *rest), key=lambda device: device.device))
            self._settled = settled
            changes = found != self._devices
            if changes:
                self._devices = found
        return changes


def _down(reason: str, message: str = "") -> SourceHealth:
    return SourceHealth(name="resourceslices", state="Down", reason=reason, message=message)


def published(devices: tuple[SliceDevice, ...]) -> Published:
    """Sum up which physical GPUs are offered, whole or in slices."""
    owners = [
        (device, device.uuid if device.kind == "gpu" else device.parent_uuid) for device in devices
    ]
    return Published(
        uuids=frozenset(uuid for _, uuid in owners if uuid),
        by_bus={device.pci_bus_id: uuid for device, uuid in owners if uuid and device.pci_bus_id},
        vfio=frozenset(
            device.pci_bus_id for device in devices if device.kind == "vfio" and device.pci_bus_id
        ),
    )
