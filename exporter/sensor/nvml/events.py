"""What NVML tells by itself: XIDs, changes of the recovery action, and of what there is.

GPUs are bound to and unbound from the driver by system events, which need
R570 or newer; while this process lives it holds every GPU open, so an unbind
must end it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from exporter.model.device import instance_of
from exporter.model.signals import Kind, Signal
from exporter.sensor.nvml.library import NO_GPU, Caller, NvmlError, address
from kubeapi import clock

_XID, _MIG, _UNAVAILABLE, _RECOVERY = 0x8, 0x100, 0x4000, 0x8000
"""nvmlEventType*; nvidia-ml-py has no names for the last two."""
_EVENT_SETS = (
    _XID | _MIG | _UNAVAILABLE | _RECOVERY,
    _XID | _MIG | _RECOVERY,
    _XID | _RECOVERY,
    _XID,
)
"""The most first: a driver refuses all when it does not know one (recovery: R565)."""
_KINDS: dict[int, Kind] = {
    _XID: "xid",
    _MIG: "topology",
    _UNAVAILABLE: "recovery",
    _RECOVERY: "recovery",
}
UNBIND, BIND = 1, 2
"""nvmlSystemEventTypeGpuDriver*."""


class Events:
    """Waits for events of physical GPUs."""

    def __init__(self, call: Caller) -> None:
        self._call = call
        self._set: Any = None
        self._known: dict[int, tuple[str, str]] = {}

    def register(
        self, handles: Mapping[int, Any], identity_of: Callable[[int], tuple[str, str]]
    ) -> int:
        """Register every GPU that is not yet; returns how many are.

        Handles are mapped to UUIDs here, as a dead GPU cannot tell its own. Where
        another GPU has the handle of one that is gone, it is registered anew.
        """
        if self._set is None:
            self._set = self._call(NO_GPU, "nvmlEventSetCreate")
        for index, handle in handles.items():
            identity = identity_of(index)
            before = self._known.get(address(handle))
            # The same GPU may have reported its bus id later than its UUID.
            same = before is not None and before[0] == identity[0]
            if same or self._register(index, handle):
                self._known[address(handle)] = identity
        return len(self._known)

    def without_events(
        self, handles: Mapping[int, Any], identity_of: Callable[[int], tuple[str, str]]
    ) -> frozenset[int]:
        """Return the GPUs whose events nobody gets, because they could not be registered."""
        return frozenset(
            index
            for index, handle in handles.items()
            if self._known.get(address(handle)) != identity_of(index)
        )

    def wait(self, milliseconds: int) -> Signal | None:
        """Return the next event, None after the time or for another type; raises NvmlError."""
        try:
            event = self._call(NO_GPU, "nvmlEventSetWait_v2", self._set, milliseconds)
        except NvmlError as error:
            if error.timeout:
                return None
            raise
        uuid, bus_id = self._known.get(address(event.device), ("", ""))
        kind = _KINDS.get(event.eventType)
        if kind is None:
            return None
        if kind != "xid":
            return Signal(kind=kind, source="nvml", at=clock.now(), uuid=uuid, bus_id=bus_id)
        instance = instance_of(event.gpuInstanceId, event.computeInstanceId)
        return Signal(
            kind="xid",
            source="nvml",
            at=clock.now(),
            uuid=uuid,
            bus_id=bus_id,
            code=int(event.eventData),
            gi=instance.gi if instance else None,
            ci=instance.ci if instance else None,
        )

    def _register(self, index: int, handle: Any) -> bool:
        for kinds in _EVENT_SETS:
            try:
                self._call(index, "nvmlDeviceRegisterEvents", handle, kinds, self._set)
            except NvmlError:
                continue
            return True
        return False


class SystemEvents:
    """Hears of GPUs that the driver takes or lets go, where the library tells."""

    def __init__(self, call: Caller) -> None:
        self._call = call
        self._set: Any = None

    def open(self) -> bool:
        """Return whether the library tells such events."""
        try:
            self._set = self._call(NO_GPU, "nvmlSystemEventSetCreate", UNBIND | BIND)
        except NvmlError:
            return False
        return True

    def wait(self, milliseconds: int) -> int:
        """Return UNBIND or BIND, 0 after the time; both at once are UNBIND. Raises NvmlError."""
        kinds = self._call(NO_GPU, "nvmlSystemEventSetWait", self._set, milliseconds)
        found = 0
        for kind in kinds:
            found |= kind
        return UNBIND if found & UNBIND else found & BIND
