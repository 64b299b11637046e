"""What the sensor asks the node for now and then: who holds what, and which GPUs the bus has."""

import logging
import threading
from collections.abc import Callable
from time import monotonic

import msgspec

from exporter.model.node_health import SourceHealth
from exporter.model.readings import STARTING, ContainerDevices
from exporter.sensor.kernel_log import pci
from exporter.sensor.kubelet.podresources import DEADLINE, PodResources, PodResourcesError
from exporter.settings import Settings
from kubeapi import clock

_log = logging.getLogger(__name__)

_SECONDS = 10.0
"""Longest time between two looks."""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """The answers; None: not known."""

    pods: SourceHealth = SourceHealth(name="podresources", state="Down", reason=STARTING)
    containers: tuple[ContainerDevices, ...] | None = None
    pci_gpus: tuple[str, ...] | None = None
    pci_unbound: tuple[str, ...] = ()
    pci_drivers: dict[str, str] = {}


def pause_of(settings: Settings) -> float:
    """Return the seconds between two looks at the node."""
    return min(settings.interval, _SECONDS)


class NodeWatch:
    """One thread that looks; `on_state` is called with what is new, and once an interval.

    So the agent hears of the sensor when no vendor library says anything.
    """

    def __init__(self, settings: Settings, on_state: Callable[[NodeState], None]) -> None:
        self._settings = settings
        self._on_state = on_state
        self._kubelet = PodResources(settings.pod_resources_socket)
        self._state = NodeState()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node state", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(DEADLINE + 1)

    def _run(self) -> None:
        pause = pause_of(self._settings)
        reported_at = 0.0
        while not self._stopping.is_set():
            state = self._look()
            changes = _lasting(state) != _lasting(self._state)
            self._state = state
            if changes or monotonic() - reported_at >= self._settings.interval:
                reported_at = monotonic()
                self._on_state(state)
            self._stopping.wait(pause)

    def _look(self) -> NodeState:
        containers, pods = self._ask() if self._settings.kubernetes else (None, _OFF)
        folder = self._settings.pci_devices_dir
        others = pci.unbound(folder)
        return NodeState(
            pods=pods,
            containers=containers,
            pci_gpus=pci.gpus(folder),
            pci_unbound=tuple(others),
            pci_drivers=others,
        )

    def _ask(self) -> tuple[tuple[ContainerDevices, ...] | None, SourceHealth]:
        before = self._state.pods
        try:
            containers = self._kubelet.list()
        except PodResourcesError as error:
            if error.reason != before.reason:
                _log.warning("%s", error)
            return None, SourceHealth(
                name="podresources",
                state="Down",
                reason=error.reason,
                message=str(error),
                last_success=before.last_success,
            )
        return containers, SourceHealth(name="podresources", state="Up", last_success=clock.now())


_OFF = SourceHealth(
    name="podresources",
    state="Down",
    reason="Off",
    message="pod resources are not queried: --kubernetes is off",
)


def _lasting(state: NodeState) -> NodeState:
    """Leave out what differs at each look."""
    return msgspec.structs.replace(
        state, pods=msgspec.structs.replace(state.pods, last_success=None)
    )
