"""Which row holds where: overrides, the mildest of several, exemptions, pauses."""

from datetime import UTC, datetime, time, timedelta
from itertools import permutations
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.diagnose.fault import SEVERITY
from remediator.policy.load import read
from remediator.policy.place import Place
from remediator.policy.table import (
    CEILINGS,
    MODES,
    SHIPPED,
    Evict,
    Policy,
    Repeat,
    Row,
    mildest_row,
)
from remediator.policy.windows import Weekly
from tests.remediator.builders import T0, at


def place(node: str = "node-a", *classes: str, **fields: Any) -> Place:
    standard: dict[str, Any] = {
        "pools": frozenset({("gpu.nvidia.com", node)}),
        "devices": frozenset({"GPU-1", "MIG-1"}),
        "device_classes": frozenset(classes),
    }
    return Place(node=node, **(standard | fields))


OVERRIDES = """
defaults: {mode: enforce}
classes: {gpu: {soak: 20m}}
overrides:
  - match: {node: "rack7-*"}
    defaults: {mode: incident-only}
  - match: {deviceClass: [small, tiny]}
    classes: {gpu: {ceiling: NoSchedule, soak: 1h}}
  - match: {node: rack7-canary, driver: gpu.nvidia.com}
    classes: {gpu: {mode: dry-run}}
"""


@pytest.mark.parametrize(
    ("where", "mode", "ceiling", "name"),
    [
        (Place(), "enforce", "NoExecute", "defaults, classes.gpu"),
        (place(), "enforce", "NoExecute", "defaults, classes.gpu"),
        (place("rack7-1"), "incident-only", "NoExecute", "overrides[0]"),
        (place("node-a", "tiny"), "enforce", "NoSchedule", "overrides[1]"),
        (place("rack7-canary"), "dry-run", "NoExecute", "overrides[2]"),
        (place("rack7-canary", pools=frozenset({("x", "p")})), "incident-only", "NoExecute", None),
        (place("rack7-canary", "small"), "dry-run", "NoSchedule", "overrides[2]"),
    ],
)
def test_overrides_that_match_apply_in_order_and_the_last_one_gives_its_name(
    where: Place, mode: str, ceiling: str, name: str | None
) -> None:
    row = read(OVERRIDES).row("gpu", where)

    assert (row.mode, row.ceiling) == (mode, ceiling)
    assert name is None or row.name == name


def test_a_gpu_shared_by_two_classes_gets_the_mildest_of_both_field_by_field() -> None:
    policy = read(
        """
        overrides:
          - match: {deviceClass: training}
            classes: {gpu: {mode: enforce, ceiling: NoSchedule, soak: 20m}}
          - match: {deviceClass: serving}
            classes: {gpu: {mode: dry-run, sticky: true, repeat: {count: 2}}}
        """
    )

    row = policy.row("gpu", place("n", "training", "serving"))

    assert (row.mode, row.ceiling) == ("dry-run", "NoSchedule")
    assert (row.soak, row.sticky, row.repeat.count) == (timedelta(minutes=20), True, 2)
    assert row.name == "the mildest of overrides[0] and overrides[1]"


def test_a_class_that_the_file_does_not_have_is_a_candidate_too() -> None:
    """Whoever claims a shared GPU through another class has not agreed to be evicted."""
    policy = read("overrides: [{match: {deviceClass: a}, classes: {gpu: {mode: enforce}}}]")

    assert policy.row("gpu", place("n", "a")).mode == "enforce"
    assert policy.row("gpu", place("n", "a", "b")).mode == "incident-only"


def test_what_is_not_claimed_matches_no_pattern_of_a_class_not_even_any() -> None:
    policy = read("overrides: [{match: {deviceClass: '*'}, classes: {gpu: {mode: enforce}}}]")

    assert policy.row("gpu", place("n")).mode == "incident-only"
    assert policy.row("gpu", place("n", "a")).mode == "enforce"


