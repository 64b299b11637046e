"""What the DRA driver publishes on this node, kept by one watch with a field selector.

No cluster-wide watch runs on any node: only slices with this node's name come.
"""

import threading
import time
from collections.abc import Callable

from exporter.ledger import Published
from exporter.report import SourceHealth
from exporter.slices import ResourceSlice, SliceDevice, inventory
from kubeapi import clock
from kubeapi.client import Client
from kubeapi.reflector import Reflector
from kubeapi.store import Change

PATH = "/apis/resource.k8s.io/v1/resourceslices"

_STALE_SECONDS = 300.0
"""Without an answer or bookmark for so long, the watch counts as down; its data is kept."""


class PublishedDevices:
    """The node's inventory; `on_change` is called on the watch's thread."""

    def __init__(self, client: Client, node: str, on_change: Callable[[], None]) -> None:
        self._node = node
        self._on_change = on_change
        self._lock = threading.Lock()
        self._devices: tuple[SliceDevice, ...] = ()
        self._reflector = Reflector(
            client,
            PATH,
            ResourceSlice,
            params={"fieldSelector": f"spec.nodeName={node}"},
            on_change=self._changed,
        )

    def start(self) -> None:
        self._reflector.start()

    def stop(self) -> None:
        self._reflector.stop()

    def devices(self) -> tuple[SliceDevice, ...]:
        with self._lock:
            return self._devices

    def published(self) -> Published | None:
        """Return which GPUs are offered, None while that is not known."""
        return published(self.devices()) if self._reflector.synced else None

    def source(self) -> SourceHealth:
        """Return the state of the watch, as a source of the page."""
        error = self._reflector.error
        silent = time.monotonic() - self._reflector.last_contact
        if not self._reflector.synced or error:
            reason = "NotServed" if self._reflector.missing else "Unreachable"
            return SourceHealth(
                name="resourceslices",
                up=False,
                reason=reason if error else "Starting",
                message=error and f"ResourceSlices cannot be watched: {error}",
            )
        if silent > _STALE_SECONDS:
            return SourceHealth(name="resourceslices", up=False, reason="Stale")
        return SourceHealth(name="resourceslices", up=True, last_success=clock.now())

    def _changed(self, change: Change[ResourceSlice]) -> None:
        del change  # the whole is worked out again: a pool is more than one slice
        slices = [one for one in self._reflector.items().values() if self._is_ours(one)]
        with self._lock:
            self._devices = inventory(slices, self._devices)
        self._on_change()

    def _is_ours(self, one: ResourceSlice) -> bool:
        return one.spec.node_name == self._node


def published(devices: tuple[SliceDevice, ...]) -> Published:
    """Sum up which physical GPUs are offered, whole or in slices."""
    owners = [(one, one.uuid if one.kind == "gpu" else one.parent_uuid) for one in devices]
    return Published(
        uuids=frozenset(uuid for _, uuid in owners if uuid),
        by_bus={one.pci_bus_id: uuid for one, uuid in owners if uuid and one.pci_bus_id},
    )
