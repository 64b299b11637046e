"""The process that holds libdcgm: `python -m exporter.sensor.dcgm.child SOCKET NOTES PARENT`.

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

from exporter import pdeathsig, protocol
from exporter.sensor.dcgm import options
from exporter.sensor.dcgm.engine import Sampler
from exporter.sensor.dcgm.error import DcgmError
from exporter.sensor.nvml import preload
from exporter.sensor.supervisor import call_notes


def main(argv: list[str], environment: Mapping[str, str]) -> int:
    stream_fd, notes_fd, parent = (int(text) for text in argv)
    pdeathsig.die_with(parent)
    given = options.decode(environment[options.VARIABLE])
    slot = call_notes.Slot(call_notes.attach(notes_fd), call_notes.SAMPLING)
    # For libdcgm, which loads it by its name; without it the engine says so.
    preload.load(environment, slot)
    with socket.socket(fileno=stream_fd) as stream:
        channel = protocol.Channel(stream)
        try:
            _serve(channel, Sampler(slot, given))
        except protocol.WireError:
            pass
        except DcgmError as error:
            channel.send(protocol.Failed(error.reason, str(error)))
    return 0


def _serve(channel: protocol.Channel, sampler: Sampler) -> None:
    request = channel.receive(protocol.to_child)
    while True:
        try:
            reading = sampler.sample(request.requested)
        finally:
            # What made an engine fail is often its last news.
            for signal in sampler.signals():
                channel.send(protocol.Happened(signal))
        channel.send(protocol.DcgmSampled(reading))
        request = channel.receive(protocol.to_child)


if __name__ == "__main__":
    # The library's own threads may sit in a call: no waiting for them.
    os._exit(main(sys.argv[1:], os.environ))
