"""Agent and sensor of two versions, and observations that are too large for one message."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from threading import stack_size
from time import sleep

import msgspec
import pytest

from exporter import protocol
from exporter.flags.parser import parse
from exporter.model.node_health import Cursor, SourceHealth
from exporter.model.readings import (
    ContainerDevices,
    DcgmEntity,
    DcgmReading,
    NodePart,
    Observation,
    ProcessReading,
)
from exporter.protocol import Signals
from exporter.sensor.feed import Feed, Position
from exporter.sensor.process import Sensor
from exporter.sensor.server import SensorServer
from exporter.sensor.truncation import cuts
from simulator.node import SimulatedNode
from tests.exporter.robust.peers import FakeAgent, FakeSensor, frame, newer
from tests.exporter.running import Exporter, wait_for
from tests.exporter.worlds import START, UP, gpu, seen

WELCOME = protocol.Welcome("run-1", "boot-1")
SEEN = protocol.Observed(seen(gpu(1, values={150: 40})))
SKEW = 'reason="VersionSkew"'
PATIENT = "--sample-deadline=120"
"""For an agent whose sensor says nothing more and is not to be left for that."""


@pytest.fixture
def at(node: SimulatedNode) -> Path:
    return node.root / "sensor.sock"


def test_an_agent_understands_a_sensor_whose_every_object_has_a_field_more(
    node: SimulatedNode, at: Path
) -> None:
    frames = frame(newer(WELCOME)), frame(newer(SEEN))
    with FakeSensor(at, *frames), Exporter(node, "agent") as agent:
        page = agent.wait_shows('draguard_source_up{source="nvml"} 1', 'UUID="GPU-1"')
        assert not page.shows(SKEW)


def test_an_agent_understands_a_sensor_that_sends_only_the_required_fields(
    node: SimulatedNode, at: Path
) -> None:
    observed = {"type": "observed", "observation": {"at": SEEN.observation.at}}
    frames = frame(WELCOME), frame(observed)
    with FakeSensor(at, *frames) as sensor, Exporter(node, "agent", PATIENT) as agent:
        wait_for(lambda: agent.get("/readyz")[0] == 200)
        assert len(sensor.hellos) == 1


def test_a_message_of_an_unknown_kind_is_left_out_and_the_rest_goes_on(
    node: SimulatedNode, at: Path
) -> None:
    frames = frame(WELCOME), frame({"type": "weather", "degrees": 40}), frame(SEEN)
    with FakeSensor(at, *frames) as sensor, Exporter(node, "agent", PATIENT) as agent:
        agent.wait_shows(
            'draguard_source_up{source="nvml"} 1',
            'draguard_source_up{source="sensor",reason="VersionSkew"} 1',
            "draguard_agent_frames_refused_total 1",
        )
        assert len(sensor.hellos) == 1
        agent.wait_logged("'weather'")


@pytest.mark.parametrize(
    "skewed",
    [
        frame(WELCOME, version=protocol.PROTOCOL + 1),
        frame(protocol.Refused("the sensor does not understand this agent")),
        frame({"type": "observed", "observation": {"at": "a time", "sources": 7}}),
    ],
    ids=["protocol", "refused", "fields"],
)
def test_a_sensor_that_cannot_be_understood_is_a_state_of_its_own(
    node: SimulatedNode, at: Path, skewed: bytes
) -> None:
    with FakeSensor(at, skewed) as sensor, Exporter(node, "agent") as agent:
        agent.wait_shows(f'draguard_source_up{{source="nvml",{SKEW}}} 0')
        agent.wait_logged("use one image for both")
        assert agent.get("/healthz")[0] == 200
        # The sensor is replaced in its turn.
        sensor.frames = (frame(WELCOME), frame(SEEN))
        page = agent.wait_shows('draguard_source_up{source="nvml"} 1')
        assert not page.shows(SKEW)


@pytest.fixture
def sensor(node: SimulatedNode) -> Exporter:
    return Exporter(node, "sensor")


def test_a_sensor_understands_an_agent_with_fields_and_words_that_it_does_not_know(
    sensor: Exporter,
) -> None:
    with sensor:
        wait_for(sensor.socket.exists)
        with FakeAgent(sensor.socket) as agent:
            agent.stream.sendall(frame(newer(protocol.Hello(Cursor(), "", requested=(150,)))))
            assert isinstance(agent.channel.receive(protocol.to_agent), protocol.Welcome)
            before = next(agent.observations()).refused
            agent.stream.sendall(frame({"type": "sing"}))
            # Counted, and nothing more: the connection stays.
            assert any(observation.refused == before + 1 for observation in agent.observations())


@pytest.mark.parametrize(
    "hello",
    [
        frame({"type": "hello"}, version=protocol.PROTOCOL + 1),
        frame({"type": "hello", "cursor": 7}),
        frame({"type": "good-day"}),
    ],
    ids=["protocol", "fields", "kind"],
)
def test_a_sensor_tells_an_agent_that_it_does_not_understand_why(
    sensor: Exporter, hello: bytes
) -> None:
    with sensor:
        wait_for(sensor.socket.exists)
        with FakeAgent(sensor.socket) as agent:
            agent.stream.sendall(hello)
            answer = agent.channel.receive(protocol.to_agent)
            assert isinstance(answer, protocol.Refused)
            assert "does not understand this agent" in answer.message


def processes(count: int) -> tuple[ProcessReading, ...]:
    usual = {"memory": 1 << 34, "pod_uid": "6c0b7e1e-" * 4, "container_id": "f00d" * 16}
    return tuple(ProcessReading(pid=pid, **usual) for pid in range(count))  # pyright: ignore[reportArgumentType] - mixed values


def large(count: int) -> Observation:
    board = gpu(1, processes=processes(count), values={150: 40})
    holders = (ContainerDevices("team", "pod", "main"),)
    pods = SourceHealth(name="podresources", state="Up")
    return msgspec.structs.replace(seen(board), containers=holders, sources=(UP, pods))


def test_processes_are_left_out_first_and_the_source_says_so() -> None:
    whole = large(3)
    first, *_, last = cuts(whole)
    assert first.nvml is not None
    assert whole.nvml is not None
    assert first.nvml.gpus == (msgspec.structs.replace(whole.nvml.gpus[0], processes=None),)
    assert first.containers == whole.containers
    assert [(source.up, source.reason) for source in first.sources] == [
        (True, "TooLarge"),
        (True, ""),
    ]
    assert (last.nvml, last.dcgm, last.containers) == (None, None, None)
    assert [(source.up, source.reason) for source in last.sources] == [(False, "TooLarge")] * 2


def test_switches_and_cpus_are_left_out_before_what_dcgm_tells_of_gpus() -> None:
    part, entity = NodePart(kind="switch", id=0, values={858: 41}), DcgmEntity(uuid="GPU-1")
    reported = DcgmReading(at=START, entities=(entity,), node_parts=(part,))
    source = SourceHealth(name="dcgm", state="Up")
    _, second, third, *_ = cuts(msgspec.structs.replace(large(1), dcgm=reported, sources=(source,)))
    assert second.dcgm == DcgmReading(at=START, entities=(entity,))
    assert [(entry.up, entry.reason) for entry in second.sources] == [(True, "TooLarge")]
    assert "NVSwitches, CPUs" in second.sources[0].message
    assert third.dcgm is None
    assert [(entry.up, entry.reason) for entry in third.sources] == [(False, "TooLarge")]


def test_without_processes_it_fits_and_the_last_cut_leaves_next_to_nothing() -> None:
    sizes = [
        len(msgspec.msgpack.encode(observation))
        for observation in (large(50_000), *cuts(large(50_000)))
    ]
    assert sizes[0] > protocol.MAX_FRAME > sizes[1]
    assert sizes[-1] < 1000


class Crowded(Feed):
    """A feed that observes too many processes every other time."""

    def since(self, position: Position) -> tuple[Signals | None, Observation | None]:
        sleep(0.01)
        position.number += 1
        return None, large(50_000 if position.number % 2 else 1)


def test_a_sensor_that_ends_leaves_the_socket_of_the_next_one_alone(
    node: SimulatedNode, at: Path
) -> None:
    settings, _ = parse(["sensor", *node.exporter_flags()], {})
    first, second = (SensorServer(Sensor(settings), at) for _ in range(2))
    second.start()
    first.start()
    first.stop()
    with FakeAgent(at) as agent:
        assert isinstance(agent.hello(), protocol.Welcome)
    second.stop()
    assert not at.exists()


class Meanwhile(protocol.Channel):
    """Does something when a server that ends lets it go."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.end = act


