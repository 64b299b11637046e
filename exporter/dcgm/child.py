"""The process that holds libdcgm: `python -m exporter.dcgm.child SOCKET NOTES PARENT`.

Answers sample requests on a socket that it inherits, tells the XIDs that DCGM
kept since the last one, and ends when that socket or its parent does. When the
engine is gone it says so and ends: connecting again is a new process's work, so
that the supervisor's back-off is the only one.

Every call is made on the main thread, which lives as long as the process: an embedded engine
has its helpers killed when the thread that started them ends (PR_SET_PDEATHSIG).
"""

import os
import socket
import sys
from collections.abc import Mapping

from exporter import lifeline, wire
from exporter.children import callnotes
from exporter.dcgm import options
from exporter.dcgm.engine import Sampler
from exporter.dcgm.error import DcgmError


def main(argv: list[str], environment: Mapping[str, str]) -> int:
    stream_fd, notes_fd, parent = (int(text) for text in argv)
    lifeline.die_with(parent)
    given = options.decode(environment[options.VARIABLE])
    slot = callnotes.Slot(callnotes.attach(notes_fd), callnotes.SAMPLING)
    with socket.socket(fileno=stream_fd) as stream:
        channel = wire.Channel(stream)
        try:
            _serve(channel, Sampler(slot, given))
        except wire.WireError:
            pass
        except DcgmError as error:
            channel.send(wire.Failed(error.reason, str(error)))
    return 0


def _serve(channel: wire.Channel, sampler: Sampler) -> None:
    request = channel.receive(wire.to_child)
    while True:
        try:
            reading = sampler.sample(request.wanted)
        finally:
            # What made an engine fail is often its last news.
            for signal in sampler.news():
                channel.send(wire.Happened(signal))
        channel.send(wire.DcgmSampled(reading))
        request = channel.receive(wire.to_child)


if __name__ == "__main__":
    # The library's own threads may sit in a call: no waiting for them.
    os._exit(main(sys.argv[1:], os.environ))
