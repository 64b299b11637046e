"""What holds for every file: it is read whole or refused, and means what it says."""

from contextlib import suppress
from datetime import timedelta

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from remediator.diagnose.fault import SEVERITY, FaultClass
from remediator.policy.duration import duration, spell
from remediator.policy.error import PolicyError
from remediator.policy.load import read
from remediator.policy.place import Place
from remediator.policy.table import CEILINGS, HIGHEST, MODES, Row
from tests.remediator.policy.policy_examples import EXAMPLE

durations = st.tuples(st.integers(1, 50), st.sampled_from("smh")).map(lambda d: f"{d[0]}{d[1]}")
Keys = st.SearchStrategy[dict[str, object]]


def some(**keys: st.SearchStrategy[object]) -> Keys:
    """Mappings with any of these keys."""
    return st.fixed_dictionaries({}, optional=keys)


def class_texts(fault_class: FaultClass) -> Keys:
    highest = CEILINGS.index(HIGHEST.get(fault_class, "NoExecute"))
    return some(
        mode=st.sampled_from(MODES),
        ceiling=st.sampled_from(CEILINGS[: highest + 1]),
        settle=durations,
        soak=durations,
        patient=st.booleans(),
        sticky=st.booleans(),
        repeat=some(count=st.integers(1, 9)),
        probation=durations,
        evict=some(
            within=durations,
            then=st.sampled_from(["NoExecute", "wait"]),
            extendedResources=st.sampled_from(["wait", "delete"]),
        ),
    )


classes = some(**{name: class_texts(name) for name in SEVERITY})
override = some(
    match=st.sampled_from([{"node": "a*"}, {"pool": ["p", "q"], "deviceClass": "c"}]),
    defaults=some(mode=st.sampled_from(MODES), soak=durations),
    classes=classes,
)
files = some(classes=classes, overrides=st.lists(override, max_size=3))


def written(row: Row) -> dict[str, object]:
    """Return a row as a file would spell it out."""
    return {
        "mode": row.mode,
        "ceiling": row.ceiling,
        "settle": spell(row.settle),
        "soak": spell(row.soak),
        "patient": row.patient,
        "sticky": row.sticky,
        "repeat": {"count": row.repeat.count, "within": spell(row.repeat.within)},
        "probation": spell(row.probation),
        "evict": {
            "within": spell(row.evict.within),
            "then": row.evict.then,
            "extendedResources": row.evict.extended_resources,
        },
    }


@settings(deadline=None)
@given(files)
def test_an_accepted_file_spelled_out_row_by_row_is_the_same_policy(
    file: dict[str, object],
) -> None:
    with suppress(PolicyError):
        policy = read(msgspec.json.encode(file))
        spelled_out = {row.fault_class: written(row) for row in policy.rows}
        again = read(msgspec.json.encode({"classes": spelled_out}))
        assert [written(row) for row in again.rows] == [written(row) for row in policy.rows]


names = st.sampled_from(["", "a1", "b"])
several = st.frozensets(st.sampled_from(["p", "q", "c", "d"]))
pools = st.frozensets(st.tuples(names, st.sampled_from(["p", "q", "r"])))


@settings(deadline=None)
@given(files, st.builds(Place, node=names, pools=pools, device_classes=several))
def test_an_accepted_file_has_a_sensible_row_for_every_place(
    file: dict[str, object], place: Place
) -> None:
    """A row that releases before it has judged cannot be made, so this raises when one would."""
    with suppress(PolicyError):
        policy = read(msgspec.json.encode(file))
        try:
            found = [policy.row(fault, place) for fault in SEVERITY]
        except PolicyError as error:
            raise AssertionError(f"accepted, and then refused at {place}") from error
        assert all(row.soak > row.settle for row in found)


damage = st.tuples(st.integers(0, len(EXAMPLE) - 1), st.integers(0, 255), st.integers(0, 3))


@settings(deadline=None)
@given(st.lists(damage, min_size=1, max_size=8))
@example([(EXAMPLE.index("soak"), 0, 0)])
def test_a_damaged_file_is_a_policy_or_a_policy_error_and_nothing_else(
    damages: list[tuple[int, int, int]],
) -> None:
    text = bytearray(EXAMPLE.encode())
    for place, byte, length in damages:
        text[place : place + length] = bytes([byte])
    with suppress(PolicyError):
        read(bytes(text))


@settings(deadline=None)
@given(st.text(max_size=60))
@example('a: "\\UFFFFFFFF"')
@example("a: " + "9" * 5000)
@example("[" * 5000)
@example("a: !<")
@example('"\\ud800": 1')
@example('exempt: [{nodes: "\\ud800", why: "\\udfff"}]')
@example("budget: {evict: {node: " + "9" * 4000 + "}}")
@example("classes: {gpu: &a {mode: off}, lost: *a}")
@example("a: &a 1\nb: &a 2")
def test_no_text_at_all_raises_anything_else(text: str) -> None:
    with suppress(PolicyError):
        read(text)


@given(st.timedeltas(timedelta(), timedelta(days=89)))
def test_a_length_of_time_is_read_back_as_it_was_spelled(time: timedelta) -> None:
    whole = time // timedelta(milliseconds=1) * timedelta(milliseconds=1)

    assert duration(spell(time)) == whole
