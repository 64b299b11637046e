"""Names of devices, instances and buses."""

import pytest

from exporter.model.device import NO_INSTANCE_ID, Device, Instance, instance_of, normal_bus_id


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("0000:03:00", "0000:03:00.0"),
        ("0000:65:00.0", "0000:65:00.0"),
        ("00000000:65:00.0", "0000:65:00.0"),
        ("0009:01:00", "0009:01:00.0"),
        ("00010000:0F:00.0", "10000:0f:00.0"),
        ("B5:00", "0000:b5:00.0"),
        (" 0000:b5:00.1 ", "0000:b5:00.0"),
        ("", None),
        ("0000:b5", None),
        ("0000:b5:00.8", None),
        ("0000:b5:00 GPU-I:05", None),
    ],
)
def test_a_bus_id_has_one_normal_form(written: str, normal: str | None) -> None:
    assert normal_bus_id(written) == normal


@pytest.mark.parametrize(
    ("gi", "ci", "expected"),
    [
        (NO_INSTANCE_ID, NO_INSTANCE_ID, None),
        (NO_INSTANCE_ID, 0, None),
        (5, NO_INSTANCE_ID, Instance(5)),
        (0, 0, Instance(0, 0)),
    ],
)
def test_an_event_without_instance_names_none(gi: int, ci: int, expected: Instance | None) -> None:
    assert instance_of(gi, ci) == expected


def test_a_device_reads_as_its_three_names() -> None:
    assert str(Device("gpu.nvidia.com", "node-a", "gpu-3")) == "gpu.nvidia.com/node-a/gpu-3"
