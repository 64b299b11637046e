"""Who is among the GPUs that NVML lists: a GPU that is not known to be missing is not missing."""

import pytest

from simulator.node import SimulatedNode
from tests.exporter.sensor.nvml.child_run import NvmlChild

OPENING = "nvmlDeviceGetHandleByIndex_v2"
NO_PERMISSION, GPU_IS_LOST, UNKNOWN = 4, 15, 999
"""NVML_ERROR_*."""


def test_all_are_identified_where_each_says_its_uuid(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        reading = child.sample()
    assert (reading.listed, reading.unidentified) == (3, 0)


def test_a_gpu_that_is_left_out_may_be_any_even_one_that_was_read_before(
    node: SimulatedNode,
) -> None:
    with NvmlChild(node) as child:
        child.sample()
        reading = child.sample(skip=(1, 7))
    assert (reading.listed, reading.unidentified) == (3, 1)


@pytest.mark.parametrize(
    ("call", "code", "unidentified"),
    [
        (OPENING, NO_PERMISSION, 1),
        (OPENING, UNKNOWN, 0),
        (OPENING, GPU_IS_LOST, 0),
        ("nvmlDeviceGetUUID", UNKNOWN, 1),
        ("nvmlDeviceGetUUID", GPU_IS_LOST, 0),
    ],
)
def test_one_without_a_name_is_the_missing_one_only_if_the_driver_cannot_reach_it(
    node: SimulatedNode, call: str, code: int, unidentified: int
) -> None:
    node.error(1, code, call)
    with NvmlChild(node) as child:
        reading = child.sample()
    assert (len(reading.gpus), reading.unidentified) == (2, unidentified)


def test_where_no_gpu_can_be_opened_that_is_none_of_their_faults(node: SimulatedNode) -> None:
    for number in range(3):
        node.error(number, UNKNOWN, OPENING)
    with NvmlChild(node) as child:
        reading = child.sample()
    assert (reading.gpus, reading.unidentified) == ((), 3)


def test_one_that_does_not_answer_any_more_is_known_from_before(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.error(1, UNKNOWN, OPENING)
        reading = child.sample()
    assert (len(reading.gpus), reading.unidentified) == (3, 0)


def test_of_two_under_one_uuid_one_may_be_the_missing_one(node: SimulatedNode) -> None:
    node.show_uuid(1, node.gpu(0).uuid)
    with NvmlChild(node) as child:
        reading = child.sample()
    assert reading.unidentified == 1
