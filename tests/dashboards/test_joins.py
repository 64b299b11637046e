"""Joins on who holds what, computed by the real promtool: nothing is counted twice."""

from pathlib import Path

from dashboards import claim, device, fleet, incidents, remediation
from dashboards.boards import panels
from dashboards.panel import Dashboard
from dashboards.promql import FLEET, holders, of_holders, of_holders_gpus
from tests.dashboards.queried import ALWAYS, assert_answers

GPU = 'instance="a:9400", Hostname="node-a", UUID="GPU-1"'


def row(claim_name: str, pod: str = "p", *, more: str = "") -> str:
    labels = f'dra_claim_namespace="team", dra_claim_name="{claim_name}", namespace="team"'
    return f'draguard_device_allocation_info{{{GPU}, {labels}, pod="{pod}"{more}}}'


def given(name: str, more: str = "") -> str:
    return f'{{UUID="GPU-1", dra_claim_namespace="team", dra_claim_name="{name}"{more}}}'


def held(name: str, more: str = "") -> str:
    return given(name, f', Hostname="node-a"{more}')


def test_a_claim_that_pods_and_containers_share_holds_a_device_once(
    prometheus_built: Path,
) -> None:
    series = {
        row("one", "p", more=', container="a"'): ALWAYS,
        row("one", "p", more=', container="b"'): ALWAYS,
        row("one", "q"): ALWAYS,
    }

    assert_answers(prometheus_built, fleet.DASHBOARD, holders(), series, {held("one"): 1})


def test_who_only_looks_on_holds_nothing(prometheus_built: Path) -> None:
    series = {
        row("one", more=', admin="false"'): ALWAYS,
        row("exporter", more=', admin="true"'): ALWAYS,
    }

    assert_answers(prometheus_built, fleet.DASHBOARD, holders(), series, {held("one"): 1})


def test_a_device_that_two_claims_share_gives_its_value_to_each(prometheus_built: Path) -> None:
    series = {row("one"): ALWAYS, row("two"): ALWAYS, f"busy{{{GPU}}}": "0.5x400"}
    value = "max by (cluster, Hostname, UUID, GPU_I_ID) (busy)"

    assert_answers(
        prometheus_built,
        fleet.DASHBOARD,
        of_holders(value, holders()),
        series,
        {held("one"): 0.5, held("two"): 0.5},
    )


def test_a_slice_has_its_own_value_and_its_gpus_heat(prometheus_built: Path) -> None:
    slice_5, slice_6 = ', GPU_I_ID="5"', ', GPU_I_ID="6"'
    series = {
        row("one", more=slice_5): ALWAYS,
        row("two", more=slice_6): ALWAYS,
        f"busy{{{GPU}{slice_5}}}": "0.5x400",
        f"busy{{{GPU}{slice_6}}}": "0.1x400",
        f"heat{{{GPU}}}": "70x400",
    }

    own = of_holders("max by (cluster, Hostname, UUID, GPU_I_ID) (busy)", holders())
    shared = of_holders_gpus("max by (cluster, Hostname, UUID) (heat)", holders())
    for expr, one, two in ((own, 0.5, 0.1), (shared, 70, 70)):
        expected = {held("one", slice_5): one, held("two", slice_6): two}
        assert_answers(prometheus_built, fleet.DASHBOARD, expr, series, expected)


def memory(kind: str, name: str, share: str = "") -> str:
    claimed = f'dra_claim_namespace="team", dra_claim_name="{name}", dra_share_id="{share}"'
    return f"draguard_claim_memory_{kind}_bytes{{{GPU}, {claimed}}}"


def queries_of(dashboard: Dashboard, title: str) -> dict[str, str]:
    (panel,) = (candidate for candidate in panels(dashboard) if candidate.title == title)
    return {query.value: query.expr for query in panel.queries}


