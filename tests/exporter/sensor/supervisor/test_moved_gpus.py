"""A GPU that was left out and comes back at another index is one GPU."""

import msgspec

from exporter.model.readings import CallNote, NvmlReading
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
