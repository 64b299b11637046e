"""Each value in one place: what a sum over a family would count."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.metrics import fields, values
from exporter.model.readings import Values

_FIELDS = st.sampled_from((100, 150, 155, 251, 252, 449, 1001, 1005, 1009, 1508, 65000))
_VALUES = st.dictionaries(_FIELDS, st.integers(0, 9), max_size=6)


@given(whole=_VALUES, parts=st.lists(_VALUES, max_size=3))
def test_a_field_is_of_the_whole_or_of_its_parts_and_never_of_both(
    whole: Values, parts: list[Values]
) -> None:
    kept, of_parts = values.divided(whole, parts)
    reported = {field for part in of_parts for field in part}
    assert not set(kept) & reported
    assert set(kept) | reported == set(whole).union(*parts)


@given(whole=_VALUES, parts=st.lists(_VALUES, max_size=3))
def test_no_value_changes_on_the_way(whole: Values, parts: list[Values]) -> None:
    kept, of_parts = values.divided(whole, parts)
    assert kept.items() <= whole.items()
    assert all(now.items() <= was.items() for now, was in zip(of_parts, parts, strict=True))


def test_what_is_of_instances_by_nature_stays_with_them() -> None:
    kept, (part,) = values.divided({252: 9, 150: 40}, [{252: 3, 150: 40}])
    assert kept == {150: 40}
    assert part == {252: 3}


def test_memory_is_of_the_gpu_instance_and_compute_of_its_compute_instances() -> None:
    named = {field.id: field.name for field in fields.table().values()}
    of_gi = {name for number, name in named.items() if values.of_gpu_instance(number)}
    assert "DCGM_FI_DEV_FB_USED" in of_gi
    assert "DCGM_FI_PROF_DRAM_ACTIVE" in of_gi
    assert "DCGM_FI_PROF_SM_ACTIVE" not in of_gi
