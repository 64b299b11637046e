"""Metrics of the cluster: gathered when all is known, and not more often than is needed."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event

from prometheus_client.parser import text_string_to_metric_families

from exporter.model.node_health import NodeDeviceHealth
from kubeapi.client import Client
from kubeapi.endpoint import Endpoint
from kubeapi.types import ObjectMeta
from remediator.controller.cache import Cache
from remediator.controller.cluster_metrics import FRESH, ClusterMetrics, cluster_rows
from remediator.controller.metrics import Metrics
from remediator.controller.observe import Cluster
from remediator.controller.rate_limit import Pace
from remediator.metrics.brakes import brake_rows
from remediator.metrics.families import CLUSTER_FAMILIES
from remediator.model.incident import Incident
from remediator.model.node import NodeFacts
from remediator.plan.spending import usage
from remediator.plan.view import Fleet
from remediator.policy.limits import Limits
from remediator.policy.table import Policy
from serving.families import Rows, labels
from tests.remediator.builders import T0, at, gpu, incident, report
from tests.remediator.clock import Clock
from tests.remediator.controller.test_cache import raw_rule, slice_of
from tests.remediator.controller.test_metrics import reading
from tests.remediator.playing import claim

LIMITS = usage(Fleet(), Limits(), at(0))


class Source:
    """Counts how often it is called."""

    def __init__(self) -> None:
        self.whole = True
        self.calls = 0
        self.clock = Clock(100.0)

    def gather(self) -> Rows:
        self.calls += 1
        return {"incidents_omitted": {(): float(self.calls)}}

    def cluster_metrics(self) -> ClusterMetrics:
        return ClusterMetrics(lambda: self.whole, self.gather, self.clock)


def filled_cache() -> Cache:
    """One node of two GPUs, one of them tainted and held; one incident."""
    cache = Cache(lambda _: None)
    cache.put_slice("s", None, slice_of("node-a", 0, 1))
    cache.put_rule("r", raw_rule())
    cache.put_incident("node-a-1", incident())
    cache.put_report("node-a", NodeDeviceHealth(ObjectMeta(name="node-a"), report(gpu(0), gpu(1))))
    cache.put_claim("team/held", None, claim("gpu-0"))
    return cache


def names(page: bytes) -> set[str]:
    return {
        sample.name
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_nothing_is_reported_before_all_was_listed_and_what_is_known_stays_afterwards() -> None:
    source = Source()
    source.whole = False
    cluster_metrics = source.cluster_metrics()
    assert cluster_metrics.rows() == {}

    source.whole = True
    first = cluster_metrics.rows()
    assert first != {}

    source.whole, source.clock.seconds = False, 100 + 10 * FRESH
    assert cluster_metrics.rows() != {}
    assert source.calls == 2


def test_rows_are_gathered_once_for_all_who_ask_in_five_seconds() -> None:
    source = Source()
    cluster_metrics = source.cluster_metrics()
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(cluster_metrics.rows) for _ in range(16)]
    requested = [answer.result() for answer in answers]
    assert all(rows is requested[0] for rows in requested)
    assert source.calls == 1

    source.clock.seconds += FRESH
    assert cluster_metrics.rows() is not requested[0]
    assert source.calls == 2


def test_a_cluster_is_counted_from_its_caches() -> None:
    rows = cluster_rows(filled_cache(), {"node-a": False, "node-b": True})

    assert {key[-2:]: count for key, count in rows["devices"].items()} == {
        ("allocated", "draguard"): 1,
        ("free", "none"): 1,
    }
    assert rows["agent_stale"] == {("node-a",): 0, ("node-b",): 1}
    assert len(rows["incident_info"]) == 1


def test_each_limit_is_reported_with_what_counts_for_it() -> None:
    cache = filled_cache()
    rows = cluster_rows(cache, {}, usage(cache.fleet(), Limits(), at(0)))

    assert rows["budget_used_gpus"][labels("taint", "cluster")] == 1
    assert rows["budget_limit_gpus"][labels("taint", "cluster")] == 24
    assert rows["budget_used_gpus"][labels("evict", "rate")] == 0
    assert rows["budget_limit_gpus"][labels("evict", "rate")] == 8
    assert rows["budget_used_gpus"].keys() == rows["budget_limit_gpus"].keys()


def test_without_any_answer_no_agent_is_called_stale() -> None:
    client = Client(Endpoint(server="http://127.0.0.1:9"))
    cluster = Cluster(
        client,
        mark=lambda _: None,
        urgent=lambda _: None,
        leading=lambda: False,
        pace=Pace(1, 1, has_urgent=lambda: False),
        lease_namespace="draguard-system",
        stale_after=1.0,
        now=lambda: T0,
    )
    cluster.cache.put_report("node-a", NodeDeviceHealth(ObjectMeta(name="node-a"), report(gpu(0))))

    assert cluster.cache.reporting_nodes() == (), "the agent of a node that is gone needs no repair"
    cluster.cache.put_node("node-a", NodeFacts(name="node-a", uid="u-1"))
    assert cluster.cache.reporting_nodes() == ("node-a",)
    assert cluster.stale_agents() == {}
    client.close()


def test_every_row_is_of_a_family_of_the_table_and_has_its_labels() -> None:
    families = {family.name: family for family in CLUSTER_FAMILIES}
    brakes = brake_rows(Fleet(), Policy(), at(0))
    rows = cluster_rows(filled_cache(), {"node-a": False}, LIMITS, brakes)

    assert set(rows) == set(families)
    assert {
        (name, len(key), len(families[name].labels))
        for name, samples in rows.items()
        for key in samples
        if len(key) != len(families[name].labels)
    } == set()


def test_who_asks_while_a_page_is_made_waits_for_it_and_sees_no_half_of_it() -> None:
    metrics, begun, go_on = Metrics(), Event(), Event()

    def slow() -> Iterator[Incident]:
        begun.set()
        go_on.wait(60)
        yield incident(phase="Suspected")

    def reported(incidents: Iterable[Incident]) -> bytes:
        return metrics.snapshot(
            incidents=incidents, rules=(), reading=reading(), rows={}, openmetrics=False
        )

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(reported, slow())
        begun.wait(60)
        second = pool.submit(reported, [incident(index, phase="Suspected") for index in (0, 1)])
        done, _ = wait([second], timeout=0.5)
        go_on.set()
    line = 'draguard_remediator_incidents{class="gpu",phase="Suspected"}'

    assert not done
    assert f"{line} 1.0" in first.result().decode()
    assert f"{line} 2.0" in second.result().decode()


def test_both_pages_tell_the_same_and_what_is_over_vanishes() -> None:
    metrics, cache = Metrics(), filled_cache()
    metrics.set_cluster(cluster_rows(cache, {"node-a": False}))
    text = names(metrics.page(openmetrics=False))
    assert {"draguard_incident_info", "draguard_devices"} <= text
    assert b'draguard_incident_info{UUID="GPU-' in metrics.page(openmetrics=True)

    cache.put_incident("node-a-1", incident(closed_at=at(5)))
    metrics.set_cluster(cluster_rows(cache, {}))
    left = names(metrics.page(openmetrics=False))

    assert {family for family in left if family.startswith("draguard_incident_")} == set()
    assert "draguard_agent_stale" not in left
    assert b"draguard_incident_info{" not in metrics.page(openmetrics=True)
