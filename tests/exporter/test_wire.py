"""Frames between the exporter's own processes."""

import socket
import struct
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import wire
from exporter.report import Cursor
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
        wire.Welcome("run-1", "boot-1"),
        wire.Signals((Sensed().kmsg(1, 94, gi=5, pid=7, message="x"),), 7),
        wire.Observed(seen(mig_gpu())),
    ],
)
def test_what_is_sent_arrives(
    ends: tuple[socket.socket, socket.socket], message: wire.ToAgent
) -> None:
    wire.Channel(ends[0]).send(message)
    assert wire.Channel(ends[1]).receive(wire.to_agent) == message


def test_the_cursor_travels(ends: tuple[socket.socket, socket.socket]) -> None:
    hello = wire.Hello(Cursor(kernel_sequence=9, sensor_run="r", signal_sequence=3), "boot-1")
    wire.Channel(ends[0]).send(hello)
    assert wire.Channel(ends[1]).receive(wire.to_sensor) == hello


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!BI", 2, 5) + b"12345",
        struct.pack("!BI", wire.PROTOCOL, wire.MAX_FRAME + 1),
        struct.pack("!BI", wire.PROTOCOL, 5) + b"12345",
        wire.encode(wire.Welcome("a", "b")),
    ],
    ids=["http", "other version", "too large", "no msgpack", "wrong message"],
)
def test_garbage_is_an_error_and_not_the_end_of_a_connection(
    ends: tuple[socket.socket, socket.socket], garbage: bytes
) -> None:
    ends[0].sendall(garbage)
    with pytest.raises(wire.WireError) as caught:
        wire.Channel(ends[1]).receive(wire.to_sensor)
    assert not isinstance(caught.value, wire.Closed)


def test_a_frame_that_is_cut_is_a_closed_connection(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ends[0].sendall(wire.encode(wire.Welcome("a", "b"))[:-1])
    ends[0].shutdown(socket.SHUT_RDWR)
    with pytest.raises(wire.Closed):
        wire.Channel(ends[1]).receive(wire.to_agent)


@given(st.binary(max_size=200))
def test_no_body_raises_anything_but_a_wire_error(body: bytes) -> None:
    decoders: list[msgspec.msgpack.Decoder[object]] = [
        wire.to_sensor,  # pyright: ignore[reportAssignmentType] - decoders are invariant
        wire.to_agent,  # pyright: ignore[reportAssignmentType]
        wire.from_child,  # pyright: ignore[reportAssignmentType]
    ]
    for decoder in decoders:
        try:
            wire.decode(body, decoder)
        except wire.WireError:
            continue


def test_a_message_that_is_too_large_is_refused_by_the_sender() -> None:
    with pytest.raises(wire.WireError, match="limit"):
        wire.encode(wire.Failed("x", "y" * wire.MAX_FRAME))
