"""The state of a GPU, computed by the real promtool: not knowing is never health."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dashboards import fleet, health
from dashboards.boards import panels
from dashboards.promql import FLEET, numbered
from tests.dashboards.queried import ALWAYS, assert_answers

PAGE = 'instance="a:9400"'
GPU = f'{PAGE}, Hostname="node-a", UUID="GPU-1"'
UNTIL_FIVE_MINUTES = "1x10 stale"
NOW = "0+30x400"
"""A timestamp that goes on with the time."""

WELL: Mapping[str, str] = {
    f"draguard_snapshot_timestamp_seconds{{{PAGE}}}": NOW,
    f'draguard_gpu_info{{{GPU}, gpu="0", presence="Present"}}': ALWAYS,
    f"draguard_gpu_up{{{GPU}}}": ALWAYS,
    f"draguard_gpu_recovery_action{{{GPU}}}": "0x400",
    'draguard_agent_stale{instance="r:9401", node="node-a"}': "0x400",
}
INFO, UP = list(WELL)[1:3]
STORY = 'incident="one", node="node-a", UUID="GPU-1"'


def phase(word: str, replica: str = "r") -> str:
    return f'draguard_incident_phase{{instance="{replica}:9401", {STORY}, phase="{word}"}}'


def incident(*phases: str, of_class: str = "gpu") -> dict[str, str]:
    """An incident that is open, as each replica tells it; the first phase is the leader's."""
    reported: dict[str, str] = {}
    for replica, word in zip("rs", phases, strict=False):
        reported[phase(word, replica)] = ALWAYS
        page = f'instance="{replica}:9401", {STORY}, class="{of_class}"'
        reported[f"draguard_incident_info{{{page}}}"] = ALWAYS
    return reported


def of(*without: str) -> dict[str, str]:
    """What is reported of a healthy GPU, without some of it."""
    return {name: values for name, values in WELL.items() if name not in without}


def another_gpu() -> dict[str, str]:
    """What is reported of a second healthy GPU of the node."""
    return {name.replace("GPU-1", "GPU-2"): values for name, values in WELL.items()}


def silent() -> dict[str, str]:
    """What is reported when the exporter is killed after five minutes."""
    ends = {NOW: "0+30x10 stale", ALWAYS: UNTIL_FIVE_MINUTES, "0x400": "0x10 stale"}
    return {
        name: reported if name.startswith("draguard_agent_stale") else ends[reported]
        for name, reported in WELL.items()
    }


LOST_INFO = INFO.replace("Present", "Lost").replace('gpu="0"', 'gpu=""')
"""A lost GPU has no number any more."""
RENUMBERED_INFO = INFO.replace('gpu="0"', 'gpu="6"')
UNKNOWN_INFO = INFO.replace("Present", "Unknown")
GONE = f'draguard_gpu_up{{{GPU}, reason="GpuIsLost"}}'
ACTION = f"draguard_gpu_recovery_action{{{GPU}}}"

CASES: Mapping[str, tuple[dict[str, str], health.State]] = {
    "it answers and nothing is wrong": (of(), health.HEALTHY),
    "it fell off the bus": (of(INFO, UP) | {LOST_INFO: ALWAYS, GONE: "0x400"}, health.LOST),
    "it hangs every call": (
        of(INFO, UP) | {UNKNOWN_INFO: ALWAYS, GONE: "0x400"},
        health.LOST,
    ),
    "the driver wants a reset": (of() | {ACTION: ALWAYS}, health.SICK),
    "an incident has tainted it": (of() | incident("Tainted"), health.SICK),
    "it is tainted and its exporter is dead": (
        silent() | incident("Tainted"),
        health.SICK,
    ),
    "a person has to look": (of() | incident("NeedsHuman"), health.SICK),
    "both replicas tell of it, one of them late": (
        of() | incident("Tainted", "Evicting"),
        health.SICK,
    ),
    "it soaks": (of() | incident("Verifying"), health.WATCHED),
    "a fault is seen and the policy does nothing": (of() | incident("Suspected"), health.SICK),
    "its programs are suspect": (
        of() | incident("Suspected", of_class="suspect"),
        health.WATCHED,
    ),
    "a reset when convenient is due": (
        of() | incident("Suspected", of_class="pending"),
        health.WATCHED,
    ),
    "it soaks, and the other replica is late": (
        of() | incident("Verifying", "Repairing"),
        health.SICK,
    ),
    "its exporter was killed": (silent(), health.GONE_SILENT),
    "its page is not renewed": (
        of() | {f"draguard_snapshot_timestamp_seconds{{{PAGE}}}": "0+30x10 300x390"},
        health.OLD,
    ),
    "its agent's Lease has run out": (
        of() | {'draguard_agent_stale{instance="r:9401", node="node-a"}': ALWAYS},
        health.OLD,
    ),
    "NVML is away": (of(INFO, UP) | {UNKNOWN_INFO: ALWAYS}, health.UNCERTAIN),
    "there is no word on whether it answers": (of(UP), health.UNCERTAIN),
    "the agent is stale where it soaks": (
        of()
        | {
            **incident("Verifying"),
            'draguard_agent_stale{instance="r:9401", node="node-a"}': ALWAYS,
        },
        health.OLD,
    ),
}