class TestTwoPools:
    """Another driver publishes the GPU as well."""

    BOTH = place(pools=frozenset({("d", "p1"), ("d", "p2")}))
    POLICY = read(
        """
        overrides:
          - match: {pool: p1}
            classes: {gpu: {mode: enforce, soak: 20m, sticky: false}}
          - match: {pool: p2}
            classes: {gpu: {mode: dry-run, soak: 30m, sticky: true}}
        exempt: [{pools: p2, why: burn-in}]
        """
    )

    def test_are_each_under_their_own_row(self) -> None:
        modes = [self.POLICY.row("gpu", self.BOTH.within("d", pool)).mode for pool in ("p1", "p2")]

        assert modes == ["enforce", "incident-only"]

    def test_make_the_whole_as_strong_as_the_stronger_and_else_as_mild_as_the_milder(self) -> None:
        row = self.POLICY.row("gpu", self.BOTH)

        assert (row.mode, row.name) == ("enforce", "overrides[0]")
        assert (row.soak, row.sticky) == (timedelta(minutes=30), True)


@pytest.mark.parametrize(
    ("entry", "held"),
    [
        ("devices: GPU-1", True),
        ("devices: [GPU-9, MIG-1]", True),
        ("devices: GPU-9", False),
        ("nodes: 'node-*'", True),
        ("nodes: node", False),
        ("pools: node-a", True),
        ("pools: '*'", True),
    ],
)
def test_an_exemption_holds_by_uuid_node_or_pool(entry: str, held: bool) -> None:
    policy = read(f"defaults: {{mode: enforce}}\nexempt: [{{{entry}, why: burn-in}}]")

    row = policy.row("gpu", place())

    assert (row.mode == "incident-only") == held
    assert (row.name == "exempt[0]: burn-in") == held


def test_an_exemption_raises_nothing() -> None:
    policy = read("defaults: {mode: off}\nexempt: [{nodes: '*', why: x}]")

    assert policy.row("gpu", place()).mode == "off"


def test_an_exemption_ends_with_its_until() -> None:
    policy = read(
        "defaults: {mode: enforce}\nexempt: [{nodes: '*', why: x, until: 2026-01-05T12:00:00Z}]"
    )

    assert policy.at(at(-1)) is policy
    assert policy.at(T0).row("gpu", place()).mode == "enforce"


SPARED = "defaults: {mode: enforce}\nexempt: [{devices: GPU-1, why: burn-in}]"
ON_RACK_7 = "overrides: [{match: {node: 'rack7-*'}, classes: {gpu: {mode: enforce}}}]"


