"""Every question of every dashboard, put to a real Prometheus that scraped the real programs."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dashboards.boards import Asked, annotation_queries, queries
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.node import SimulatedNode
from tests.chain.conftest import install
from tests.chain.scene import Scene
from tests.dashboards.observatory import (
    CLUSTER,
    GPUS,
    INTERVAL,
    MIG,
    NODE,
    SCENARIOS,
    Answer,
    Observatory,
    play,
)
from tests.exporter.running import free_port
from tests.lab.cluster import Cluster
from tests.lab.prometheus import Prometheus

Answers = Mapping[str, Mapping[Asked, Answer]]


@pytest.fixture(scope="module")
def scene(
    control_plane: ControlPlane,
    client: Client,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    install(control_plane, client)
    cluster = Cluster(control_plane, client, request.getfixturevalue("_player"))
    cluster.clean()
    one = Scene(cluster, tmp_path_factory.mktemp("scene"))
    yield one
    one.close()
    cluster.clean()


@pytest.fixture(scope="module")
def told(
    scene: Scene, prometheus_built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Answers]:
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), NODE).create(GPUS, mig=MIG) as node,
    ):
        one = Observatory(scene, node, Path(root))
        try:
            one.start()
            with Prometheus(
                prometheus_built,
                folder,
                dict(one.targets),
                port=free_port(),
                interval=INTERVAL,
                labels={"cluster": CLUSTER},
            ) as prometheus:
                yield dict(play(one, prometheus, (*queries(), *annotation_queries())))
        finally:
            one.exporter.kill()


def named(asked: Asked) -> str:
    return f"{asked.dashboard} / {asked.panel}: {asked.expr}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_prometheus_has_nothing_against_any_question(scenario: str, told: Answers) -> None:
    assert [answer.error for answer in told[scenario].values() if answer.error] == []


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_question_has_an_answer_or_says_why_there_may_be_none(
    scenario: str, told: Answers
) -> None:
    silent = [
        named(asked)
        for asked, answer in told[scenario].items()
        if not answer.series and not asked.empty
    ]
    assert silent == []


def test_every_question_is_answered_in_some_scenario(told: Answers) -> None:
    """A reason for an empty answer would else excuse a metric that does not exist."""
    answered = {
        asked for scenario in told.values() for asked, answer in scenario.items() if answer.series
    }
    never = {asked for scenario in told.values() for asked in scenario} - answered
    assert sorted(map(named, never)) == []
