"""The process that holds the NVML library: `python -m exporter.nvml_child SOCKET NOTES PARENT`.

Answers sample requests on a socket that it inherits, tells events as they come,
and ends when that socket or its parent does. Whatever the library does to this
process, the sensor goes on.
"""

import mmap
import os
import socket
import sys
import threading
import time

from exporter import callnotes, lifeline, wire
from exporter.nvml import Events, NvmlError, Sampler
from exporter.signals import Signal
from kubeapi import clock

WAIT_MS = 1000
"""Longest wait for one event."""


def main(argv: list[str]) -> int:
    stream_fd, notes_fd, parent = (int(text) for text in argv)
    lifeline.die_with(parent)
    notes = callnotes.attach(notes_fd)
    with socket.socket(fileno=stream_fd) as stream:
        channel = Sender(wire.Channel(stream))
        try:
            _serve(channel, Sampler(callnotes.Slot(notes, callnotes.SAMPLING)), notes)
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
    events = Events(callnotes.Slot(notes, callnotes.EVENTS))
    listening = False
    request = channel.request()
    sampler.open()
    while True:
        reading = sampler.sample(frozenset(request.skip))
        # Registered before the first answer, so that no XID after it goes unheard.
        registered = events.register(sampler.handles, sampler)
        if registered and not listening:
            threading.Thread(target=_listen, args=(channel, events), daemon=True).start()
            listening = True
        channel.send(wire.Sampled(reading))
        request = channel.request()


def _listen(channel: Sender, events: Events) -> None:
    while True:
        try:
            heard = events.wait(WAIT_MS)
        except NvmlError:
            # Says so when a GPU is lost; a sample tells which.
            heard = Signal(kind="recovery", source="nvml", at=clock.now())
            time.sleep(WAIT_MS / 1000)
        if heard is not None:
            try:
                channel.send(wire.Happened(heard))
            except wire.WireError:
                return


if __name__ == "__main__":
    # The event thread may sit in the library: no waiting for it.
    os._exit(main(sys.argv[1:]))
