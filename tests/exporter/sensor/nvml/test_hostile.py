"""Answers that make no sense are refused, counted and left out, and never end the child."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model.readings import GpuReading
from exporter.sensor.nvml import gpm, link_table
from exporter.sensor.nvml import library as nvml
from exporter.sensor.nvml.events import Events
from exporter.sensor.nvml.fields import Fields, Lacking, Tally
from exporter.sensor.nvml.library import FieldAnswer, NvmlError
from exporter.sensor.nvml.sampler import Sampler
from exporter.sensor.nvml.table import TABLE, Call, Source
from simulator import build
from simulator.node import SimulatedNode
from tests.exporter.sensor.nvml.child_run import NvmlChild

ALL = (*TABLE, *link_table.LINK_FIELDS, *link_table.GPU_FIELDS, *gpm.METRICS)
NAMES = {source.name for found in TABLE.values() for source in found if isinstance(source, Call)}
NODE = {s.name for found in TABLE.values() for s in found if isinstance(s, Call) and s.node}
CALLS = sorted((NAMES - NODE) & {name.removesuffix("_v3") for name in build.simulated_calls()})


@pytest.fixture
def node() -> Iterator[SimulatedNode]:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("3xH100", mig={2: ["1g.10gb"] * 2}) as node,
    ):
        yield node


def _bounds() -> dict[int, tuple[float, float]]:
    found: dict[int, tuple[float, float]] = {}
    for number, sources in TABLE.items():
        for unit in (source.unit for source in sources if source.unit):
            found[number] = (
                unit.lowest * unit.times // unit.divide,
                unit.highest * unit.times / unit.divide,
            )
    return found


def test_all_sources_of_a_field_have_one_range() -> None:
    ranges = {
        number: {(unit.lowest, unit.highest, unit.times, unit.divide) for unit in units}
        for number, sources in TABLE.items()
        if (units := [source.unit for source in sources if source.unit])
    }
    assert {number: found for number, found in ranges.items() if len(found) > 1} == {}


def _is_clean(gpu: GpuReading) -> bool:
    bounds = _bounds()
    return all(
        isinstance(value, str) or bounds[number][0] <= value <= bounds[number][1]
        for number, value in gpu.values.items()
        if number in bounds
    )


def test_a_gpu_that_answers_garbage_shows_nothing_wrong_and_the_others_go_on(
    node: SimulatedNode,
) -> None:
    with NvmlChild(node) as child:
        before = child.sample(ALL)
        assert before.refused == 0
        node.garbage(0)
        node.garbage(2)
        reading = [child.sample(ALL) for _ in range(3)][-1]
        assert child.process.poll() is None
    assert reading.refused > 0
    assert reading.gpus[1].values.keys() >= before.gpus[1].values.keys()
    assert {gpu.uuid for gpu in reading.gpus} <= {gpu.uuid for gpu in before.gpus}
    assert all(_is_clean(gpu) for gpu in reading.gpus)
    for gpu in reading.gpus:
        assert int(gpu.values.get(150, 0)) <= 200
        assert gpu.fb_used is None or gpu.fb_used <= 1 << 50


@pytest.mark.parametrize("call", [*CALLS, "nvmlDeviceGetFieldValues", "nvmlGpmSampleGet"])
def test_garbage_from_one_call_costs_its_fields_alone(node: SimulatedNode, call: str) -> None:
    node.garbage(0, call)
    with NvmlChild(node) as child:
        child.sample(ALL)
        gpu = next((reading for reading in child.sample(ALL).gpus if reading.index == 0), None)
    if call == "nvmlDeviceGetUUID":
        assert gpu is None, "a GPU without a name cannot be told from others"
    else:
        assert gpu is not None
        assert _is_clean(gpu)
        assert (150 in gpu.values) == (call != "nvmlDeviceGetTemperature")


def test_all_ones_is_not_a_number(node: SimulatedNode) -> None:
    node.set_value(0, "recovery_action", 0xFFFF_FFFF)
    node.set_value(0, "pcie_replays", 0xFFFF_FFFF)
    with NvmlChild(node) as child:
        reading = child.sample((1523,))
    assert reading.gpus[0].recovery_action is None
    assert reading.gpus[0].recovery_supported is None, "it is there, and cannot be read"
    assert reading.gpus[0].values == {}
    assert reading.refused == 1


class _Answering:
    """A library that gives whatever a test wants."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer = answer
        self.calls: list[str] = []

    def __call__(self, gpu: int, name: str, *arguments: Any) -> Any:
        self.calls.append(name)
        assert gpu in (nvml.NO_GPU, 0, 1, 2)
        return self._answer(name, *arguments)


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.lists(st.integers(), max_size=4),
    st.builds(object),
)
CODES = st.sampled_from((0, 2, 3, 4, 6, 13, 15, 25, 999, nvml.REFUSED))


