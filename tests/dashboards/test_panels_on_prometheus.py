"""Every question of every dashboard, put to a real Prometheus that scraped the real programs."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from dashboards.boards import BoardQuery, annotation_queries, queries
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.node import SimulatedNode
from tests.chain.conftest import install
from tests.chain.scene import Scene
from tests.dashboards import dashboard_12239
from tests.dashboards.observatory import (
    CLUSTER,
    GPUS,
    INTERVAL,
    MIG,
    NODE,
    OLDEST,
    REMEDIATOR_JOB,
    RICHEST,
    SCENARIOS,
    VARIABLES,
    WATCHING,
    Answer,
    Observatory,
    answers,
    await_answer,
    play,
)
from tests.exporter.running import free_port
from tests.lab.cluster import Cluster, await_true
from tests.lab.prometheus import Prometheus

pytestmark = pytest.mark.verify

Answers = Mapping[str, Mapping[BoardQuery, Answer]]
RULES = Path(__file__).parents[2] / "alerts" / "generated" / "draguard.rules.yaml"


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


def of_dcgm_exporter() -> Iterator[BoardQuery]:
    for expr in (*dashboard_12239.PUBLISHED, *dashboard_12239.REPOSITORY):
        yield BoardQuery(dashboard="12239", panel="", expr=expr, empty="the exporter is dead")


class Observed(NamedTuple):
    """All scenarios, and the state of every rule after the last, on each release."""

    shown: Answers
    rules: Mapping[str, list[dict[str, Any]]]


def watching(programs: Path, folder: Path, targets: Mapping[str, str]) -> Prometheus:
    return Prometheus(
        programs,
        folder,
        dict(targets),
        port=free_port(),
        interval=INTERVAL,
        labels={"cluster": CLUSTER},
        rules=[RULES],
    )


@pytest.fixture(scope="module")
def observed(
    scene: Scene,
    prometheus_built: Path,
    prometheus_2_42_built: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Observed]:
    folder = tmp_path_factory.mktemp
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), NODE).create(GPUS, mig=MIG) as node,
    ):
        one = Observatory(scene, node, Path(root))
        try:
            one.start()
            with (
                watching(prometheus_built, folder("prometheus"), one.targets) as prometheus,
                watching(prometheus_2_42_built, folder("prometheus-2.42"), one.targets) as oldest,
            ):
                requested = (*queries(), *annotation_queries(), *of_dcgm_exporter())
                reported = dict(play(one, prometheus, requested, oldest))
                yield Observed(reported, {"3": prometheus.rules(), "2.42": oldest.rules()})
        finally:
            one.exporter.kill()


@pytest.fixture
def without_gpus(
    scene: Scene, prometheus_built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A cluster in which the remediator runs and nothing else is there yet.

    Its policy is the one of `observed`: a next leader with another policy begins no disruption for
    five minutes.
    """
    scene.policy(WATCHING)
    port = free_port()
    remediator = scene.remediator("--listen", f"127.0.0.1:{port}")
    targets = {REMEDIATOR_JOB: f"127.0.0.1:{port}"}
    with watching(prometheus_built, tmp_path_factory.mktemp("prometheus"), targets) as prometheus:
        await_answer(prometheus, "the remediator is up", "up == 1")
        await_true("all rules were evaluated", lambda: all_evaluated(prometheus))
        yield prometheus
    remediator.kill()


def all_evaluated(prometheus: Prometheus) -> bool:
    return all(rule["health"] != "unknown" for rule in prometheus.rules())


def test_a_cluster_without_gpus_gives_no_errors_and_pages_nobody(
    without_gpus: Prometheus,
) -> None:
    variables = {**VARIABLES, "uuid": "GPU-none"}
    reported = answers(without_gpus, (*queries(), *annotation_queries()), lambda: variables)
    errors = [answer.error for answer in reported.values() if answer.error]
    assert not errors, "\n".join(errors)
    firing = without_gpus.query('ALERTS{alertname!="DraguardWatchdog"}')
    assert [series["metric"] for series in firing] == []
    assert [rule for rule in without_gpus.rules() if rule["health"] != "ok"] == []


def named(requested: BoardQuery) -> str:
    return f"{requested.dashboard} / {requested.panel}: {requested.expr}"


@pytest.fixture(scope="module")
def shown(observed: Observed) -> Answers:
    return {name: found for name, found in observed.shown.items() if name != OLDEST}


@pytest.mark.parametrize("release", ["3", "2.42"])
def test_every_rule_is_evaluated_on_what_the_programs_say(release: str, observed: Observed) -> None:
    rules = observed.rules[release]
    assert rules
    wrong = [rule for rule in rules if rule["health"] != "ok" or rule.get("lastError")]
    assert wrong == []


def test_the_oldest_release_has_nothing_against_any_question(observed: Observed) -> None:
    oldest = observed.shown[OLDEST]
    assert set(oldest) == set(observed.shown[RICHEST])
    errors = [answer.error for answer in oldest.values() if answer.error]
    assert not errors, "\n".join(errors)


def test_the_oldest_release_answers_what_the_newest_does(observed: Observed) -> None:
    newest, oldest = observed.shown[RICHEST], observed.shown[OLDEST]
    less = [
        named(question)
        for question in newest
        if newest[question].series and not oldest[question].series
    ]
    assert not less, "\n".join(less)


def test_the_dashboard_of_dcgm_exporter_is_answered(shown: Answers) -> None:
    old = {
        requested: answer
        for requested, answer in shown["healthy"].items()
        if requested.dashboard == "12239"
    }
    assert len(old) == 16
    assert [named(requested) for requested, answer in old.items() if not answer.series] == []


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_prometheus_has_nothing_against_any_question(scenario: str, shown: Answers) -> None:
    errors = [answer.error for answer in shown[scenario].values() if answer.error]
    assert not errors, "\n".join(errors)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_question_has_an_answer_or_says_why_there_may_be_none(
    scenario: str, shown: Answers
) -> None:
    unanswered = [
        named(requested)
        for requested, answer in shown[scenario].items()
        if not answer.series and not requested.empty
    ]
    assert not unanswered, "\n".join(unanswered)


def test_every_question_is_answered_in_some_scenario(shown: Answers) -> None:
    """A reason for an empty answer would else excuse a metric that does not exist.

    All that a real API server serves can be read: `test_crowd` has devices of unknown state.
    """
    answered = {
        requested
        for scenario in shown.values()
        for requested, answer in scenario.items()
        if answer.series or '="unknown"' in requested.expr
    }
    never = {requested for scenario in shown.values() for requested in scenario} - answered
    assert not never, "\n".join(sorted(map(named, never)))
