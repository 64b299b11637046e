"""A server of this process, in a thread of its own from the begin of a block to its end."""

import threading
from socketserver import TCPServer
from types import TracebackType
from typing import Self


class Served:
    """A context manager for `_server`, which a subclass makes."""

    _server: TCPServer

    @property
    def port(self) -> int:
        """Return its port on loopback."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        # Looked at often whether it shall end: a test waits for that.
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