def test_what_a_claim_was_given_of_a_device_adds_up_over_its_shares(
    prometheus_built: Path,
) -> None:
    series = {
        memory("declared", "one", "a"): "10x400",
        memory("declared", "one", "b"): "20x400",
        memory("used", "one", "a"): "15x400",
        memory("declared", "two", "c"): "40x400",
    }
    requested = queries_of(claim.DASHBOARD, "Devices by claim")
    whole = ', GPU_I_ID="whole GPU"'

    declared = {given("one", whole): 30, given("two", whole): 40}
    assert_answers(prometheus_built, claim.DASHBOARD, requested["given"], series, declared)
    share = {given("one", whole): 0.5}
    assert_answers(prometheus_built, claim.DASHBOARD, requested["share"], series, share)


def test_a_device_is_idle_only_for_who_has_held_it_for_the_whole_hour(
    prometheus_built: Path,
) -> None:
    series = {
        row("old"): ALWAYS,
        row("new"): "_x150 1x250",
        f'DCGM_FI_DEV_GPU_UTIL{{{GPU}, gpu="0"}}': "0x400",
    }
    requested = queries_of(fleet.DASHBOARD, "Allocated but idle")["busy"]

    expected = {held("old", ', gpu="0"'): 0}
    assert_answers(prometheus_built, fleet.DASHBOARD, requested, series, expected, at="90m")


def test_two_replicas_that_differ_for_a_moment_make_no_error_and_one_row(
    prometheus_built: Path,
) -> None:
    story = 'incident="one", node="node-a", UUID="GPU-1"'
    series = {
        f'draguard_incident_opened_timestamp_seconds{{instance="{replica}", {story}}}': "60x400"
        for replica in "rs"
    } | {
        f'draguard_incident_info{{instance="{replica}", {story}, class="lost", cause="xid-79", '
        'scope="GPU"}': ALWAYS
        for replica in "rs"
    }
    table = incidents.table(FLEET)

    expected = {f'{{{story}, GPU="?", class="lost", cause="xid-79", scope="GPU"}}': 540}
    age = {query.value: query.expr for query in table.queries}["age"]
    assert_answers(prometheus_built, fleet.DASHBOARD, age, series, expected)


def test_two_phases_of_one_incident_are_shown_as_one(prometheus_built: Path) -> None:
    series = {
        f'draguard_incident_phase{{instance="{replica}", incident="one", phase="{phase}"}}': ALWAYS
        for replica, phase in (("r", "Tainted"), ("s", "Evicting"))
    }
    table = incidents.table(FLEET)
    phase = {query.value: query.expr for query in table.queries}["in phase"]
    over_time = queries_of(fleet.DASHBOARD, "Open incidents by phase")[""]

    assert_answers(prometheus_built, fleet.DASHBOARD, f"count({phase})", series, {"{}": 1})
    assert_answers(prometheus_built, fleet.DASHBOARD, f"sum({over_time})", series, {"{}": 1})


def test_an_incident_that_two_things_hold_for_a_moment_is_held_once(
    prometheus_built: Path,
) -> None:
    name = 'draguard_incident_deferred{instance="%s", incident="one", reason="%s"}'
    reasons = (("r", "Budget"), ("s", "Human"))
    series = {LEADS: ALWAYS} | {name % both: ALWAYS for both in reasons}
    over_time = queries_of(remediation.DASHBOARD, "Deferred incidents over time")[""]

    requested = f"sum({over_time})"
    assert_answers(prometheus_built, remediation.DASHBOARD, requested, series, {"{}": 1})


LEADS = 'draguard_remediator_leader{instance="r"}'