def test_a_sensor_that_begins_while_another_ends_keeps_its_socket(
    node: SimulatedNode, at: Path
) -> None:
    settings, _ = parse(["sensor", *node.exporter_flags()], {})
    begun: list[SensorServer] = []
    old = SensorServer(Sensor(settings), at)
    old.start()
    one = Meanwhile(lambda: begun.append(SensorServer(Sensor(settings), at)))
    old._waiting[one] = None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - to hold a moment
    old.stop()
    (new,) = begun
    new.start()
    with FakeAgent(at) as agent:
        assert isinstance(agent.hello(), protocol.Welcome)
    new.stop()


def test_a_sensor_that_has_no_room_for_a_thread_hears_the_next_agent(
    node: SimulatedNode, at: Path
) -> None:
    settings, _ = parse(["sensor", *node.exporter_flags()], {})
    server = SensorServer(Sensor(settings), at)
    server.start()
    stack_size(1 << 60)  # beyond every address space, however memory is lent
    try:
        with FakeAgent(at) as agent, pytest.raises(protocol.Closed):
            agent.hello()
    finally:
        stack_size(0)
    with FakeAgent(at) as agent:
        assert isinstance(agent.hello(), protocol.Welcome)
    server.stop()


def test_an_observation_too_large_to_be_reported_loses_its_processes_and_not_the_agent(
    node: SimulatedNode, at: Path
) -> None:
    settings, _ = parse(["sensor", *node.exporter_flags()], {})
    sensor = Sensor(settings)
    sensor.feed = Crowded("", lambda: large(1))
    server = SensorServer(sensor, at)
    server.start()
    with FakeAgent(at) as agent:
        agent.hello()
        seen_here = list(islice(agent.observations(), 4))
    server.stop()
    gpus = [observation.nvml.gpus[0] for observation in seen_here if observation.nvml]
    assert [gpu.uuid for gpu in gpus] == ["GPU-1"] * 4
    assert [gpu.processes for gpu in gpus] == [None, processes(1)] * 2
    assert [observation.cut for observation in seen_here] == [1, 0, 2, 0]


def test_the_page_says_how_often_something_was_left_out(node: SimulatedNode, at: Path) -> None:
    cut = protocol.Observed(msgspec.structs.replace(SEEN.observation, cut=3))
    with FakeSensor(at, frame(WELCOME), frame(cut)), Exporter(node, "agent") as agent:
        agent.wait_shows("draguard_observations_cut_total 3")
