"""Marks on time series, computed by the real promtool: a taint when it was made, a release once."""

from pathlib import Path

import pytest

from dashboards import annotations, fleet
from dashboards.promql import FLEET
from tests.dashboards.queried import ALWAYS, assert_answers

XIDS, TAINTS, RELEASES = annotations.of(FLEET)
STORY = 'incident="one", node="node-a", UUID="GPU-1"'
RULES = f'draguard_incident_rules{{instance="r", {STORY}, effect="NoExecute"}}'
LEADER = 'draguard_remediator_leader{instance="r"}'
FREED = {'{node="node-a", UUID="GPU-1"}': 2}
"""The number of rules that went."""


def test_an_xid_is_marked_at_the_moment_at_which_it_was_seen(prometheus_built: Path) -> None:
    series = {
        'draguard_xid_last_seen_timestamp_seconds{Hostname="n", UUID="GPU-1", code="79"}': "90x40"
    }
    expected = {'{Hostname="n", UUID="GPU-1", code="79"}': 90_000}

    assert XIDS.value_is_time
    assert_answers(prometheus_built, fleet.DASHBOARD, XIDS.expr, series, expected)


def test_a_taint_is_marked_since_when_it_stands(prometheus_built: Path) -> None:
    series = {
        f'draguard_incident_phase{{instance="r", {STORY}, phase="Tainted"}}': ALWAYS,
        f'draguard_incident_phase_since_timestamp_seconds{{instance="r", {STORY}}}': "120x400",
    }

    expected = {f'{{{STORY}, phase="Tainted"}}': 120_000}
    assert_answers(prometheus_built, fleet.DASHBOARD, TAINTS.expr, series, expected)


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ({RULES: "2x18 0x380", LEADER: ALWAYS}, FREED),
        ({RULES: "2x18 stale", LEADER: ALWAYS}, FREED),
        ({RULES: "2x400", LEADER: ALWAYS}, {}),
        ({RULES: "2x18 1x380", LEADER: ALWAYS}, {}),
        ({RULES: "2x18 stale", LEADER: "1x18 stale"}, {}),
        ({RULES: "2x18 stale", LEADER: "1x18 0x380"}, {}),
        ({RULES.replace("NoExecute", "None"): "2x18 stale", LEADER: ALWAYS}, {}),
    ],
    ids=[
        "its rules went",
        "its incident is over",
        "it is tainted",
        "one slice of two went",
        "the remediator died",
        "nobody leads",
        "it was only marked",
    ],
)
def test_a_release_is_marked_when_the_last_taint_goes_and_a_leader_says_so(
    series: dict[str, str], expected: dict[str, float], prometheus_built: Path
) -> None:
    assert_answers(prometheus_built, fleet.DASHBOARD, RELEASES.expr, series, expected)


def test_a_release_is_marked_once(prometheus_built: Path) -> None:
    series = {RULES: "2x18 0x380", LEADER: ALWAYS}

    assert_answers(prometheus_built, fleet.DASHBOARD, RELEASES.expr, series, {}, at="12m")
