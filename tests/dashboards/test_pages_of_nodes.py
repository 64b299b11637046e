"""Families on a page itself name no node: whose page it is, computed by the real promtool."""

from pathlib import Path

from dashboards import fleet, node
from dashboards.promql import at_node, at_nodes
from tests.dashboards.queried import ALWAYS, assert_answers

SOURCE = "draguard_source_up"
GPU = 'draguard_gpu_info{instance="a:9400", Hostname="x", UUID="GPU-1"}'
OTHER = 'draguard_gpu_info{instance="b:9400", Hostname="node-b", UUID="GPU-2"}'


def source(instance: str, more: str = "") -> str:
    return f'{SOURCE}{{instance="{instance}", source="nvml"{more}}}'


def test_a_page_is_of_the_node_whose_gpus_it_shows(prometheus_built: Path) -> None:
    """`x` is what a test puts for `$node`."""
    series = {GPU: ALWAYS, OTHER: ALWAYS, source("a:9400"): ALWAYS, source("b:9400"): "0x400"}
    a, b = source("a:9400"), source("b:9400")

    named = {
        a.replace(SOURCE, "").replace("}", ', Hostname="x"}'): 1,
        b.replace(SOURCE, "").replace("}", ', Hostname="node-b"}'): 0,
    }
    assert_answers(prometheus_built, fleet.DASHBOARD, at_nodes(SOURCE), series, named)
    assert_answers(prometheus_built, node.DASHBOARD, at_node(SOURCE), series, {a: 1})


def test_a_page_without_a_gpu_is_of_the_node_that_the_scrape_names(prometheus_built: Path) -> None:
    reported = source("a:9400", ', node="x"')
    series = {reported: "0x400"}

    named = {reported.replace("}", ', Hostname="x"}'): 0}
    assert_answers(prometheus_built, fleet.DASHBOARD, at_nodes(SOURCE), series, named)
    assert_answers(prometheus_built, node.DASHBOARD, at_node(SOURCE), series, {reported: 0})


def test_a_page_that_nobody_names_is_not_lost_from_the_fleet(prometheus_built: Path) -> None:
    reported = source("a:9400")

    named = {reported: 0}
    assert_answers(prometheus_built, fleet.DASHBOARD, at_nodes(SOURCE), {reported: "0x400"}, named)
    assert_answers(prometheus_built, node.DASHBOARD, at_node(SOURCE), {reported: "0x400"}, {})
