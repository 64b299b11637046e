"""Ports on loopback for programs that need a fixed one.

A port that the kernel chose is free again once it is closed. Before the program opens it, the
kernel may give it to another process or to an outgoing connection, even one to that same port. So
these ports are below the range from which the kernel chooses. A claim to a port lasts as long as
the process that made it.
"""

import errno
import fcntl
import os
import socket
import tempfile
from functools import cache
from pathlib import Path

_FIRST, _AFTER = 15_000, 32_000
"""Linux chooses from 32768 on (net.ipv4.ip_local_port_range)."""
_given: set[int] = set()
"""Ports of this process: the kernel would let it claim the same port twice."""


class NoPortError(OSError):
    """Every port of the range is claimed or in use."""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that is free, and that no other process is given.

    Raises NoPortError, and OSError when the folder for temporary files cannot be written.
    """
    size = _AFTER - _FIRST
    # Processes begin at places of their own, so that they seldom try the same one.
    begin = os.getpid() * 131 + len(_given)
    for number in range(size):
        port = _FIRST + (begin + number) % size
        if port not in _given and _is_claimed(port):
            _given.add(port)
            return port
    raise NoPortError(errno.EADDRINUSE, f"no port from {_FIRST} to {_AFTER - 1} is free")


def _is_claimed(port: int) -> bool:
    """Claim a port by a lock on its byte in a shared file, and return whether that succeeded."""
    claims = _claims()
    try:
        fcntl.lockf(claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        fcntl.lockf(claims, fcntl.LOCK_UN, 1, port)
        return False
    return True


@cache
def _claims() -> int:
    """Open the file whose bytes are locked, never to close it: that would end all claims."""
    path = Path(tempfile.gettempdir()) / f"draguard-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
