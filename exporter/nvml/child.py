"""The process that holds the NVML library: `python -m exporter.nvml.child SOCKET NOTES PARENT`.

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

from exporter import lifeline, wire
from exporter.nvml.events import UNBIND, Events, SystemEvents
from exporter.nvml.gpu import Wish
from exporter.nvml.library import Caller, NvmlError
from exporter.nvml.sampler import Sampler
from exporter.signals import Signal
from exporter.vendor import callnotes
from kubeapi import clock

WAIT_MS = 1000
"""Longest wait for one event."""
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
    lifeline.die_with(parent)
    notes = callnotes.attach(notes_fd)
    with socket.socket(fileno=stream_fd) as stream:
        channel = Sender(wire.Channel(stream))
        try:
            _serve(channel, Sampler(Caller(callnotes.Slot(notes, callnotes.SAMPLING))), notes)
        except wire.WireError:
            pass
        except NvmlError as error:
            channel.send(wire.Failed(error.reason, str(error)))
    return 0


class Sender:
    """The socket, shared by the sampling and the event thread."""

    def __init__(self, channel: wire.Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()

    def send(self, message: wire.FromChild) -> None:
        with self._lock:
            self._channel.send(message)

    def request(self) -> wire.SampleRequest:
        return self._channel.receive(wire.to_child)


def _serve(channel: Sender, sampler: Sampler, notes: mmap.mmap) -> None:
    call = Caller(callnotes.Slot(notes, callnotes.EVENTS))
    events = Events(call)
    listener = _Listener(channel, events, SystemEvents(call))
    request = channel.request()
    sampler.open()
    while True:
        wish = Wish(frozenset(request.wanted), request.processes)
        reading = sampler.sample(frozenset(request.skip), wish)
        # Registered before the first answer, so that no XID after it goes unheard.
        registered = events.register(sampler.handles, sampler.uuid_of)
        listener.start(devices=registered > 0)
        channel.send(wire.Sampled(reading))
        request = channel.request()


class _Listener:
    """The event thread: waits on the GPUs, and looks for system events between two waits."""

    def __init__(self, channel: Sender, events: Events, system: SystemEvents) -> None:
        self._channel = channel
        self._events = events
        self._system = system
        self._devices = False
        self._tells_system: bool | None = None

    def start(self, *, devices: bool) -> None:
        """Begin to listen once there is something to listen to."""
        self._devices = self._devices or devices
        if self._tells_system is not None:
            return
        self._tells_system = self._system.open()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                self._hear()
            except wire.WireError:
                return
            except NvmlError:
                # Says so when a GPU is lost; a sample tells which.
                self._tell(Signal(kind="recovery", source="nvml", at=clock.now()))
                time.sleep(WAIT_MS / 1000)

    def _hear(self) -> None:
        if self._devices:
            heard = self._events.wait(WAIT_MS)
            if heard is not None:
                self._tell(heard)
        if self._tells_system:
            self._hear_system(0 if self._devices else WAIT_MS)
        elif not self._devices:
            time.sleep(WAIT_MS / 1000)

    def _hear_system(self, milliseconds: int) -> None:
        try:
            kind = self._system.wait(milliseconds)
        except NvmlError as error:
            self._tells_system = not error.absent
            raise
        if not kind:
            return
        self._tell(Signal(kind="topology", source="nvml", at=clock.now()))
        self._channel.send(wire.Failed(*(_UNBOUND if kind == UNBIND else _BOUND)))
        # The sampling thread may sit in the library: the device is free only without this process.
        os._exit(0)

    def _tell(self, signal: Signal) -> None:
        self._channel.send(wire.Happened(signal))


if __name__ == "__main__":
    # The event thread may sit in the library: no waiting for it.
    os._exit(main(sys.argv[1:]))
