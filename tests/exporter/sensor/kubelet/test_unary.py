"""One call against servers that answer properly, and servers that do not."""

import contextlib
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import h2.config
import h2.connection
import h2.events
import pytest

from exporter.sensor.kubelet import unary
from exporter.sensor.kubelet.unary import CallFailed, call
from tests.exporter.running import ROOT

Answer = Callable[[h2.connection.H2Connection], None]
OK = ((":status", "200"), ("content-type", "application/grpc"))


def framed(message: bytes, packed: int = 0, size: int | None = None) -> bytes:
    return struct.pack("!BI", packed, len(message) if size is None else size) + message


def answering(body: bytes, *trailers: tuple[str, str], status: str = "200") -> Answer:
    def answer(connection: h2.connection.H2Connection) -> None:
        connection.send_headers(1, ((":status", status), *OK[1:]))
        connection.send_data(1, body)
        connection.send_headers(1, trailers or (("grpc-status", "0"),), end_stream=True)

    return answer


def _reset(connection: h2.connection.H2Connection) -> None:
    connection.reset_stream(1)


def _close(connection: h2.connection.H2Connection) -> None:
    connection.close_connection()


def _say_nothing(_: h2.connection.H2Connection) -> None:
    pass


class Server:
    """Answers one connection: with an `Answer`, or with bytes that are no HTTP/2."""

    def __init__(self, folder: str, answer: Answer | bytes) -> None:
        self.path = Path(folder) / "s"
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        # Wakes the thread if nobody came; close alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._listener.close()

    def _serve(self) -> None:
        # The client hangs up as soon as it knows enough, maybe before it is served at all.
        with contextlib.suppress(OSError):
            self._answer_one(self._listener.accept()[0])

    def _answer_one(self, stream: socket.socket) -> None:
        with stream:
            if isinstance(self._answer, bytes):
                stream.recv(1 << 16)
                stream.sendall(self._answer)
                return
            config = h2.config.H2Configuration(client_side=False)
            connection = h2.connection.H2Connection(config)
            connection.initiate_connection()
            while piece := stream.recv(1 << 16):
                for event in connection.receive_data(piece):
                    if isinstance(event, h2.events.StreamEnded):
                        self._answer(connection)
                stream.sendall(connection.data_to_send())


@pytest.fixture
def folder() -> Iterator[str]:
    with TemporaryDirectory(prefix="dg-") as name:
        yield name


def answered(folder: str, answer: Answer | bytes, seconds: float = 60.0, most: int = 1000) -> bytes:
    server = Server(folder, answer)
    try:
        return call(server.path, "/v1.Some/List", b"", seconds=seconds, most=most)
    finally:
        server.close()


def test_the_message_comes_back(folder: str) -> None:
    assert answered(folder, answering(framed(b"pods"))) == b"pods"


def test_a_message_may_have_every_byte_that_is_allowed(folder: str) -> None:
    assert answered(folder, answering(framed(b"x" * 1000))) == b"x" * 1000


def test_an_empty_message_is_a_message(folder: str) -> None:
    assert answered(folder, answering(framed(b""))) == b""


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (answering(b"", ("grpc-status", "12"), ("grpc-message", "no%20such")), 12, "no such"),
        (answering(framed(b"x"), ("grpc-status", "7")), unary.PERMISSION_DENIED, ""),
        (answering(framed(b"x"), ("grpc-status", "soon")), unary.INTERNAL, ""),
        (answering(framed(b"x"), ("grpc-status", "9" * 5000)), unary.INTERNAL, ""),
        (answering(framed(b"x"), ("other", "1")), unary.INTERNAL, "no status"),
        (answering(b""), unary.INTERNAL, "no message"),
        (answering(framed(b"x", packed=1)), unary.INTERNAL, "compressed"),
        (answering(framed(b"x", size=2)), unary.INTERNAL, "not one message"),
        (answering(framed(b"x") + framed(b"y")), unary.INTERNAL, "not one message"),
        (answering(framed(b"x", size=2000)), unary.RESOURCE_EXHAUSTED, "larger than 1000"),
        (answering(b"", status="503"), unary.UNAVAILABLE, "503"),
        (_reset, unary.UNAVAILABLE, "cut"),
        (_close, unary.UNAVAILABLE, "cut"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", unary.UNAVAILABLE, "closed"),
        (b"\x00\x00\x05\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff\xff", unary.INTERNAL, "not HTTP/2"),
        (b"", unary.UNAVAILABLE, "closed"),
    ],
)
def test_every_other_answer_has_a_status(
    folder: str, answer: Answer | bytes, code: int, words: str
) -> None:
    with pytest.raises(CallFailed) as failed:
        answered(folder, answer)
    assert failed.value.code == code
    assert words in failed.value.details


def test_a_server_that_is_silent_costs_the_deadline(folder: str) -> None:
    with pytest.raises(CallFailed) as failed:
        answered(folder, _say_nothing, seconds=0.2)
    assert failed.value.code == unary.DEADLINE_EXCEEDED


def test_a_socket_that_nobody_serves_is_unavailable(folder: str) -> None:
    with pytest.raises(CallFailed) as failed:
        call(Path(folder) / "none", "/v1.Some/List", b"", seconds=60.0, most=10)
    assert failed.value.code == unary.UNAVAILABLE


_WITHOUT_FILES = """
import contextlib, os, resource
from pathlib import Path
from exporter.sensor.kubelet.podresources import PodResources, PodResourcesError
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
kubelet, files = PodResources(Path(os.sys.argv[1])), []
with contextlib.suppress(OSError):
    while True:
        files.append(os.open("/dev/null", os.O_RDONLY))
try:
    kubelet.list()
except PodResourcesError as error:
    print(error.reason, error)
"""


def test_a_process_without_a_file_left_says_so_and_lives_on(folder: str) -> None:
    (Path(folder) / "s").touch()
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_FILES, str(Path(folder) / "s")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "Too many open files" in done.stdout