@pytest.mark.parametrize(("series", "state"), CASES.values(), ids=list(CASES))
def test_a_gpu_is_in_the_worst_state_that_is_known_of_it(
    series: dict[str, str], state: health.State, prometheus_built: Path
) -> None:
    expected = {'{Hostname="node-a", UUID="GPU-1"}': state.number}

    assert_answers(prometheus_built, fleet.DASHBOARD, health.state(FLEET), series, expected)


def test_an_exporter_killed_an_hour_ago_leaves_nothing_that_could_look_well(
    prometheus_built: Path,
) -> None:
    expr = health.state(FLEET)

    assert_answers(prometheus_built, fleet.DASHBOARD, expr, silent(), {}, at="70m")


LOOKED_FOR = f"up{{{PAGE}}}"
"""Where Prometheus still has the exporter as a target."""
LATER = "3h"


def killed_after_75_minutes(more: dict[str, str] | None = None) -> dict[str, str]:
    ends = {NOW: "0+30x150 stale", ALWAYS: "1x150 stale", "0x400": "0x150 stale"}
    return {name: ends[reported] for name, reported in WELL.items()} | (more or {})


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({LOOKED_FOR: "1x150 0x250"}, health.GONE_SILENT),
        ({LOOKED_FOR: "1x150 0x250"} | incident("Tainted"), health.SICK),
        (incident("Tainted"), health.SICK),
    ],
    ids=["its target is still there", "and it is tainted", "its node is gone, and it is tainted"],
)
def test_a_gpu_that_is_still_expected_is_missed_by_name_for_longer_than_an_hour(
    more: dict[str, str], state: health.State, prometheus_built: Path
) -> None:
    series = killed_after_75_minutes(more)
    expected = {'{Hostname="node-a", UUID="GPU-1"}': state.number}

    expr = health.state(FLEET)
    assert_answers(prometheus_built, fleet.DASHBOARD, expr, series, expected, at=LATER)


def test_a_gpu_that_was_taken_away_with_its_node_is_forgotten(prometheus_built: Path) -> None:
    series = killed_after_75_minutes({LOOKED_FOR: "1x150 stale"})

    assert_answers(prometheus_built, fleet.DASHBOARD, health.state(FLEET), series, {}, at=LATER)


def test_an_exporter_that_died_hours_ago_is_still_down(prometheus_built: Path) -> None:
    built = f"draguard_exporter_build_info{{{PAGE}}}"
    series = {LOOKED_FOR: "1x150 0x250", built: "1x150 stale"}

    expr = COUNTS["Exporters down"]
    assert_answers(prometheus_built, fleet.DASHBOARD, expr, series, {"{}": 1}, at=LATER)


@pytest.mark.parametrize(
    ("info", "number"),
    [
        ({INFO: "1x150 stale", LOST_INFO: "_x150 1x250"}, "0"),
        ({INFO: "1x340 stale", RENUMBERED_INFO: "_x340 1x60"}, "6"),
        ({RENUMBERED_INFO: "1x340 stale", INFO: "_x340 1x60"}, "0"),
        ({LOST_INFO: ALWAYS}, "?"),
    ],
    ids=["lost hours ago", "its number grew", "its number fell", "it never had a number"],
)
def test_a_gpu_is_called_by_the_latest_number_that_it_had(
    info: dict[str, str], number: str, prometheus_built: Path
) -> None:
    """Whoever has to act knows it by that number."""
    series = of(INFO, UP) | info | {GONE: "0x400"}
    expected = {f'{{Hostname="node-a", UUID="GPU-1", GPU="{number}"}}': health.LOST.number}

    expr = numbered(health.state(FLEET), FLEET)
    assert_answers(prometheus_built, fleet.DASHBOARD, expr, series, expected, at=LATER)


def test_the_list_of_what_is_not_well_leaves_out_none_for_want_of_a_number(
    prometheus_built: Path,
) -> None:
    listed = COUNTS["GPUs that are not healthy"]
    nameless = of(INFO, UP) | {LOST_INFO: ALWAYS, GONE: "0x400"}
    lost, sick = (f'{{Hostname="node-a", UUID="GPU-1"{gpu}}}' for gpu in ("", ', GPU="0"'))

    for series, expected in (
        (nameless, {lost: health.LOST.number}),
        (incident("Tainted"), {lost: health.SICK.number}),
        (of() | {ACTION: ALWAYS}, {sick: health.SICK.number}),
        (of(), {}),
    ):
        assert_answers(prometheus_built, fleet.DASHBOARD, listed, series, expected)


def test_a_node_is_as_its_worst_gpu_is(prometheus_built: Path) -> None:
    series = of() | another_gpu() | {UP.replace("GPU-1", "GPU-2"): "0x400"}

    expr = health.worst_of_nodes(FLEET)
    expected = {'{Hostname="node-a"}': health.LOST.number}
    assert_answers(prometheus_built, fleet.DASHBOARD, expr, series, expected)


