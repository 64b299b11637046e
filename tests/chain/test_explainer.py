"""The explainer beside a real scheduler: what its page and its Events say of claims that wait."""

import signal
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from kubeapi.client import Conflict
from simulator.cluster.workloads import DRIVER, gpu_request
from tests.chain.scene import Scene, fresh
from tests.chain.test_cluster_metrics import TAINTING, Page
from tests.chain.test_taint_and_move import now, with_xids
from tests.draguard.commands.test_why import PODS, node, runs, start, wants
from tests.exporter.running import free_port
from tests.lab.cluster import Cluster, Json, await_true
from tests.remediator.builders import gpu

EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
BY_EXPLAINER = "draguard.dev/explainer"
OTHERS = "secret-team"
Explain = Callable[..., Page]


@pytest.fixture
def explain(scene: Scene) -> Explain:
    """Start the explainer; gives its page."""

    def start(*flags: str) -> Page:
        port = free_port()
        scene.explainer("--listen", f"127.0.0.1:{port}", "--event-after", "0", *flags)
        page = Page(port)
        await_true("it leads", lambda: leads(page))
        return page

    return start


def leads(page: Page, value: int = 1) -> bool:
    try:
        return page.samples("draguard_explainer_leader") == [({}, value)]
    except OSError:
        return False


def events(cluster: Cluster, namespace: str = "default") -> list[Json]:
    found = msgspec.json.decode(cluster.client.get(EVENTS.format(namespace)))["items"]
    return [each for each in found if each["reportingController"] == BY_EXPLAINER]


def test_the_first_claim_of_a_newcomer_is_explained_from_its_first_minute_to_its_end(
    cluster: Cluster, explain: Explain
) -> None:
    node(cluster, "node-a", 2)
    page = explain()
    start(cluster, "first", wants(f"device.attributes['{DRIVER}'].family == 'A100'"))

    page.await_by("draguard_claims", "reason", {"SelectorFails": 1})
    ((labels, _),) = page.samples("draguard_claim_since_timestamp_seconds")
    assert (labels["dra_claim_name"], labels["pod_name"]) == ("first", "first")
    await_true("pod and claim have Events", lambda: len(events(cluster)) == 2)
    on = events(cluster)
    assert {each["regarding"]["kind"] for each in on} == {"Pod", "ResourceClaim"}
    assert {each["reason"] for each in on} == {"WaitsInAllocation"}
    assert "SelectorFails" in on[0]["note"]

    cluster.client.delete(f"{PODS}/first", {"gracePeriodSeconds": 0})
    start(cluster, "second")
    runs(cluster, "second")

    page.await_by("draguard_claims", "state", {"Pending": 1, "Running": 1})
    page.await_by("draguard_claims", "reason", {"NoPod": 1, "Running": 1})
    await_true(
        "the way was counted",
        lambda: (
            page.by("draguard_claim_allocation_seconds_count", "dra_device_class")
            == {"gpu.nvidia.com": 1}
        ),
    )


def test_a_tenants_event_names_no_other_namespace(cluster: Cluster, explain: Explain) -> None:
    node(cluster, "node-a", 1)
    with suppress(Conflict):
        cluster.client.create("/api/v1/namespaces", {"metadata": {"name": OTHERS}})
    cluster.namespace = OTHERS
    start(cluster, "secret-job")
    await_true("it runs", lambda: len(cluster.running()) == 1)
    cluster.namespace = "default"
    page = explain()
    start(cluster, "waits")

    page.await_by("draguard_claims", "reason", {"Allocated": 1, "Running": 1})
    await_true("it has Events", lambda: len(events(cluster)) == 2)

    assert all("secret" not in str(each) for each in events(cluster))
    assert "1 claim of another namespace" in events(cluster)[0]["note"]


def test_a_follower_exports_nothing_and_takes_over(
    scene: Scene, cluster: Cluster, explain: Explain
) -> None:
    node(cluster, "node-a", 1)
    start(cluster, "first", gpu_request(), gpu_request("second"))
    page = explain()
    page.await_by("draguard_claims", "state", {"Pending": 1})
    port = free_port()
    scene.explainer("--listen", f"127.0.0.1:{port}", "--event-after", "0")
    second = Page(port)
    await_true("it stands by", lambda: leads(second, 0))
    assert second.samples("draguard_claims") == []
    await_true("Events are posted", lambda: len(events(cluster)) == 2)

    scene.programs[0].kill()

    second.await_by("draguard_claims", "state", {"Pending": 1})
    await_true(
        "it has posted, too",
        lambda: second.by("draguard_explainer_api_requests_total", "verb").get("POST", 0) > 1,
    )
    assert len(events(cluster)) == 2


def test_a_frozen_explainer_delays_no_taint(scene: Scene, explain: Explain) -> None:
    """It is another process: what hangs there hangs alone."""
    scene.policy(TAINTING)
    scene.node("node-a", gpu(0))
    scene.remediator()
    explain()
    scene.programs[-1].send(signal.SIGSTOP)

    scene.report("node-a", with_xids(gpu(0), now(95), recovery_action=fresh(1)))

    await_true("the GPU is tainted", scene.rules, timeout=10)
