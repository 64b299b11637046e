"""What defers everything now is on the page, and 0 while nothing does."""

from datetime import timedelta

import pytest

from remediator.metrics.brakes import brake_rows
from remediator.plan.view import Changed, Fleet
from remediator.policy.limits import LIFTED, Correlation, Limits
from remediator.policy.place import Area
from remediator.policy.table import Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import at
from tests.remediator.plan.fleets import an_incident

WINDOW = Window(name="firmware", area=Area(nodes=("*",)), when=Once(at(0), at(90)))
AFTER = Correlation(after_change=timedelta(minutes=30)).after_change.total_seconds()


def correlation(fleet: Fleet, limits: Limits | None = None, now: float = 0) -> dict[str, float]:
    rows = brake_rows(fleet, Policy(limits=limits or Limits()), at(now))
    return {key[0]: value for key, value in rows["correlation_in_force"].items() if value}


def test_an_ordinary_day_has_every_series_at_0() -> None:
    rows = brake_rows(Fleet(), Policy(), at(0))

    assert rows == {
        "emergency_stop": {(): 0},
        "maintenance_windows_open": {(): 0},
        "correlation_in_force": {
            ("SameCause",): 0,
            ("NodeChanged",): 0,
            ("PolicyChanged",): 0,
        },
    }


@pytest.mark.parametrize(
    ("fleet", "policy"),
    [(Fleet(stopped="ann: driver"), Policy()), (Fleet(), Policy(stopped="emergency_stop"))],
)
def test_an_emergency_stop_is_reported_whoever_set_it(fleet: Fleet, policy: Policy) -> None:
    assert brake_rows(fleet, policy, at(0))["emergency_stop"] == {(): 1}


@pytest.mark.parametrize(("now", "windows"), [(-1, 0), (0, 1), (89, 1), (90, 0)])
def test_a_window_is_reported_from_its_start_to_its_end(now: float, windows: int) -> None:
    rows = brake_rows(Fleet(), Policy(maintenance=(WINDOW,)), at(now))

    assert rows["maintenance_windows_open"] == {(): windows}


def test_a_cause_that_is_new_on_three_nodes_is_one_wave() -> None:
    alike = tuple(an_incident(f"{node}0", opened=at(-60)) for node in "abc")
    two = (an_incident("d0", "xid-79", opened=at(-60)), an_incident("e0", "xid-79", opened=at(-60)))

    assert correlation(Fleet(incidents=(*alike, *two))) == {"SameCause": 1}
    assert correlation(Fleet(incidents=alike), LIFTED) == {}
    assert correlation(Fleet(incidents=alike), now=3600) == {}


def test_a_change_counts_for_as_long_as_it_defers() -> None:
    changes = {
        "node-a": Changed(driver_at=at(0)),
        "node-b": Changed(agent_at=at(0)),
        "c": Changed(),
    }
    fleet = Fleet(changes=changes, policy_changed_at=at(0))

    assert correlation(fleet, now=AFTER - 1) == {"NodeChanged": 2, "PolicyChanged": 1}
    assert correlation(fleet, now=AFTER) == {}
