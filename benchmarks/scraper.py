"""A scraper with as little of its own as possible: one connection, bytes out, bytes in."""

import socket
import time
from types import TracebackType
from typing import Self

_LENGTH = b"content-length:"


class Scraper:
    """One kept-alive connection to a metrics page on loopback; use in a `with` block."""

    def __init__(self, port: int, *, gzip: bool = False) -> None:
        encoding = "gzip" if gzip else "identity"
        self._request = (
            f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: Prometheus/3\r\n"
            "Accept: text/plain;version=0.0.4\r\n"
            f"Accept-Encoding: {encoding}\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n"
        ).encode()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def scrape(self) -> tuple[float, bytes]:
        """Return the seconds from the first byte out to the last byte in, and the body."""
        begun = time.perf_counter()
        self._socket.sendall(self._request)
        body = self._answer()
        return time.perf_counter() - begun, body

    def _answer(self) -> bytes:
        got = bytearray()
        end = -1
        while (end := got.find(b"\r\n\r\n")) < 0:
            got += self._piece()
        head, start = bytes(got[:end]), end + 4
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(f"the page answers {head[:40]!r}")
        headers = head.lower().split(b"\r\n")
        lengths = [line.removeprefix(_LENGTH) for line in headers if line.startswith(_LENGTH)]
        if not lengths:
            raise ConnectionError("the page does not say how long it is")
        whole = start + int(lengths[0])
        while len(got) < whole:
            got += self._piece()
        return bytes(got[start:whole])

    def _piece(self) -> bytes:
        piece = self._socket.recv(1 << 18)
        if not piece:
            raise ConnectionError("the page closed the connection")
        return piece


def page(port: int) -> bytes:
    """Return the page as it is now, b"" while there is none."""
    try:
        with Scraper(port) as scraper:
            return scraper.scrape()[1]
    except OSError:
        return b""
