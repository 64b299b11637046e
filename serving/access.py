"""Who may speak to a front, by a web configuration that may change while it serves."""

import logging
import os
import socket
import threading
import time
from pathlib import Path

from serving import web_config
from serving.basic_auth import Users
from serving.message import Take
from serving.tls import Securing
from serving.web_config import WebConfigError

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
"""Between looks at the files, and only when somebody connects."""

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Access:
    """A `message.Gate`: what the file says now; a bad new one keeps the last good one."""

    def __init__(self, path: Path) -> None:
        """Read the file; raises WebConfigError."""
        self._path = path
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._load()

    def secure(self, stream: socket.socket, take: Take) -> None:
        """Make the connection one that may be spoken over; raises message.Insecure."""
        self._refresh()
        securing = self._securing
        if securing is not None:
            securing.secure(stream, take)

    def admits(self, authorization: str) -> bool:
        users = self._users
        return users is None or users.admits(authorization)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Sent with every answer."""
        return self._headers

    def _refresh(self) -> None:
        with self._lock:
            if time.monotonic() - self._looked < _LOOK_SECONDS:
                return
            self._looked = time.monotonic()
            if self._stamp() == self._seen:
                return
            try:
                self._load()
            except WebConfigError as error:
                _log.error("%s; the last good version stays in force", error)
            else:
                _log.info("%s was read again", self._path)

    def _load(self) -> None:
        # Each file is looked at before it is read: one that changes meanwhile is read again. The
        # files of a new configuration may come later than itself.
        self._files: tuple[str, ...] = ()
        self._seen = self._stamp()
        config = web_config.read(self._path)
        tls = config.tls_server_config
        if tls is not None:
            self._files = (tls.cert_file, tls.key_file, tls.client_ca_file or tls.key_file)
        self._seen += tuple(map(_version, self._files))
        securing = None if tls is None else Securing(tls)
        self._securing = securing
        users = config.basic_auth_users
        self._users = Users(users) if users else None
        self._headers = tuple(config.http_server_config.headers.items())

    def _stamp(self) -> _Stamp:
        return tuple(_version(name) for name in (str(self._path), *self._files))


def _version(name: str) -> tuple[int, int, int] | None:
    try:
        now = os.stat(name)  # noqa: PTH116 - follows the symbolic links of a mounted Secret
    except OSError:
        return None
    return now.st_ino, now.st_mtime_ns, now.st_size
