"""Placements from the names of MIG devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.mig_names import Placement, placement_of


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("gpu-0-mig-1g12gb-19-0", Placement(0, 19, 0)),
        ("gpu-0-mig-1g20gb-15-6", Placement(0, 15, 6)),
        ("gpu-12-mig-1g24gb-me-20-6", Placement(12, 20, 6)),
        ("gpu-3-mig-1g24gb-me-all-21-4", Placement(3, 21, 4)),
        ("gpu-0-mig-1c2g20gb-14-2", Placement(0, 14, 2)),
        ("gpu-1-mig-7g80gb-0-0", Placement(1, 0, 0)),
        ("gpu-1-mig-19-6-1", Placement(1, 19, 6, 1)),
        ("gpu-0-mig-0-0-8", Placement(0, 0, 0, 8)),
    ],
)
def test_both_grammars_of_the_driver_are_read(name: str, place: Placement) -> None:
    assert placement_of(name) == place


@pytest.mark.parametrize(
    "name",
    [
        "gpu-0",
        "gpu-vfio-0",
        "gpu-0-mig-1g.5gb-0",
        "gpu-0-mig-1g5gb-0",
        "gpu-0-mig-19-6",
        "gpu-0-mig-19-6-1-1",
        "gpu-00-mig-19-6-1",
        "gpu-0-mig-1g5gb-19-0\n",
        "gpu-0-mig-1g5gb-1\u0669-0",
        "mig-gpu-0-1g5gb-19-0",
    ],
)
def test_other_names_say_nothing(name: str) -> None:
    assert placement_of(name) is None


@given(st.text(max_size=70) | st.text("gpumi-0123456789", max_size=70))
def test_any_name_is_read_or_not(name: str) -> None:
    found = placement_of(name)
    assert found is None or (found.minor >= 0 and name.startswith("gpu-"))
