"""What comes over the exporter's own sockets: frames of agent, sensor and vendor children."""

import socket
from random import Random
from typing import Any, cast

import msgspec

from exporter import protocol
from exporter.model.node_health import Cursor
from exporter.model.readings import (
    ClaimDevice,
    ContainerDevices,
    DcgmEntity,
    DcgmReading,
    LinkReading,
)
from tests.exporter.worlds import START, Sensed, gpu, mig_gpu, seen
from tests.fuzz import hostile
from tests.fuzz.scrapers import Wire
from tests.fuzz.target import Target, demand

_CLAIM = ClaimDevice("train-gpu", "team", "gpu.nvidia.com", "node-a", "gpu-0")
_MESSAGES: tuple[msgspec.Struct, ...] = (
    protocol.Hello(
        Cursor(kernel_sequence=9, sensor_run="run-1", signal_sequence=3), "boot-1", (150,)
    ),
    protocol.Requested((150, 155, 1001)),
    protocol.Welcome("run-1", "boot-1"),
    protocol.Signals((Sensed().kmsg(1, 94, gi=5, pid=7, message="x"), Sensed().nvml(1, 94)), 7),
    protocol.Observed(
        msgspec.structs.replace(
            seen(mig_gpu(1), gpu(2, links=(LinkReading(link=4, up=True),), values={150: 40})),
            containers=(ContainerDevices("team", "train-0", "main", (_CLAIM,)),),
            dcgm=DcgmReading(at=START, entities=(DcgmEntity(uuid="GPU-1", values={155: 0.5}),)),
            rejected={"malformed": 3},
        )
    ),
    protocol.SampleRequest((1,), (150,)),
    protocol.Failed("Crashed", "see the log"),
    protocol.Happened(Sensed().nvml(1, 79)),
)
_FRAMES = tuple(protocol.encode(message) for message in _MESSAGES)
_DECODERS: tuple[msgspec.msgpack.Decoder[Any], ...] = (
    protocol.to_sensor,
    protocol.to_agent,
    protocol.to_child,
    protocol.from_child,
)


def make_frames(random: Random) -> bytes:
    """Make what a socket gives: changed frames, or changed bodies in frames of the right size."""
    raw = b"".join(_one(random) for _ in range(random.randrange(1, 4)))
    return hostile.mutated(random, raw, 1, _FRAMES) if random.randrange(3) == 0 else raw


def _one(random: Random) -> bytes:
    body = hostile.mutated(random, random.choice(_FRAMES)[5:], 3, _FRAMES)
    if random.randrange(200) == 0 and body:
        # A map with one part more, nested without end.
        body = bytes(((body[0] + 1) % 256,)) + b"\xa1x" + b"\x91" * 60_000 + b"\xc0" + body[1:]
    return bytes((protocol.PROTOCOL,)) + len(body).to_bytes(4) + body


def check_frames(raw: bytes) -> None:
    for decoder in _DECODERS:
        channel = protocol.Channel(cast("socket.socket", Wire(raw)))
        try:
            while True:
                message = channel.receive(decoder)
                again = protocol.decode(protocol.encode(message)[5:], decoder)
                demand(again == message, "it comes as another message", message)
        except protocol.WireError as error:
            demand(str(error), "a refusal without a word")


TARGETS = (Target("wire-frame", 30, make_frames, check_frames),)
