"""Forwards a listening socket to a port of loopback: `python -m tests.lab.node.forward FD PORT`.

The socket belongs to the machine's network, this process to the node's: so that the API server of
the node answers outside, and nothing of the machine's network is changed.
"""

import contextlib
import socket
import sys
import threading

_CHUNK = 65536


def serve(listening: socket.socket, port: int) -> None:
    """Accept for ever; each connection gets one to `port` and two threads."""
    while True:
        accepted, _ = listening.accept()
        try:
            onward = socket.create_connection(("127.0.0.1", port), timeout=10)
        except OSError:
            accepted.close()
            continue
        onward.settimeout(None)
        for one, other in ((accepted, onward), (onward, accepted)):
            threading.Thread(target=_copy, args=(one, other), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until one end closes, then close both."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
