"""Found histories of MIG slices that are made anew over failed memory."""

import pytest

from tests.remediator.histories.test_found import NO_CALLS
from tests.remediator.histories.test_histories import History


def test_a_slice_that_is_made_anew_under_a_name_without_a_place_keeps_its_taint() -> None:
    """Another release of the driver names devices in its own way, and the agent is silent."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=True)
    history.an_error_is_named_late(dies=0, gi=1, late=3.0, then=0.1)
    history.another_release_of_the_driver(dies=0, then=0.1)
    history.a_node_that_goes(dies=0, gone=True, then=1.0)
    history.another_layout(dies=0, then=0.1)
    history.teardown()


def test_a_slice_that_is_made_anew_before_its_taint_frees_no_compute_instance() -> None:
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=True)
    history.another_compute_instance(anew=True, dies=0, gi=1, then=0.1)
    history.teardown()


def test_a_slice_that_is_made_anew_on_a_tainted_gpu_settles_by_itself() -> None:
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=True)
    history.another_compute_instance(anew=False, dies=0, gi=1, then=0.1)
    history.a_driver_that_publishes(dies=6, hidden=False, index=0, then=61.0)
    history.a_recovery_action(dies=5, index=1, then=3.0, value=42)
    history.a_gpu_goes_or_comes(dies=3, index=0, presence="Present", then=4000.0)
    history.another_compute_instance(anew=True, dies=5, gi=1, then=601.0)
    history.teardown()


def test_an_error_that_is_over_is_not_read_as_one_of_a_slice_that_was_made_since() -> None:
    """Its incident is closed, and the GPU that cannot be read now gets another one."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.an_xid(dies=0, index=1, code=94, gi=1, then=61.0)
    history.the_agent(dies=0, silent=False, then=601.0)
    history.another_layout(dies=0, then=3.0)
    history.a_gpu_goes_or_comes(dies=0, index=1, presence="Unknown", then=0.1)
    history.a_source_names_the_slice(dies=0, gi=5, then=61.0)
    history.only_what_gave_a_signal_is_tainted()
    history.teardown()


@pytest.mark.parametrize("gi", [1, 5])
def test_a_new_error_taints_a_slice_that_was_made_since_the_incident_before(gi: int) -> None:
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.an_xid(dies=0, index=1, code=94, gi=1, then=61.0)
    history.the_agent(dies=0, silent=False, then=601.0)
    history.another_layout(dies=0, then=3.0)
    history.an_xid(dies=0, index=1, code=94, gi=gi, then=1.0)
    history.the_agent(dies=0, silent=False, then=3.0)
    history.the_agent(dies=0, silent=False, then=61.0)
    assert {rule.uuid for rule in history.calm.rules.values()} == {
        part.uuid for part in history.machine.gpus[1].instances if part.gi == gi
    }
    history.teardown()


def test_a_reading_that_is_the_first_to_tell_the_place_means_the_slices_that_are_there_now() -> (
    None
):
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.another_compute_instance(anew=True, dies=0, gi=1, then=0.1)
    history.a_reading_tells_the_places(dies=0, index=1, then=3.0)
    history.only_what_gave_a_signal_is_tainted()
    history.teardown()


def test_a_slice_whose_gpu_gets_its_number_back_has_settled_under_the_other_one() -> None:
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=True)
    history.an_error_is_named_late(dies=0, gi=1, late=0.1, then=0.1)
    history.other_numbers(dies=0, then=0.1)
    history.another_layout(dies=0, then=0.1)
    history.a_gpu_goes_or_comes(dies=0, index=1, presence="Unknown", then=4000.0)
    history.other_numbers(dies=0, then=0.1)
    history.teardown()
