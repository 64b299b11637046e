"""Lints of the rules: those of mixtool and pint, and those of this project."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import promql_parser as promql
import pytest

from alerts.render import annotations
from alerts.rule import Alert, Group, Recording, Settings, Severity
from alerts.table import GROUPS, alerts, recorded
from alerts.thresholds import WATCH_AGE
from dashboards.catalogue import BOARDS
from kubeapi.distrust import WATCH_SILENT
from tests.alerts.rules_reading import expressions, nodes, queried_in_texts
from tests.dashboards.known import FAMILIES_KNOWN, LABELS, SCRAPED, Known
from tests.dashboards.promql_reading import named_labels, selectors

ROOT = Path(__file__).parents[2]
ALERTS = tuple(alerts())
RULES = (*ALERTS, *recorded())
CAMEL = re.compile(r"([A-Z]+[a-z0-9]+)+")
RECORDED = re.compile(r"[a-z_]+:[a-z_]+:[a-z]+")
LONGEST_NAME = 40
LARGEST_GROUP = 20
IDENTITY = frozenset({"cluster", "node", "UUID", "source", "dra_claim_namespace", "dra_claim_name"})
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
SEEN_THROUGH = frozenset({"exported_pod", "exported_namespace", "exported_node"})
"""Labels that a scrape without `honorLabels` renames."""
OPERATIONS = frozenset({"sum", "max", "min", "count", "ratio", "bool"})


def _recorded() -> Mapping[str, Known]:
    """Return the recorded series, with the labels that their aggregation keeps."""
    return {
        recording.name: Known(frozenset(named_labels(promql.parse(recording.expr))))
        for recording in recorded()
    }


OF_OTHERS = {
    "kube_node_info": Known(frozenset({"node"})),
    "node_uname_info": Known(frozenset({"nodename"})),
}
"""Series of kube-state-metrics and node-exporter that list the nodes."""
KNOWN = {**FAMILIES_KNOWN, **_recorded(), **OF_OTHERS}


def by_name(rule: Alert | Recording) -> str:
    return rule.name


each_alert = pytest.mark.parametrize("alert", ALERTS, ids=by_name)
each_rule = pytest.mark.parametrize("rule", RULES, ids=by_name)


class TestNames:
    def test_no_two_rules_have_one_name(self) -> None:
        names = [rule.name for rule in RULES]

        assert len(names) == len(set(names))

    @each_alert
    def test_an_alert_is_ours_by_its_name_in_camel_case(self, alert: Alert) -> None:
        assert CAMEL.fullmatch(alert.name)
        assert alert.name.startswith("Draguard")
        assert len(alert.name) <= LONGEST_NAME

    @pytest.mark.parametrize("one", list(recorded()), ids=by_name)
    def test_a_recorded_series_says_its_level_metric_and_operation(self, one: Recording) -> None:
        assert RECORDED.fullmatch(one.name)
        assert one.name.rpartition(":")[2] in OPERATIONS
        assert one.says.endswith(".")

    @pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
    def test_a_group_is_small(self, group: Group) -> None:
        assert len(group.rules) <= LARGEST_GROUP
        assert len(group.name) <= LONGEST_NAME

    @pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
    def test_a_group_uses_no_series_of_another_nor_one_below(self, group: Group) -> None:
        """Groups are evaluated in parallel: series of another group are old or missing."""
        above: set[str] = set()
        foreign = {recording.name for recording in recorded()}
        for rule in group.rules:
            if isinstance(rule, Recording):
                foreign.discard(rule.name)
                above.add(rule.name)
            used = {selector.name for query in expressions(rule) for selector in _selected(query)}
            assert not used & foreign, f"{rule.name} uses {used & foreign}"


class TestTexts:
    @each_alert
    def test_severity_is_one_that_routes_know(self, alert: Alert) -> None:
        assert alert.severity in get_args(Severity)

    @each_alert
    def test_the_summary_is_one_fixed_sentence(self, alert: Alert) -> None:
        assert "{{" not in alert.summary
        assert alert.summary[0].isupper()
        assert alert.summary.endswith(".")

    @each_alert
    def test_the_description_tells_values(self, alert: Alert) -> None:
        assert "{{" in alert.description

    @each_alert
    def test_the_next_step_is_a_sentence_that_needs_no_query(self, alert: Alert) -> None:
        assert "query" not in alert.next
        assert alert.next.rstrip().endswith(".")

    @each_alert
    def test_labels_in_texts_are_labels_of_the_alert(self, alert: Alert) -> None:
        text = " ".join(annotations(alert, Settings()).values())

        assert set(re.findall(r"\$labels\.(\w+)", text)) <= {*alert.of.labels, "severity"}

    @each_alert
    def test_both_times_have_a_reason(self, alert: Alert) -> None:
        assert all(re.fullmatch(r"\d+[smh]", span) for span in (alert.wait, alert.keep))
        assert alert.wait_why.endswith(".")
        assert alert.keep_why.endswith(".")

    @each_alert
    def test_the_runbook_is_a_page_that_exists(self, alert: Alert) -> None:
        url = annotations(alert, Settings())["runbook_url"]
        page = url.removeprefix(f"{Settings().runbooks}/")

        assert (ROOT / "alerts" / "runbooks" / page).is_file()

    @each_alert
    def test_the_dashboard_is_one_of_ours_with_variables_that_it_has(self, alert: Alert) -> None:
        url = annotations(alert, Settings())["dashboard_url"]
        uid = re.match(r"[\w-]+", url.removeprefix(f"{Settings().grafana}/d/"))
        board = next(candidate for candidate in BOARDS if uid and candidate.uid == uid[0])

        assert set(re.findall(r"var-(\w+)=", url)) <= set(board.variables)
        assert (ROOT / "dashboards" / "json" / board.file).is_file()

    def test_no_runbook_is_of_an_alert_that_is_gone(self) -> None:
        pages = {path.stem for path in (ROOT / "alerts" / "runbooks").glob("Draguard*.md")}

        assert pages == {alert.name for alert in ALERTS}


class TestExpressions:
    @each_rule
    def test_every_metric_and_label_is_one_that_a_page_shows(self, rule: Alert | Recording) -> None:
        for query in expressions(rule):
            for selector in _selected(query):
                assert selector.name in KNOWN, f"{selector.name} of {query}"
                unknown = selector.labels - KNOWN[selector.name].labels - SCRAPED
                assert not unknown, f"{selector.name} has no label {sorted(unknown)}"
            unknown = set(named_labels(promql.parse(query))) - LABELS - SEEN_THROUGH - _made()
            assert not unknown, f"no series has {sorted(unknown)}: {query}"

    @each_rule
    def test_aggregations_and_joins_keep_clusters_apart(self, rule: Alert | Recording) -> None:
        for node in nodes(promql.parse(rule.expr)):
            if isinstance(node, promql.AggregateExpr):
                assert node.modifier is not None, node.prettify()
                assert node.modifier.type == promql.AggModifierType.By, node.prettify()
                assert "cluster" in node.modifier.labels, node.prettify()
            elif isinstance(node, promql.BinaryExpr) and node.modifier and node.modifier.matching:
                assert "cluster" in node.modifier.matching.labels, node.prettify()

    @each_alert
    def test_a_text_asks_of_its_own_cluster_alone(self, alert: Alert) -> None:
        for query in queried_in_texts(alert):
            assert all("cluster" in selector.labels for selector in _selected(query)), query

    @each_alert
    def test_an_alert_compares_or_is_the_watchdog(self, alert: Alert) -> None:
        found = nodes(promql.parse(alert.expr))
        compares = any(
            isinstance(node, promql.BinaryExpr) and str(node.op) in COMPARISONS for node in found
        )

        assert compares or alert.expr == "vector(1)"

    @each_alert
    def test_an_alert_is_identified_by_what_stays(self, alert: Alert) -> None:
        assert set(alert.of.labels) <= IDENTITY

    @each_rule
    def test_counters_are_read_by_their_growth_and_gauges_are_not(
        self, rule: Alert | Recording
    ) -> None:
        for query in expressions(rule):
            for selector in _selected(query):
                grows = bool({"rate", "irate", "increase"} & set(selector.within))
                assert grows == KNOWN[selector.name].counter, f"{selector.name} of {query}"

    @each_alert
    def test_absence_is_waited_for(self, alert: Alert) -> None:
        calls = [
            node.func.name
            for node in nodes(promql.parse(alert.expr))
            if isinstance(node, promql.Call)
        ]

        assert alert.wait != "0s" or not any(name.startswith("absent") for name in calls)


def _selected(query: str) -> list[Any]:
    return list(selectors(promql.parse(query)))


def _made() -> frozenset[str]:
    """Return the labels that only recorded series have."""
    return frozenset[str]().union(*(family.labels for family in _recorded().values()))


def test_a_watch_alerts_from_when_the_remediator_distrusts_it() -> None:
    assert WATCH_AGE == WATCH_SILENT
