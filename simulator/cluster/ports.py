"""Ports on loopback for programs that need a fixed one.

A port that the kernel chose and that was closed again is free: before the program has it,
another process may be given it, and so may any outgoing connection, even one to that very port.
These lie below the range that the kernel chooses from, and the claim to one lasts as long as the
process that claimed it.
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
"""The kernel lets a process claim twice what is its own."""


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
    """Claim a port, which is the byte of that number in a file that all share."""
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
