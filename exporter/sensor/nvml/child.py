"""The process that holds NVML: `python -m exporter.sensor.nvml.child SOCKET NOTES PARENT`.

Answers sample requests on a socket that it inherits, tells events as they come,
and ends when that socket or its parent does, or when a GPU is being unbound.
Whatever the library does to this process, the sensor goes on.
"""

import mmap
import os
import socket
import sys
import threading
import time
from collections.abc import Callable

import msgspec

from exporter import pdeathsig, protocol
from exporter.model.readings import CallNote, NvmlReading
from exporter.model.signals import Signal
from exporter.sensor.nvml import preload
from exporter.sensor.nvml.events import UNBIND, Events, SystemEvents
from exporter.sensor.nvml.gpu import SampleOptions
from exporter.sensor.nvml.library import Noted, NvmlError
from exporter.sensor.nvml.sampler import Sampler
from exporter.sensor.supervisor import call_notes
from exporter.shutdown import end_with_any_thread
from kubeapi import clock

WAIT_MS = int(1000 * call_notes.WAIT_SECONDS)
"""Longest wait for one event: the library wakes who waits when there is one."""
_AGAIN_SECONDS = 1.0
"""Rest after a wait that failed otherwise than the one before."""
_BOUND = (
    "Bound",
    "the NVIDIA driver took another GPU; NVML is opened anew, as it lists only the GPUs that were "
    "there when it was opened",
)
_UNBOUND = (
    "Unbound",
    "a GPU is being unbound from the NVIDIA driver, so every GPU is let go for a moment; the "
    "others are read again at once",
)


def main(argv: list[str]) -> int:
    stream_fd, notes_fd, parent = (int(text) for text in argv)
    pdeathsig.die_with(parent)
    end_with_any_thread()
    notes = call_notes.attach(notes_fd)
    with socket.socket(fileno=stream_fd) as stream:
        channel = Sender(protocol.Channel(stream))
        try:
            _serve(channel, notes)
        except protocol.WireError:
            pass
        except NvmlError as error:
            channel.send(protocol.Failed(error.reason, str(error)))
    return 0


class Sender:
    """The socket, shared by the sampling and the event thread."""

    def __init__(self, channel: protocol.Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()

    def send(self, message: protocol.FromChild) -> None:
        with self._lock:
            self._channel.send(message)

    def sampled(self, reading: NvmlReading, overdue: tuple[CallNote, ...]) -> None:
        """Tell a pass; one that is too large for a message goes without its processes."""
        try:
            self.send(protocol.Sampled(reading, overdue))
        except protocol.TooLargeError:
            gpus = (msgspec.structs.replace(gpu, processes=None) for gpu in reading.gpus)
            self.send(protocol.Sampled(msgspec.structs.replace(reading, gpus=tuple(gpus)), overdue))

    def request(self) -> protocol.SampleRequest:
        return self._channel.receive(protocol.to_child)


def _serve(channel: Sender, notes: mmap.mmap) -> None:
    slot = call_notes.Slot(notes, call_notes.SAMPLING)
    sampler = Sampler(Noted(slot))
    events = Events(Noted(call_notes.Slot(notes, call_notes.EVENTS)))
    system = SystemEvents(Noted(call_notes.Slot(notes, call_notes.SYSTEM_EVENTS)))
    listener = _Listener(channel, events, system)
    request = channel.request()
    missing = preload.load(os.environ, slot)
    try:
        sampler.open()
    except NvmlError as error:
        if missing:
            channel.send(protocol.Failed(error.reason, f"{error} ({missing})"))
            return
        raise
    # Before the first pass, which may take seconds: a GPU that is bound meanwhile is not in it.
    listener.listen_to_system()
    while True:
        options = SampleOptions(frozenset(request.requested), request.processes)
        reading = sampler.sample(frozenset(request.skip), options, request.gpu_seconds)
        # Registered before the first answer, so that no XID after it is missed.
        registered = events.register(sampler.handles, sampler.uuid_of)
        if registered:
            listener.listen_to_devices()
        without_events = events.without_events(sampler.handles, sampler.uuid_of)
        if without_events:
            gpus = (
                msgspec.structs.replace(gpu, without_events=gpu.index in without_events)
                for gpu in reading.gpus
            )
            reading = msgspec.structs.replace(reading, gpus=tuple(gpus))
        channel.sampled(reading, sampler.overdue())
        request = channel.request()


class _Listener:
    """Two threads: one waits on the GPUs, the other for GPUs that come and go."""

    def __init__(self, channel: Sender, events: Events, system: SystemEvents) -> None:
        self._channel = channel
        self._events = events
        self._system = system
        self._devices = False

    def listen_to_system(self) -> None:
        """Begin to listen for GPUs that come and go, where the library tells."""
        if self._system.open():
            self._listen(self._wait_for_system)

    def listen_to_devices(self) -> None:
        """Begin to listen on the GPUs, once some are registered."""
        if not self._devices:
            self._devices = True
            self._listen(self._wait_for_device)

    def _listen(self, wait: Callable[[], None]) -> None:
        def repeat() -> None:
            failure: int | None = None
            while True:
                try:
                    failure = self._wait_once(wait, failure)
                except (protocol.WireError, _Absent):
                    return

        threading.Thread(target=repeat, daemon=True).start()

    def _wait_once(self, wait: Callable[[], None], before: int | None) -> int | None:
        """Hear once; returns how that failed, which it may do as long as a GPU is lost."""
        try:
            wait()
        except NvmlError as error:
            if error.code == before:
                time.sleep(call_notes.WAIT_SECONDS)
            else:
                # A sample tells which GPU it is.
                self._tell(Signal(kind="recovery", source="nvml", at=clock.now()))
                time.sleep(_AGAIN_SECONDS)
            return error.code
        return None

    def _wait_for_device(self) -> None:
        signal = self._events.wait(WAIT_MS)
        if signal is not None:
            self._tell(signal)

    def _wait_for_system(self) -> None:
        try:
            kind = self._system.wait(WAIT_MS)
        except NvmlError as error:
            if error.absent:
                raise _Absent from error
            raise
        if not kind:
            return
        self._tell(Signal(kind="topology", source="nvml", at=clock.now()))
        self._channel.send(protocol.Failed(*(_UNBOUND if kind == UNBIND else _BOUND)))
        # The sampling thread may sit in the library: the device is free only without this process.
        os._exit(0)

    def _tell(self, signal: Signal) -> None:
        self._channel.send(protocol.Happened(signal))


class _Absent(Exception):  # noqa: N818 - the library has no such events after all
    pass


if __name__ == "__main__":
    # The event thread may sit in the library: no waiting for it.
    os._exit(main(sys.argv[1:]))
