"""The metrics page: what the table promises is there, and it means what it says."""

import os
import subprocess
import sys
from collections.abc import Mapping
from math import isnan
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from remediator.controller.metric_table import FAMILIES
from remediator.controller.metrics import Metrics, Reading
from remediator.plan.node_decision import decide_node
from remediator.plan.view import Fleet
from remediator.policy.fingerprint import name_of
from remediator.policy.table import Policy
from tests.remediator.builders import at, dead, gpu, policy, uuid, view

ROOT = Path(__file__).parents[3]


def reading(**changed: object) -> Reading:
    quiet: dict[str, object] = {
        "leading": True,
        "queued": 3,
        "queue_age": 1.5,
        "watch_ages": {"nodes": 2.0},
        "untrusted": {"slices": True, "claims": False},
        "undecodable": 0,
        "rules_served": True,
        "rules_without_status": 0,
        "evictions": {"granted": 2, "refused": 1},
    }
    return Reading(**{**quiet, **changed})  # type: ignore[arg-type] - by name, as in the table


def samples(metrics: Metrics) -> Mapping[tuple[str, ...], float]:
    """Values by name, without prefix, and the values of the labels in the order of their names."""
    page = metrics.page(openmetrics=False).decode()
    return {
        (sample.name.removeprefix("draguard_remediator_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_every_family_of_the_table_is_on_the_page() -> None:
    page = Metrics("1.2").page(openmetrics=False).decode()
    for family in FAMILIES:
        assert f"# TYPE {family.full_name} {family.kind}\n" in page


def test_a_moment_is_shown_as_it_is_and_answers_add_up() -> None:
    metrics = Metrics("1.2")
    metrics.set_reading(reading())
    metrics.set_reading(reading(leading=False, evictions={"granted": 5, "refused": 1}))
    for status in (200, 200, 409, None):
        metrics.count_answer("PATCH", status)
    shown = samples(metrics)

    assert shown["leader",] == 0
    assert shown["queue_nodes",] == 3
    assert shown["watch_age_seconds", "nodes"] == 2
    assert shown["collection_untrusted", "slices"] == 1
    assert shown["collection_untrusted", "claims"] == 0
    assert shown["evictions_total", "granted"] == 5
    assert shown["evictions_total", "refused"] == 1
    assert shown["api_requests_total", "200", "PATCH"] == 2
    assert shown["api_requests_total", "none", "PATCH"] == 1
    assert shown["build_info", "1.2"] == 1


def test_where_rules_have_no_status_nothing_is_reported_of_it() -> None:
    metrics = Metrics()
    metrics.set_reading(reading(rules_without_status=None))
    unknown = samples(metrics)["rule_status_missing",]

    assert unknown != unknown  # noqa: PLR0124 - NaN


def test_what_cannot_be_tainted_and_who_ignores_taints_is_counted() -> None:
    metrics = Metrics()
    seen = view(dead(0), gpu(1), unbound={uuid(0): "by nodeSelector"}, inventory=())
    metrics.count_decision(decide_node(seen, Fleet(), policy(), at(60)))
    metrics.set_totals((), ())
    assert samples(metrics)["gpus_not_taintable",] == 1
    assert samples(metrics)["taint_ignored_claims",] == 0
    metrics.forget(())
    metrics.set_totals((), ())
    assert samples(metrics)["gpus_not_taintable",] == 0


def test_verdicts_and_what_is_held_are_counted_by_node_and_forgotten_with_it() -> None:
    metrics = Metrics()
    rows = policy(mode="enforce")
    seen = view(dead(0), gpu(1))
    metrics.count_decision(decide_node(seen, Fleet(), rows, at(60)))
    metrics.set_totals((), ())
    assert samples(metrics)["gpus", "sick"] == 1
    assert samples(metrics)["gpus", "healthy"] == 1

    stopped = Fleet(stopped="a person")
    metrics.count_decision(decide_node(seen, stopped, rows, at(60)))
    metrics.set_totals((), ())
    assert samples(metrics)["deferred_gpus", "EmergencyStop"] == 1

    metrics.forget(())
    metrics.set_totals((), ())
    assert samples(metrics)["gpus", "sick"] == 0


def test_the_policy_in_force_has_a_name_of_its_own_and_tells_each_class() -> None:
    metrics = Metrics()
    metrics.set_policy(Policy())
    first = {key[1] for key in samples(metrics) if key[0] == "policy_info"}
    metrics.set_policy(policy(mode="enforce"))
    shown = samples(metrics)

    assert {key[1] for key in shown if key[0] == "policy_info"} != first
    assert shown["policy_info", name_of(policy(mode="enforce"))] == 1
    assert shown["policy_mode", "gpu", "enforce"] == 1
    assert ("policy_mode", "gpu", "incident-only") not in shown


EXEMPTED = """
from remediator.controller.metrics import name_of
from remediator.policy.load import read
devices = [f"GPU-{one}aaaaaaa-0000-0000-0000-000000000000" for one in "0123456789"]
named = ", ".join(devices)
print(name_of(read(f"exempt: [{{devices: [{named}], why: a test}}]".encode())))
"""


def test_every_replica_gives_a_policy_the_same_name() -> None:
    """Each process has its own order of what is in a set."""

    def named(seed: str) -> str:
        reported = subprocess.run(
            [sys.executable, "-c", EXEMPTED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return reported.stdout.strip()

    names = {named(seed) for seed in ("1", "2", "3")}
    assert [len(name) for name in names] == [12]


def test_a_clock_that_is_ahead_is_shown_and_one_that_was_not_compared_has_no_value() -> None:
    metrics = Metrics("1.2")
    metrics.set_reading(reading(clock_ahead=42.0))
    assert samples(metrics)["clock_ahead_seconds",] == 42.0

    metrics.set_reading(reading(clock_ahead=None))

    assert isnan(samples(metrics)["clock_ahead_seconds",])