@settings(deadline=None)
@given(st.data())
def test_whatever_a_library_answers_a_field_is_plausible_or_absent(data: st.DataObject) -> None:
    def answer(name: str, *arguments: Any) -> Any:
        if name == "nvmlDeviceGetFieldValues":
            keys = arguments[1]
            size = data.draw(st.integers(0, len(keys) + 1))
            numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=True))
            return [FieldAnswer(data.draw(CODES), data.draw(numbers)) for _ in range(size)]
        if code := data.draw(CODES):
            raise NvmlError(name, code, "no")
        return data.draw(ODD)

    tally = Tally()
    fields = Fields(_Answering(answer), 0, object(), Lacking(), tally)
    numbers = data.draw(st.sets(st.sampled_from(sorted(TABLE)), max_size=8))
    values = fields.values(TABLE, numbers)
    bounds = _bounds()
    for number, value in values.items():
        if isinstance(value, str):
            assert value.isprintable()
        else:
            assert bounds[number][0] <= value <= bounds[number][1]


def test_a_pass_during_which_gpus_came_or_went_is_made_again() -> None:
    counts = [1, 3, 3, 3]

    def answer(name: str, *arguments: Any) -> Any:
        simple = {
            "nvmlSystemGetDriverVersion": "580.95.05",
            "nvmlDeviceGetUUID": f"GPU-{arguments[-1] if arguments else 0}",
            "nvmlDeviceGetHandleByIndex": arguments[-1] if arguments else 0,
        }
        if name == "nvmlDeviceGetCount":
            return counts.pop(0)
        if name in simple:
            return simple[name]
        raise NvmlError(name, 3, "Not Supported")

    sampler = Sampler(_Answering(answer))
    assert [gpu.uuid for gpu in sampler.sample(frozenset()).gpus] == ["GPU-0", "GPU-1", "GPU-2"]


def test_a_handle_that_means_another_gpu_now_is_registered_anew() -> None:
    handle = ctypes.c_void_p(4711)
    event = pynvml.c_nvmlEventData_t(
        ctypes.cast(handle, pynvml.c_nvmlDevice_t), 0x8, 13, 0xFFFFFFFF, 0xFFFFFFFF
    )

    def answer(name: str, *_: Any) -> Any:
        return event if name == "nvmlEventSetWait_v2" else 1

    library = _Answering(answer)
    events = Events(library)
    late = ("GPU-old", "0000:18:00.0")
    for identity in (("GPU-old", ""), late, ("GPU-new", ""), ("GPU-new", "")):
        assert events.register({0: handle}, lambda _, identity=identity: identity) == 1
        received = events.wait(0)
        assert received is not None
        assert (received.uuid, received.bus_id, received.code, received.gi) == (*identity, 13, None)
    assert library.calls.count("nvmlDeviceRegisterEvents") == 2


def test_field_values_are_read_in_one_call_and_each_call_is_made_once() -> None:
    def answer(name: str, *arguments: Any) -> Any:
        if name == "nvmlDeviceGetFieldValues":
            return [FieldAnswer(0, 1) for _ in arguments[1]]
        return (1, 1)

    library = _Answering(answer)
    fields = Fields(library, 0, object(), Lacking(), Tally())
    fields.values(TABLE, TABLE)
    fields.values(TABLE, TABLE)
    fields.value(TABLE[206])
    assert library.calls.count("nvmlDeviceGetFieldValues") == 1
    assert library.calls.count("nvmlDeviceGetEncoderUtilization") == 1


def test_what_is_not_supported_is_not_queried_in_the_next_pass() -> None:
    def answer(name: str, *arguments: Any) -> Any:
        if name == "nvmlDeviceGetFieldValues":
            return [FieldAnswer(3) for _ in arguments[1]]
        raise NvmlError(name, 3, "Not Supported")

    lacking = Lacking()
    first, second = _Answering(answer), _Answering(answer)
    Fields(first, 0, object(), lacking, Tally()).values(TABLE, TABLE)
    Fields(second, 0, object(), lacking, Tally()).values(TABLE, TABLE)
    assert len(first.calls) > 50
    assert second.calls == []


def test_an_id_that_an_old_driver_refuses_costs_only_itself() -> None:
    def answer(name: str, *arguments: Any) -> Any:
        keys: list[tuple[int, int]] = arguments[1]
        if (230, 0) in keys:
            raise NvmlError(name, nvml.INVALID_ARGUMENT, "Invalid Argument")
        return [FieldAnswer(0, 7) for _ in keys]

    lacking = Lacking()
    desired = (202, 310, 1523)
    fields = Fields(_Answering(answer), 0, object(), lacking, Tally())
    assert fields.values(TABLE, desired) == {202: 7, 310: 7}
    again = _Answering(answer)
    assert Fields(again, 0, object(), lacking, Tally()).values(TABLE, desired) == {202: 7, 310: 7}
    assert again.calls == ["nvmlDeviceGetFieldValues"]


def test_a_lost_gpu_is_not_queried_again_in_the_pass() -> None:
    def answer(name: str, *arguments: Any) -> Any:
        raise NvmlError(name, nvml.LOST, "GPU is lost")

    library = _Answering(answer)
    fields = Fields(library, 0, object(), Lacking(), Tally())
    assert fields.get("nvmlDeviceGetMigMode") is None
    assert fields.values(TABLE, TABLE) == {}
    assert (library.calls, fields.lost) == (["nvmlDeviceGetMigMode"], True)


def test_a_refused_answer_is_counted_once() -> None:
    def answer(name: str, *arguments: Any) -> Any:
        return 40_000

    tally = Tally()
    fields = Fields(_Answering(answer), 0, object(), Lacking(), tally)
    sources: tuple[Source, ...] = TABLE[150]
    assert fields.value(sources) is None
    assert fields.value(sources) is None
    assert tally.refused == 1