def test_a_board_that_moved_is_of_the_node_that_shows_it_and_is_counted_once(
    prometheus_built: Path,
) -> None:
    """So is each GPU of a node that was renamed, or made anew."""
    series = silent() | {
        name.replace("node-a", "node-b").replace("a:9400", "b:9400"): "_x13 "
        + values.replace(NOW, "420+30x380")
        for name, values in WELL.items()
    }
    gone = "draguard_agent_stale"
    series = {name: reported for name, reported in series.items() if not name.startswith(gone)}
    board = {'{Hostname="node-b", UUID="GPU-1"}': health.HEALTHY.number}

    state = health.state(FLEET)
    assert_answers(prometheus_built, fleet.DASHBOARD, state, series, board, at="8m")
    assert_answers(prometheus_built, fleet.DASHBOARD, BY_STATE, series, ONE_IS_WELL, at="8m")
    nodes = f"count by (Hostname) ({health.known(FLEET)})"
    one = {'{Hostname="node-b"}': 1}
    assert_answers(prometheus_built, fleet.DASHBOARD, nodes, series, one, at="8m")


ONE_IS_WELL = {'{state="Healthy"}': 1}


def test_gpus_of_two_clusters_are_not_mixed_up(prometheus_built: Path) -> None:
    """The same names in both, as in two simulated ones, and an incident in one of them."""
    one = {name.replace("{", '{cluster="one", '): values for name, values in WELL.items()}
    two = {name.replace("{", '{cluster="two", '): values for name, values in WELL.items()}
    fault = {
        name.replace("{", '{cluster="two", '): values
        for name, values in incident("Tainted").items()
    }
    expected = {
        '{cluster="one", Hostname="node-a"}': health.HEALTHY.number,
        '{cluster="two", Hostname="node-a"}': health.SICK.number,
    }

    expr = health.worst_of_nodes(FLEET)
    assert_answers(prometheus_built, fleet.DASHBOARD, expr, one | two | fault, expected)


COUNTS = {panel.title: panel.queries[0].expr for panel in panels(fleet.DASHBOARD)}
BY_STATE = COUNTS["GPUs by state"]


@pytest.mark.parametrize(
    ("series", "counted"),
    [
        (of(), {"Healthy": 1}),
        (silent(), {"No data": 1}),
        (of(UP), {"Unknown": 1}),
        (of() | {ACTION: ALWAYS}, {"Sick": 1}),
        (of() | another_gpu(), {"Healthy": 2}),
        (of() | another_gpu() | {ACTION: ALWAYS}, {"Healthy": 1, "Sick": 1}),
    ],
    ids=["well", "exporter killed", "unknown", "sick", "two well", "one of two sick"],
)
def test_the_fleet_counts_each_gpu_once_and_an_unknown_one_as_unknown(
    series: dict[str, str], counted: dict[str, int], prometheus_built: Path
) -> None:
    expected = {f'{{state="{state}"}}': count for state, count in counted.items()}
    assert_answers(prometheus_built, fleet.DASHBOARD, BY_STATE, series, expected)


def test_without_any_exporter_nothing_is_counted_as_0(prometheus_built: Path) -> None:
    for title in ("GPUs by state", "Exporters down"):
        assert_answers(prometheus_built, fleet.DASHBOARD, COUNTS[title], {}, {})


LEADS = {'draguard_remediator_leader{instance="r:9401"}': ALWAYS}
FOLLOWS = {'draguard_remediator_leader{instance="r:9401"}': "0x400"}


def test_no_incident_is_0_only_where_a_leader_would_know_of_one(prometheus_built: Path) -> None:
    expr = COUNTS["Incidents"]

    assert_answers(prometheus_built, fleet.DASHBOARD, expr, LEADS, {"{}": 0})
    assert_answers(prometheus_built, fleet.DASHBOARD, expr, FOLLOWS, {})
    assert_answers(prometheus_built, fleet.DASHBOARD, expr, {}, {})


def test_an_incident_that_both_replicas_tell_of_is_one(prometheus_built: Path) -> None:
    series = LEADS | incident("Tainted", "Tainted")

    assert_answers(prometheus_built, fleet.DASHBOARD, COUNTS["Incidents"], series, {"{}": 1})


def test_an_exporter_that_is_down_is_counted_and_another_job_is_not(
    prometheus_built: Path,
) -> None:
    series = {
        f'up{{job="gpus", {PAGE}}}': "1x10 0x390",
        f'draguard_exporter_build_info{{job="gpus", {PAGE}}}': UNTIL_FIVE_MINUTES,
        'up{job="gpus", instance="b:9400"}': ALWAYS,
        'draguard_exporter_build_info{job="gpus", instance="b:9400"}': ALWAYS,
        'up{job="other", instance="c:80"}': "0x400",
    }

    assert_answers(prometheus_built, fleet.DASHBOARD, COUNTS["Exporters down"], series, {"{}": 1})