@pytest.mark.parametrize(
    ("before", "after", "here", "elsewhere"),
    [
        pytest.param("", "defaults: {mode: enforce}", True, True, id="a mode is raised"),
        pytest.param("defaults: {mode: enforce}", "", False, False, id="a mode is lowered"),
        pytest.param("", "classes: {gpu: {settle: 1s}}", True, True, id="less is waited for"),
        pytest.param("", "classes: {gpu: {settle: 9s}}", False, False, id="more is waited for"),
        pytest.param("classes: {gpu: {sticky: true}}", "", True, True, id="no user is needed"),
        pytest.param(
            "classes: {gpu: {evict: {within: 1h}}}", "", True, True, id="no eviction comes first"
        ),
        pytest.param("", "classes: {gpu: {ceiling: NoExecute}}", False, False, id="as shipped"),
        pytest.param(
            "", "budget: {evict: {node: 9}}\nemergency_stop: false", False, False, id="a budget"
        ),
        pytest.param(
            SPARED, SPARED.replace("burn-in", "a long burn-in"), False, False, id="another reason"
        ),
        pytest.param("defaults: {mode: enforce}", SPARED, False, False, id="a GPU is spared"),
        pytest.param(SPARED, "defaults: {mode: enforce}", True, False, id="it is no more"),
        pytest.param(
            SPARED,
            "defaults: {mode: enforce}\nexempt: [{nodes: node-a, why: x}]",
            False,
            False,
            id="it is still, by another line",
        ),
        pytest.param(
            "", ON_RACK_7.replace("rack7-*", "node-a"), True, False, id="an override raises it"
        ),
        pytest.param("", ON_RACK_7, False, False, id="an override of other nodes"),
    ],
)
def test_a_policy_permits_more_than_another_only_where_it_is_stronger(
    before: str, after: str, *, here: bool, elsewhere: bool
) -> None:
    old, new = read(before or "{}"), read(after or "{}")
    other = place("node-b", devices=frozenset({"GPU-2"}))

    assert (new.permits_more(old, place()), new.permits_more(old, other)) == (here, elsewhere)
    assert new.may_permit_more(old) or not (here or elsewhere)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("defaults: {mode: enforce}", SPARED),
        (SPARED, SPARED.replace("burn-in", "a long burn-in")),
        (SPARED, SPARED.replace("why:", "until: 2026-01-05T12:00:00Z, why:")),
        ("defaults: {mode: enforce}", "{}"),
        (
            SPARED,
            SPARED.replace("[{devices", "[{nodes: node-b, why: x}, {devices"),
        ),
    ],
    ids=["a GPU is spared", "another reason", "until a date", "milder", "another place of a line"],
)
def test_what_permits_more_nowhere_is_known_without_a_place(before: str, after: str) -> None:
    assert not read(after).may_permit_more(read(before))


WINDOWS = """
maintenance:
  - {name: swap, nodes: "rack7-*", from: "2026-01-05T12:00:00+01:00", until: 2026-01-05T13:00:00Z}
  - name: patch
    pools: "*"
    weekly: {day: sun, start: "22:00", duration: 8h, timezone: Europe/Berlin}
"""


@pytest.mark.parametrize(
    ("node", "now", "paused"),
    [
        ("rack7-1", "2026-01-05T10:59:59+00:00", ""),
        ("rack7-1", "2026-01-05T11:00:00+00:00", "'swap' until 2026-01-05T13:00:00Z"),
        ("rack7-1", "2026-01-05T13:00:00+00:00", ""),
        ("rack8-1", "2026-01-05T12:00:00+00:00", ""),
        ("rack8-1", "2026-01-04T20:59:59+00:00", ""),
        ("rack8-1", "2026-01-04T21:00:00+00:00", "'patch' until 2026-01-05T05:00:00Z"),
        ("rack8-1", "2026-01-05T04:59:59+00:00", "'patch' until 2026-01-05T05:00:00Z"),
        ("rack8-1", "2026-01-05T05:00:00+00:00", ""),
        ("rack8-1", "2026-07-05T20:00:00+00:00", "'patch' until 2026-07-06T04:00:00Z"),
    ],
)
def test_a_window_pauses_its_places_while_it_is_open(node: str, now: str, paused: str) -> None:
    policy = read(WINDOWS)

    assert policy.why_paused(place(node), datetime.fromisoformat(now)) == (
        f"maintenance window {paused}" if paused else ""
    )
    assert (policy.pause_end(place(node), datetime.fromisoformat(now)) is not None) == bool(paused)


def test_a_weekly_window_of_nearly_a_week_is_still_open_on_its_own_day() -> None:
    """On Sunday morning last Sunday's is open and this one's has not begun."""
    long = Weekly(day=6, start=time(22), duration=timedelta(hours=166))

    assert long.open_until(
        datetime.fromisoformat("2026-01-11T10:00:00+00:00")
    ) == datetime.fromisoformat("2026-01-11T20:00:00+00:00")
    assert long.open_until(datetime.fromisoformat("2026-01-11T21:00:00+00:00")) is None


