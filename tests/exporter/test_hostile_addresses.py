"""Requests that no honest client sends cost one connection, and nothing in the log."""

import logging
import socket
from collections.abc import Iterator

import pytest

from serving.front import Front, Request, Response


def healthy(_request: Request) -> Response:
    return Response(body=b"ok\n")


@pytest.fixture
def front() -> Iterator[Front]:
    served = Front("127.0.0.1:0", {"/healthz": healthy})
    served.start()
    yield served
    served.stop()


@pytest.mark.parametrize("address", ["http://[/", "http://[::1/healthz"])
def test_an_address_that_cannot_be_read_is_refused_quietly(
    front: Front, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO),
        socket.create_connection(("127.0.0.1", front.port), timeout=60) as link,
    ):
        link.sendall(f"GET {address} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = b"".join(iter(lambda: link.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    # Threads of other tests may have something to say meanwhile.
    assert not [record for record in caplog.records if record.name.startswith("serving")]
