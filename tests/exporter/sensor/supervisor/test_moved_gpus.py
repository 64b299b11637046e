"""A GPU that was left out and comes back at another index is one GPU."""

import msgspec
import pytest

from exporter.model.readings import CallNote, GpuReading, NvmlReading
from exporter.sensor.supervisor.quarantine import Quarantine
from tests.exporter.worlds import START, gpu


def test_a_gpu_read_at_another_index_is_not_shown_at_its_old_one_as_well() -> None:
    quarantine = Quarantine(60)
    quarantine.complete(NvmlReading(at=START, gpus=(gpu(1), gpu(2))), frozenset())
    quarantine.put(CallNote(1, "nvmlDeviceGetName", 12.0), 100)
    # The first GPU went, so that NVML lists the second one at its place.
    moved = msgspec.structs.replace(gpu(2), index=0)
    shown = quarantine.complete(NvmlReading(at=START, gpus=(moved,)), frozenset({1}))
    assert [(reading.index, reading.uuid, reading.hung_call) for reading in shown.gpus] == [
        (0, "GPU-2", "")
    ]


def quarantined() -> Quarantine:
    quarantine = Quarantine(60)
    read = NvmlReading(at=START, gpus=(gpu(1), gpu(2), gpu(3)), listed=3)
    quarantine.complete(read, frozenset())
    quarantine.put(CallNote(0, "nvmlDeviceGetName", 12.0), 100)
    return quarantine


def test_it_stays_left_out_while_every_gpu_has_its_index() -> None:
    quarantine = quarantined()
    read = NvmlReading(at=START, gpus=(gpu(2), gpu(3)), listed=3, unidentified=1)
    shown = quarantine.complete(read, frozenset({0}))
    assert [reading.uuid for reading in shown.gpus] == ["GPU-2", "GPU-3", "GPU-1"]
    assert shown.unidentified == 0
    assert quarantine.left_out(101) == {0}


def at_index(number: int, index: int) -> GpuReading:
    return msgspec.structs.replace(gpu(number), index=index)


@pytest.mark.parametrize(
    "after",
    [
        NvmlReading(at=START, gpus=(gpu(2),), listed=2, unidentified=1),
        NvmlReading(at=START, gpus=(at_index(3, 1), at_index(4, 2)), listed=3, unidentified=1),
    ],
    ids=["one went", "one went and one came"],
)
def test_nobody_is_left_out_for_another_after_gpus_went_or_came(after: NvmlReading) -> None:
    quarantine = quarantined()
    shown = quarantine.complete(after, frozenset({0}))
    assert shown == after, "who was left out is not known"
    assert quarantine.left_out(101) == frozenset()
    assert quarantine.named(frozenset({"GPU-1"})) == frozenset()


def test_one_that_hangs_again_under_another_number_is_left_out_as_long_as_before() -> None:
    quarantine = quarantined()
    quarantine.put(CallNote(0, "nvmlDeviceGetName", 12.0), 160)
    quarantine.complete(
        NvmlReading(at=START, gpus=(gpu(2),), listed=2, unidentified=1), frozenset({0})
    )
    quarantine.put(CallNote(0, "nvmlDeviceGetName", 12.0), 300)
    assert quarantine.left_out(419) == {0}
    assert quarantine.left_out(420) == frozenset()
