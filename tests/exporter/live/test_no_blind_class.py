"""GPUs that are there and of no use are seen on a running exporter's page, each by its sign."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.node import SimulatedNode
from tests.exporter.live.stage import NVML_UP, connection, exporter_of, samples, simulated
from tests.exporter.running import Exporter, wait_for
from tests.lab.cluster import Cluster

SLICES_UP = 'draguard_source_up{source="resourceslices"} 1'
Json = dict[str, Any]


@pytest.fixture
def published(cluster: Cluster) -> Iterator[SimulatedNode]:
    with simulated("3xH100") as node:
        cluster.player.add_node(node.name)
        cluster.player.publish(node.name, node.slices())
        yield node


@pytest.fixture
def exporter(cluster: Cluster, published: SimulatedNode, tmp_path: Path) -> Iterator[Exporter]:
    flags = connection(cluster.plane.endpoint(), tmp_path)
    with exporter_of(published, "--no-report", *flags) as running:
        running.wait_shows(NVML_UP, SLICES_UP, "draguard_gpus_seen 3")
        yield running


def without(uuid: str, part: Json) -> Json:
    """Return a slice that does not offer this GPU."""
    devices = part["spec"].get("devices", [])
    kept = [
        device for device in devices if device["attributes"].get("uuid", {}).get("string") != uuid
    ]
    return part | {"spec": part["spec"] | {"devices": kept}}


def test_a_gpu_that_no_slice_offers_is_seen_and_not_published(
    cluster: Cluster, published: SimulatedNode, exporter: Exporter
) -> None:
    exporter.wait_shows('draguard_gpus_expected{source="resourceslices"} 3')
    slices = [without(published.gpu(1).uuid, part) for part in published.slices()]
    cluster.player.publish(published.name, slices)
    exporter.wait_shows('draguard_gpus_expected{source="resourceslices"} 2', "draguard_gpus_seen 3")


def test_a_gpu_that_is_published_and_left_the_bus_is_missing(
    published: SimulatedNode, exporter: Exporter
) -> None:
    gone = published.gpu(1).pci.lower()
    published.remove_gpu(1)
    wait_for(lambda: samples(exporter, "draguard_gpu_missing", device=gone), what="it is missed")
    assert exporter.shows('draguard_gpus_expected{source="resourceslices"} 3')
    exporter.wait_shows('draguard_gpus_expected{source="pci"} 2', "draguard_gpus_seen 2")


@pytest.mark.parametrize("state", [1, 2])
def test_a_gpu_that_has_not_joined_its_fabric_is_reported(
    published: SimulatedNode, exporter: Exporter, state: int
) -> None:
    uuid = published.gpu(0).uuid
    published.set_value(0, "fabric_state", state)

    def reported() -> bool:
        found = exporter.series("draguard_fabric_state").items()
        return any(uuid in series and value == state for series, value in found)

    wait_for(reported, what="the state of its registration")


def test_an_xid_that_no_table_knows_is_counted_under_its_code(
    published: SimulatedNode, exporter: Exporter
) -> None:
    uuid = published.gpu(2).uuid
    published.inject_xid(2, 999)
    for family in ("draguard_xid_errors_total", "draguard_xid_last_seen_timestamp_seconds"):
        wait_for(lambda name=family: samples(exporter, name, UUID=uuid, code="999"), what=family)
