"""What a line once requested is over when the driver requests nothing, also without a reset."""

import pytest

from remediator.diagnose.fault import Sick, faults_of
from tests.exporter.worlds import part
from tests.remediator.agent_and_leader import AgentAndLeader, reading

HOUR = 3600


def on_slices(action: int = 0) -> AgentAndLeader:
    """A GPU on whose slice 5 an error was contained, whose line requested a reset after work.

    Its driver reads `action` from then on. A reset shows in nothing that it reports.
    """
    node = AgentAndLeader()
    slices = {"mig": True, "instances": (part(3, uuid="MIG-1-3"), part(5, uuid="MIG-1-5"))}
    node.looks(0, reading(**slices))
    node.logs(9, 94, gi=5, ci=0, reset=False, drain_reset=True)
    node.keeps_looking(10, HOUR, reading(recovery_action=action, **slices))
    node.logs(HOUR, 94, gi=5, ci=0, reset=False, drain_reset=False)
    node.looks(HOUR + 1, reading(recovery_action=action, **slices))
    return node


def test_a_later_contained_error_is_a_fault_of_its_slice_alone() -> None:
    judged = on_slices().verdict

    assert {fault.fault_class for fault in faults_of(judged)} == {"contained"}


@pytest.mark.parametrize("action", [1, 4])
def test_where_the_driver_still_requests_it_the_whole_gpu_stays_sick(action: int) -> None:
    judged = on_slices(action).verdict

    assert isinstance(judged, Sick)
    assert {fault.fault_class for fault in judged.faults if fault.ended is None} >= {"gpu"}


def test_a_later_45_is_not_put_down_to_an_error_that_is_over() -> None:
    node = AgentAndLeader()
    node.looks(0, reading())
    node.logs(9, 45, caused_by=95)
    node.keeps_looking(10, HOUR, reading())

    node.logs(HOUR, 45)

    assert not isinstance(node.verdict, Sick)
