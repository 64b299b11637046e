"""The explainer beside a real scheduler: what its page and its Events say of claims that wait."""

from collections.abc import Callable

import msgspec
import pytest

from simulator.cluster.workloads import DRIVER
from tests.chain.scene import Scene
from tests.chain.test_cluster_metrics import Page
from tests.draguard.commands.test_why import PODS, node, runs, start, wants
from tests.exporter.running import free_port
from tests.lab.cluster import Cluster, Json, await_true

EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
BY_EXPLAINER = "draguard.dev/explainer"
Explain = Callable[..., Page]


@pytest.fixture
def explain(scene: Scene) -> Explain:
    """Start the explainer; gives its page."""

    def start(*flags: str) -> Page:
        port = free_port()
        scene.explainer("--listen", f"127.0.0.1:{port}", "--event-after", "0", *flags)
        page = Page(port)
        await_true("it leads", lambda: _leads(page))
        return page

    return start


def _leads(page: Page) -> bool:
    try:
        return page.samples("draguard_explainer_leader") == [({}, 1)]
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
