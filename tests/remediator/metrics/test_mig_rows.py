"""A node whose slices are not what its label asks for is reported, by what its report says."""

import pytest

from exporter.model.node_health import GpuHealth, MigInstance, NodeDeviceHealth
from kubeapi.types import ObjectMeta
from remediator.controller.cache import Cache
from remediator.controller.cluster_metrics import cluster_rows
from remediator.metrics.mig import MigRequest, mig_rows
from remediator.model.node import NodeFacts
from tests.remediator.builders import gpu, report, slice_uuid

DIFFERS = "node_mig_config_differs_gpus"


def cut(index: int, *profiles: str) -> GpuHealth:
    """Return a GPU with slices of these profiles."""
    slices = tuple(
        MigInstance(uuid=slice_uuid(index, gi), gi=gi, ci=0, profile=profile)
        for gi, profile in enumerate(profiles)
    )
    return gpu(index, mig=True, instances=slices)


def requested(config: str, *gpus: GpuHealth, state: str = "success") -> MigRequest:
    facts = NodeFacts(name="node-a", mig_config=config, mig_state=state)
    return MigRequest(facts, NodeDeviceHealth(ObjectMeta(name="node-a"), report(*gpus)))


@pytest.mark.parametrize(
    ("config", "gpus", "differing"),
    [
        ("all-disabled", (gpu(0), gpu(1)), 0),
        ("all-disabled", (gpu(0), cut(1, "1g.10gb")), 1),
        ("all-enabled", (cut(0), gpu(1)), 1),
        ("all-1g.10gb", (cut(0, "1g.10gb", "1g.10gb"), cut(1, "1g.10gb")), 0),
        ("all-1g.10gb", (cut(0, "1g.10gb", "2g.20gb"), cut(1), gpu(2)), 3),
        ("all-1g.10gb.me", (cut(0, "1g.10gb+me"),), 0),
        ("all-1g.10gb", (gpu(0, mig=None), cut(1, "1g.10gb")), 0),
    ],
)
def test_gpus_that_are_not_as_the_label_says_are_counted(
    config: str, gpus: tuple[GpuHealth, ...], differing: int
) -> None:
    assert mig_rows([requested(config, *gpus)])[DIFFERS] == {("node-a",): differing}


@pytest.mark.parametrize("config", ["all-balanced", "team-a", "all-1g"])
def test_a_name_that_does_not_say_what_it_means_is_not_judged(config: str) -> None:
    assert mig_rows([requested(config, gpu(0))])[DIFFERS] == {}


def test_what_the_mig_manager_says_is_reported_and_that_it_says_nothing() -> None:
    failed, unanswered = (
        requested("all-balanced", state="failed"),
        requested("all-balanced", state=""),
    )
    reported = mig_rows([failed])["node_mig_config"]
    assert reported == {("node-a", "all-balanced", "failed"): 1}
    assert mig_rows([unanswered])["node_mig_config"] == {("node-a", "all-balanced", "none"): 1}


def test_a_cluster_shows_the_nodes_that_have_a_requested_geometry() -> None:
    cache = Cache(lambda _: None)
    for name, config in (("node-a", "all-disabled"), ("node-b", "")):
        cache.put_node(name, NodeFacts(name=name, mig_config=config, mig_state="success"))
    cache.put_report("node-a", requested("", cut(0, "1g.10gb")).report)
    rows = cluster_rows(cache, {})
    assert rows["node_mig_config"] == {("node-a", "all-disabled", "success"): 1}
    assert rows[DIFFERS] == {("node-a",): 1}
