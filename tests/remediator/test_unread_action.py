"""A GPU of which NVML reads nothing any more is not well, whatever was read of it before."""

import pytest

from exporter.model.readings import GpuReading
from remediator.diagnose.fault import Healthy, Surroundings, Unknown
from remediator.diagnose.readings import action_faults
from tests.remediator.agent_and_leader import UNREAD, AgentAndLeader, reading
from tests.remediator.builders import action, at, gpu


def a_gpu_that_was_reset() -> AgentAndLeader:
    node = AgentAndLeader()
    node.looks(0, reading())
    node.logs(9, 95)
    node.keeps_looking(10, 60, reading(recovery_action=1))
    node.looks(60, reading())
    assert node.is_tainted
    return node


@pytest.mark.parametrize(
    "bad", [UNREAD, reading(recovery_supported=False, recovery_action=None)], ids=["error", "field"]
)
def test_one_that_is_read_once_after_its_reset_stays_tainted(bad: GpuReading) -> None:
    node = a_gpu_that_was_reset()

    node.keeps_looking(90, 2400, bad)

    assert isinstance(node.verdict, Unknown)
    assert node.is_tainted


def test_one_that_is_read_through_its_soak_is_untainted() -> None:
    node = a_gpu_that_was_reset()

    node.keeps_looking(90, 900, reading())

    assert not node.is_tainted
    assert node.phases == ["Recovered"]


def test_one_sample_without_an_answer_delays_nothing() -> None:
    node = a_gpu_that_was_reset()

    for begin in range(90, 690, 60):
        node.looks(begin, reading())
        node.looks(begin + 30, UNREAD)
    node.looks(690, reading())

    assert not node.is_tainted


def test_two_minutes_without_an_answer_begin_the_soak_anew() -> None:
    node = a_gpu_that_was_reset()

    node.keeps_looking(90, 450, reading())
    node.keeps_looking(450, 600, UNREAD)
    node.keeps_looking(600, 1170, reading())
    assert node.is_tainted
    node.keeps_looking(1170, 1300, reading())
    assert not node.is_tainted


def test_a_driver_without_recovery_action_that_replaced_one_with_it_is_read_as_such() -> None:
    node = AgentAndLeader()
    node.keeps_looking(0, 60, reading())
    node.driver = "550.90.07"

    node.keeps_looking(120, 300, reading(recovery_supported=False, recovery_action=None))

    assert node.health.recovery_action.supported is False
    assert node.health.epoch == 2
    assert isinstance(node.verdict, Healthy)


@pytest.mark.parametrize(
    ("read", "limit"), [(990, ("human", False)), (1010, ("node-reboot", True))]
)
def test_a_request_that_was_read_before_the_last_reset_is_no_new_one(
    read: float, limit: tuple[str, bool]
) -> None:
    """The reset may have been what it requested."""
    board = gpu(
        0, epoch=2, epoch_started=at(1000), recovery_action=action(2, 0, read), presence_since=at(0)
    )

    (fault,) = action_faults(board, Surroundings())

    assert (fault.needs, fault.certain) == limit
    assert ("before the last reset" in fault.doubt) is not limit[1]