@given(
    day=st.integers(0, 6),
    start=st.times(),
    minutes=st.integers(1, 7 * 24 * 60 - 1),
    now=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001 - hypothesis adds the zone
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
)
def test_a_weekly_window_is_open_at_its_start_and_closed_at_its_end(
    day: int, start: time, minutes: int, now: datetime, zone: str
) -> None:
    window = Weekly(
        day=day,
        start=start.replace(tzinfo=None, fold=0),
        duration=timedelta(minutes=minutes),
        zone=ZoneInfo(zone),
    )
    moment = now.replace(tzinfo=UTC)

    ends = window.open_until(moment)

    if ends is not None:
        assert moment < ends <= moment + window.duration
        last = window.open_until(ends - timedelta(microseconds=1))
        # A week in which clocks go forward has 167 hours: a longer window meets its next one.
        meets = minutes > 167 * 60 and last is not None and last > ends
        assert last == ends or meets
        assert window.open_until(ends) != ends


rows = st.builds(
    Row,
    fault_class=st.just("gpu"),
    mode=st.sampled_from(MODES),
    ceiling=st.sampled_from(CEILINGS),
    settle=st.timedeltas(timedelta(), timedelta(seconds=9)),
    soak=st.timedeltas(timedelta(seconds=10), timedelta(hours=1)),
    patient=st.booleans(),
    sticky=st.booleans(),
    repeat=st.builds(Repeat, st.integers(1, 5), st.timedeltas(timedelta(), timedelta(days=9))),
    probation=st.timedeltas(timedelta(), timedelta(days=9)),
    evict=st.builds(
        Evict,
        within=st.sampled_from([timedelta(), timedelta(minutes=1), timedelta(minutes=9)]),
        then=st.sampled_from(["NoExecute", "wait"]),
        extended_resources=st.sampled_from(["wait", "delete"]),
    ),
    name=st.sampled_from(["classes.gpu", "overrides[0]", "overrides[1]"]),
)


@given(st.lists(rows, min_size=2, max_size=4))
def test_the_mildest_does_not_depend_on_the_order_and_is_milder_than_each(
    several: list[Row],
) -> None:
    found = mildest_row(several)

    assert {mildest_row(list(order)) for order in permutations(several)} == {found}
    for row in several:
        assert MODES.index(found.mode) <= MODES.index(row.mode)
        assert CEILINGS.index(found.ceiling) <= CEILINGS.index(row.ceiling)
        assert found.settle >= row.settle
        assert found.evict.within >= row.evict.within
        assert row.evict.then != "wait" or found.highest != "NoExecute"
        assert row.evict.extended_resources != "wait" or found.evict.extended_resources == "wait"
        assert found.soak >= row.soak
        assert found.probation >= row.probation


@given(rows, rows)
def test_of_two_rows_one_permits_more_unless_they_are_alike_but_for_texts(
    one: Row, other: Row
) -> None:
    first, second = (
        Policy(rows=tuple(row if old.fault_class == "gpu" else old for old in SHIPPED))
        for row in (one, other)
    )
    stronger = (first.may_permit_more(second), second.may_permit_more(first))

    assert any(stronger) == (first.without_texts() != second.without_texts())


@given(st.sampled_from(SEVERITY), st.sampled_from(MODES))
def test_an_exempt_device_is_always_below_enforce(fault_class: str, mode: str) -> None:
    policy = read(
        f"""
        defaults: {{mode: {mode}}}
        overrides:
          - match: {{node: "*"}}
            classes: {{{fault_class}: {{mode: enforce}}}}
        exempt: [{{devices: GPU-1, why: x}}]
        """
    )

    for row in SHIPPED:
        assert MODES.index(policy.row(row.fault_class, place()).mode) <= 1


def test_every_shipped_class_is_harmless_and_says_why() -> None:
    for row in Policy().rows:
        assert row.mode == "incident-only"
        assert row.why
    assert Policy().row("memory").sticky
    assert Policy().row("pending").ceiling == "observe"
