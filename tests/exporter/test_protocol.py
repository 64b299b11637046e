"""Frames between the exporter's own processes."""

import socket
import struct
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import protocol
from exporter.model.node_health import Cursor
from tests.exporter.worlds import Sensed, mig_gpu, seen


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        other.settimeout(60)
        yield one, other


@pytest.mark.parametrize(
    "message",
    [
        protocol.Welcome("run-1", "boot-1"),
        protocol.Signals((Sensed().kmsg(1, 94, gi=5, pid=7, message="x"),), 7),
        protocol.Observed(seen(mig_gpu())),
    ],
)
def test_what_is_sent_arrives(
    ends: tuple[socket.socket, socket.socket], message: protocol.ToAgent
) -> None:
    protocol.Channel(ends[0]).send(message)
    assert protocol.Channel(ends[1]).receive(protocol.to_agent) == message


def test_the_cursor_travels(ends: tuple[socket.socket, socket.socket]) -> None:
    hello = protocol.Hello(Cursor(kernel_sequence=9, sensor_run="r", signal_sequence=3), "boot-1")
    protocol.Channel(ends[0]).send(hello)
    assert protocol.Channel(ends[1]).receive(protocol.to_sensor) == hello


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!BI", 2, 5) + b"12345",
        struct.pack("!BI", protocol.PROTOCOL, protocol.MAX_FRAME + 1),
        struct.pack("!BI", protocol.PROTOCOL, 5) + b"12345",
        protocol.encode(protocol.Welcome("a", "b")),
    ],
    ids=["http", "other version", "too large", "no msgpack", "wrong message"],
)
def test_garbage_is_an_error_and_not_the_end_of_a_connection(
    ends: tuple[socket.socket, socket.socket], garbage: bytes
) -> None:
    ends[0].sendall(garbage)
    with pytest.raises(protocol.WireError) as caught:
        protocol.Channel(ends[1]).receive(protocol.to_sensor)
    assert not isinstance(caught.value, protocol.Closed)


def test_a_frame_that_is_cut_is_a_closed_connection(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ends[0].sendall(protocol.encode(protocol.Welcome("a", "b"))[:-1])
    ends[0].shutdown(socket.SHUT_RDWR)
    with pytest.raises(protocol.Closed):
        protocol.Channel(ends[1]).receive(protocol.to_agent)


@given(st.binary(max_size=200))
def test_no_body_raises_anything_but_a_wire_error(body: bytes) -> None:
    decoders: list[msgspec.msgpack.Decoder[object]] = [
        protocol.to_sensor,  # pyright: ignore[reportAssignmentType] - decoders are invariant
        protocol.to_agent,  # pyright: ignore[reportAssignmentType]
        protocol.from_child,  # pyright: ignore[reportAssignmentType]
    ]
    for decoder in decoders:
        try:
            protocol.decode(body, decoder)
        except protocol.WireError:
            continue


def test_a_message_that_is_too_large_is_refused_by_the_sender() -> None:
    with pytest.raises(protocol.WireError, match="limit"):
        protocol.encode(protocol.Failed("x", "y" * protocol.MAX_FRAME))
