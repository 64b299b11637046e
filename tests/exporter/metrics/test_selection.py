"""Which devices the page shows, by dcgm-exporter's device option."""

from datetime import UTC, datetime

import pytest

from exporter.metrics.selection import selected
from exporter.model.device_option import ALL, Selection, SelectionError, parse_devices
from exporter.model.readings import GpuReading, MigReading, NvmlReading


def _gpu(index: int, *gis: int) -> GpuReading:
    parts = tuple(MigReading(uuid=f"MIG-{index}-{gi}", gi=gi, ci=0) for gi in gis)
    return GpuReading(
        index=index, uuid=f"GPU-{index}", values={155: 1}, instances=parts or None, mig=bool(parts)
    )


NODE = NvmlReading(at=datetime(2026, 1, 5, tzinfo=UTC), gpus=(_gpu(0, 7, 8), _gpu(1), _gpu(2, 1)))


def shown(option: str) -> list[str]:
    reading = selected(NODE, parse_devices(option))
    return [
        name
        for gpu in reading.gpus
        for name in (
            *([gpu.uuid] if gpu.values else []),
            *(part.uuid for part in gpu.instances or ()),
        )
    ]


@pytest.mark.parametrize(
    ("option", "devices"),
    [
        ("f", ["GPU-0", "MIG-0-7", "MIG-0-8", "GPU-1", "GPU-2", "MIG-2-1"]),
        ("g", ["GPU-0", "GPU-1", "GPU-2"]),
        ("g:0,2", ["GPU-0", "GPU-2"]),
        ("g:1-2", ["GPU-1", "GPU-2"]),
        ("i", ["MIG-0-7", "MIG-0-8", "MIG-2-1"]),
        ("i:1-2", ["MIG-0-8", "MIG-2-1"]),
        ("g:1,i:0", ["MIG-0-7", "GPU-1"]),
        ("g+i:0", ["GPU-0", "MIG-0-7", "GPU-1", "GPU-2"]),
        ("g:1+i:1,2", ["MIG-0-8", "GPU-1", "MIG-2-1"]),
        ("g:9", []),
    ],
)
def test_the_option_chooses_gpus_and_slices(option: str, devices: list[str]) -> None:
    assert shown(option) == devices


def test_everything_is_the_reading_itself() -> None:
    assert selected(NODE, ALL) is NODE
    assert parse_devices("f") == Selection()


@pytest.mark.parametrize("option", ["", "x", "g:", "g:a", "g:4-2", "g,g", "f,g", "i:-1", "g:1,,2"])
def test_an_option_that_cannot_be_read_is_refused(option: str) -> None:
    with pytest.raises(SelectionError):
        parse_devices(option)
