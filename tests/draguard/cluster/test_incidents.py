"""Which incident a person's word means."""

import pytest

from draguard.cluster.incidents import (
    NoIncidentError,
    find_incident,
    find_incidents,
    short_name,
)
from kubeapi.types import ObjectMeta
from remediator.model.incident import Incident, IncidentSpec, incident_name
from tests.remediator.builders import T0, incident, uuid

GPU, OTHER = uuid(0), "GPU-a0000000-1111-0000-0000-000000000000"
TWIN = Incident(ObjectMeta(name=incident_name(OTHER, 1)), IncidentSpec("node-a", OTHER))
FIRST, SECOND = incident(closed_at=T0), incident(number=2)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        (FIRST.name, FIRST),
        ("gpu-a0000000-1", FIRST),
        ("GPU-A0000000-2", SECOND),
        (GPU, SECOND),
        (GPU.lower(), SECOND),
    ],
)
def test_a_name_a_short_name_or_a_gpu(word: str, found: Incident) -> None:
    assert find_incident(word, (FIRST, SECOND)) is found


def test_a_gpu_whose_incidents_are_all_over_means_the_last() -> None:
    third = incident(number=10, closed_at=T0)

    assert find_incident(GPU, (FIRST, third)) is third


def test_a_gpu_means_its_open_incident_before_a_later_one_that_is_closed() -> None:
    duplicate = incident(number=3, closed_at=T0)

    assert find_incident(GPU, (SECOND, duplicate)) is SECOND


def test_a_short_name_of_two_is_refused() -> None:
    with pytest.raises(NoIncidentError, match="give the full name"):
        find_incident("gpu-a0000000-1", (FIRST, TWIN))


@pytest.mark.parametrize("word", ["", "gpu", "gpu-a", "gpu-a0000000-3", "GPU-xyz"])
def test_what_means_nothing_is_refused(word: str) -> None:
    with pytest.raises(NoIncidentError, match="there is no incident"):
        find_incident(word, (FIRST, SECOND))


@pytest.mark.parametrize(
    ("word", "found"),
    [("gpu-a0000000", SECOND), ("GPU-a0000000-0000", SECOND), ("gpu-a0", SECOND)],
)
def test_the_beginning_of_a_name_is_enough_where_only_one_gpu_has_it(
    word: str, found: Incident
) -> None:
    assert find_incident(word, (FIRST, SECOND)) is found


def test_the_beginning_of_two_is_refused_with_both() -> None:
    with pytest.raises(NoIncidentError, match="gpu-a0000000-2, gpu-a0000000-1; give more"):
        find_incident("gpu-a00", (SECOND, TWIN))


def test_a_whole_name_is_no_beginning_of_a_longer_one() -> None:
    tenth = incident(number=10)

    assert find_incident("gpu-a0000000-1", (FIRST, tenth)) is FIRST


def test_of_several_words_every_problem_is_named_at_once_and_an_incident_comes_once() -> None:
    assert find_incidents(["gpu-a0000000-2", GPU], (FIRST, SECOND)) == (SECOND,)
    with pytest.raises(NoIncidentError, match=r"'x'.*; there is no incident 'y'"):
        find_incidents(["x", GPU, "y"], (FIRST, SECOND))


def test_only_the_name_of_a_gpus_incident_is_shortened() -> None:
    assert short_name(FIRST.name) == "gpu-a0000000-1"
    assert short_name("somebody-elses-1") == "somebody-elses-1"
