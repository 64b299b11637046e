"""GPUs that made NVML hang are left out for a while."""

import os

from exporter.model.readings import CallNote, Hang, NvmlReading
from exporter.sensor.supervisor.call_notes import EVENTS, SAMPLING, Slot, create, read
from exporter.sensor.supervisor.quarantine import LONGEST, TOO_LONG, Quarantine
from tests.exporter.worlds import START, gpu


def hangs(index: int | None = 1, call: str = "nvmlDeviceGetName") -> CallNote:
    return CallNote(index, call, 12.0)


def reading(*numbers: int) -> NvmlReading:
    return NvmlReading(at=START, gpus=tuple(gpu(number) for number in numbers))


def test_a_gpu_that_hung_is_left_out_and_still_shown() -> None:
    quarantine = Quarantine(60)
    quarantine.complete(reading(1, 2), frozenset())
    assert quarantine.put(hangs(), 100) == "GPU-2"
    assert quarantine.left_out(159) == {1}
    shown = quarantine.complete(reading(1), frozenset({1}))
    assert [(gpu.uuid, gpu.hung_call) for gpu in shown.gpus] == [
        ("GPU-1", ""),
        ("GPU-2", "nvmlDeviceGetName"),
    ]
    assert "GPU 1 hung in nvmlDeviceGetName" in quarantine.sentence()


def test_a_gpu_that_took_too_long_is_left_out_until_it_is_read_to_the_end() -> None:
    quarantine = Quarantine(60)
    quarantine.complete(reading(1, 2), frozenset())
    quarantine.put(hangs(), 100, how=TOO_LONG)
    cut = NvmlReading(at=START, gpus=(gpu(1), gpu(2, hung_call="nvmlDeviceGetName")))
    assert quarantine.complete(cut, frozenset()) == cut
    assert quarantine.left_out(159) == {1}
    assert quarantine.sentence() == (
        "GPU 1 took too long in nvmlDeviceGetName and is left out for 60 s"
    )


def test_it_is_tried_again_and_left_out_twice_as_long_when_it_hangs_again() -> None:
    quarantine = Quarantine(60)
    quarantine.put(hangs(), 0)
    assert quarantine.left_out(60) == frozenset()
    quarantine.put(hangs(), 60)
    assert quarantine.left_out(179) == {1}
    assert quarantine.left_out(180) == frozenset()
    for _ in range(10):
        quarantine.put(hangs(), 0)
    assert quarantine.left_out(LONGEST) == frozenset()


def test_a_gpu_that_answers_again_is_forgiven() -> None:
    quarantine = Quarantine(60)
    quarantine.put(hangs(), 0)
    quarantine.complete(reading(1, 2), frozenset())
    assert quarantine.sentence() == ""


def test_a_gpu_that_never_reported_its_name_is_reported_by_its_index() -> None:
    quarantine = Quarantine(60)
    assert quarantine.put(hangs(), 0) == ""
    assert quarantine.nameless() == Hang("nvmlDeviceGetName", 1)


def test_a_hang_of_the_library_leaves_no_gpu_out() -> None:
    quarantine = Quarantine(60)
    quarantine.put(hangs(None, "nvmlInit"), 0)
    assert quarantine.left_out(1) == frozenset()


def test_the_running_call_can_be_read_from_the_shared_memory() -> None:
    descriptor, memory = create()
    slot = Slot(memory, SAMPLING)
    slot.begin(3, "nvmlDeviceGetTemperature")
    note = read(memory, SAMPLING)
    assert note is not None
    assert (note.gpu, note.call) == (3, "nvmlDeviceGetTemperature")
    assert read(memory, EVENTS) is None
    slot.end()
    assert read(memory, SAMPLING) is None
    memory.close()
    os.close(descriptor)