def test_errors_are_reported_by_number_and_their_absence_by_a_line_of_its_own(
    prometheus_built: Path,
) -> None:
    """Where nobody tells, there is no line of quiet either."""
    counter = f'draguard_nvlink_errors_total{{{GPU}, link="1", kind="replay"}}'
    series = {f'draguard_gpu_info{{{GPU}, gpu="3"}}': ALWAYS, counter: "0+30x400"}
    (panel,) = (
        candidate for candidate in panels(device.DASHBOARD) if candidate.title == "NVLink errors"
    )
    errors, quiet = (
        query.expr.replace("$uuid", "GPU-1").replace("$__rate_interval", "2m")
        for query in panel.queries
    )

    moving = {'{GPU="3", kind="replay"}': 120}
    assert_answers(prometheus_built, fleet.DASHBOARD, errors, series, moving)
    assert_answers(prometheus_built, fleet.DASHBOARD, quiet, series, {"{}": 0})
    still = series | {counter: "30x400"}
    none = {'{GPU="3", kind="replay"}': 0}
    assert_answers(prometheus_built, fleet.DASHBOARD, errors, still, none)
    assert_answers(prometheus_built, fleet.DASHBOARD, quiet, still, {"{}": 0})
    assert_answers(prometheus_built, fleet.DASHBOARD, quiet, {}, {})


def test_the_first_step_of_its_kind_is_seen_and_a_new_pages_history_is_not(
    prometheus_built: Path,
) -> None:
    """`increase` knows nothing of a counter that begins at 1; a page that is new is no news."""
    step = 'draguard_remediator_steps_total{instance="r", step="CreateRule"}'
    page = 'draguard_remediator_build_info{instance="r"}'
    (panel,) = (
        candidate for candidate in panels(remediation.DASHBOARD) if candidate.title == "Steps taken"
    )
    requested = panel.queries[0].expr.replace("$__rate_interval", "2m")
    rule = '{step="CreateRule"}'

    for series, expected in (
        ({page: ALWAYS, step: "_x18 1x300"}, {rule: 1}),
        ({page: ALWAYS, step: "_x18 1 2x300"}, {rule: 2}),
        ({page: ALWAYS, step: "1x400"}, {rule: 0}),
        ({page: "_x18 1x300", step: "_x18 5x300"}, {rule: 0}),
    ):
        assert_answers(prometheus_built, remediation.DASHBOARD, requested, series, expected)


def test_what_replicas_and_classes_closed_is_added_up(
    prometheus_built: Path,
) -> None:
    closed = 'draguard_remediator_incidents_closed_total{instance="%s", class="%s", result="%s"}'
    series = {
        'draguard_remediator_build_info{instance="a"}': ALWAYS,
        'draguard_remediator_build_info{instance="b"}': ALWAYS,
        closed % ("a", "gpu", "Recovered"): "0x18 1x300",
        closed % ("a", "lost", "Recovered"): "0x18 2x300",
        closed % ("b", "gpu", "Recovered"): "0x18 4x300",
        closed % ("b", "gpu", "Closed"): "0x400",
    }
    (panel,) = (
        candidate
        for candidate in panels(remediation.DASHBOARD)
        if candidate.title == "Incidents closed"
    )
    requested = panel.queries[0].expr.replace("$__rate_interval", "2m")

    expected = {'{result="Recovered"}': 7, '{result="Closed"}': 0}
    assert_answers(prometheus_built, remediation.DASHBOARD, f"round({requested})", series, expected)


def test_a_decision_that_was_not_made_took_no_time_and_not_some_unknown_one(
    prometheus_built: Path,
) -> None:
    buckets = 'draguard_remediator_reconcile_duration_seconds_bucket{instance="r", le="%s"}'
    none = {buckets % "0.1": "7x400", buckets % "+Inf": "7x400"}
    some = {buckets % "0.1": "0+30x400", buckets % "+Inf": "0+30x400"}
    (panel,) = (
        candidate
        for candidate in panels(remediation.DASHBOARD)
        if candidate.title == "Reconcile duration"
    )
    median = panel.queries[0].expr.replace("$__rate_interval", "2m")

    assert_answers(prometheus_built, remediation.DASHBOARD, median, none, {})
    assert_answers(prometheus_built, remediation.DASHBOARD, median, some, {"{}": 0.05})
