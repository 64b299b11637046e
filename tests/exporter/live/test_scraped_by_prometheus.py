"""Every state of a node, from running exporters, before strict parsers and a real Prometheus."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.live.stage import (
    NVML_UP,
    OPENMETRICS,
    TEXT,
    connection,
    exporter_of,
    fetch,
    read_strictly,
    simulated,
)
from tests.exporter.live.worlds import WORLDS, World
from tests.exporter.running import Exporter, free_port, wait_for
from tests.lab.cluster import Cluster, await_true
from tests.lab.prometheus import Prometheus, check_metrics

pytestmark = pytest.mark.verify

Running = Mapping[str, Exporter]


@pytest.fixture(scope="module")
def cluster_flags(
    control_plane: ControlPlane, client: Client, request: pytest.FixtureRequest
) -> Iterator[tuple[Cluster, list[str]]]:
    cluster = Cluster(control_plane, client, request.getfixturevalue("_player"))
    cluster.clean()
    folder = request.getfixturevalue("tmp_path_factory").mktemp("kube")
    yield cluster, connection(control_plane.endpoint(), folder)
    cluster.clean()


@pytest.fixture(scope="module")
def running(cluster_flags: tuple[Cluster, list[str]]) -> Iterator[Running]:
    """All worlds at once, each until it shows what it is about."""
    with contextlib.ExitStack() as stack:
        nodes = {
            name: stack.enter_context(simulated(world.gpus, world.mig, f"node-{name}"))
            for name, world in WORLDS.items()
        }
        exporters = {
            name: stack.enter_context(_exporter(nodes[name], world, cluster_flags))
            for name, world in WORLDS.items()
        }
        for name, world in WORLDS.items():
            if world.happens is not None:
                exporters[name].wait_shows(NVML_UP)
                world.happens(nodes[name])
        for name, exporter in exporters.items():
            exporter.wait_shows(*WORLDS[name].shows)
        yield exporters


def _exporter(
    node: SimulatedNode, world: World, cluster_flags: tuple[Cluster, list[str]]
) -> Exporter:
    world.arrange(node)
    flags = [flag.format(root=node.root) for flag in world.flags]
    if world.joined:
        cluster, more = cluster_flags
        cluster.player.add_node(node.name)
        cluster.player.publish(node.name, node.slices())
        flags += more
    dcgm = None
    if world.dcgm is not None:
        dcgm = SimulatedDcgm(node)
        world.dcgm(dcgm)
    return exporter_of(node, *flags, role=world.role, dcgm=dcgm)


@pytest.mark.parametrize("form", [TEXT, OPENMETRICS], ids=["text", "openmetrics"])
@pytest.mark.parametrize("name", WORLDS)
def test_a_page_is_well_formed_and_has_the_series_of_its_world(
    running: Running, name: str, form: str
) -> None:
    desired = WORLDS[name].counts

    def shown() -> tuple[str, str] | None:
        kind, page = fetch(running[name], form)
        found = read_strictly(page, form)
        counts = {family: len(found.get(family, ())) for family in desired}
        return (kind, page) if counts == desired else None

    kind, page = wait_for(shown, what=f"{desired}")
    assert kind.replace(" ", "").startswith(form)
    assert page.endswith("# EOF\n") == (form is OPENMETRICS)


@pytest.mark.parametrize("protocol", ["PrometheusText0.0.4", "OpenMetricsText1.0.0"])
def test_a_real_prometheus_takes_every_world(
    running: Running, prometheus_built: Path, tmp_path: Path, protocol: str
) -> None:
    targets = {name: f"127.0.0.1:{exporter.port}" for name, exporter in running.items()}
    with Prometheus(
        prometheus_built, tmp_path, targets, port=free_port(), protocols=(protocol,)
    ) as server:

        def all_scraped() -> bool:
            scraped = [
                target for target in server.targets() if not target["lastScrape"].startswith("0001")
            ]
            return len(scraped) == len(targets)

        await_true("every page was scraped", all_scraped)
        await_true("every page was taken", lambda: len(server.query("up == 1")) == len(targets))
        # On a busy machine one scrape in a row may come too late.
        await_true(
            "no scrape fails", lambda: not any(target["lastError"] for target in server.targets())
        )
        for name, world in WORLDS.items():
            for family, count in world.counts.items():
                query = f'(count({family}{{job="{name}"}}) or vector(0)) == {count}'
                await_true(query, lambda query=query: server.query(query))


@pytest.mark.parametrize("name", WORLDS)
def test_promtool_has_nothing_against_families_of_ours(
    running: Running, prometheus_built: Path, name: str
) -> None:
    """What has DCGM's names is left out: dcgm-exporter chose them, against the rules.

    They are in capitals, counters lack `_total`, and dashboards know them so.
    """
    _, page = fetch(running[name], TEXT)
    ours = "".join(
        line
        for line in page.splitlines(keepends=True)
        if not line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith("DCGM_")
    )
    assert "draguard_source_up" in ours
    assert check_metrics(prometheus_built, ours.encode()) == ""
