"""Parts one release apart: the report, the schema of the incidents, and the remediator.

Helm never upgrades `crds/`, and node agents are rolled out over hours, so each
pair meets. The schema of the release before is this one without the fields that
have come since.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
import pytest
import yaml

from exporter.model.node_health import SCHEMA_VERSION, NodeHealth
from kubeapi import clock
from simulator.cluster.workloads import gpu_request
from tests.chain.conftest import CRDS, served, steadily
from tests.chain.proxy import Proxy
from tests.chain.scene import REPORTS, Scene, fresh
from tests.chain.test_taint_and_move import now, off_the_bus, with_xids
from tests.lab.cluster import await_true
from tests.remediator import builders
from tests.remediator.builders import gpu

pytestmark = pytest.mark.verify

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NEWER = {
    "fault": ("seenSignals", "slices"),
    "scope": ("hardware", "neighbors"),
    "stay": ("nodeUID", "siblings", "clockSetBackMilliseconds"),
    "eviction": ("byDevice", "emptySinceTime"),
    "repair": ("request",),
    "policy": ("deviceClasses", "intents"),
}
"""What an incident's status lacks in an older release, for all that anybody knows."""


def definition(name: str) -> dict[str, Any]:
    return yaml.safe_load((CRDS / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def older_crd(scene: Scene) -> Iterator[Scene]:
    body = definition("deviceincidents")
    status = status_of(body)
    for group, names in NEWER.items():
        for name in names:
            del status["properties"][group]["properties"][name]
    with installed(scene, body):
        yield scene


@pytest.fixture
def newer_crds(scene: Scene) -> Iterator[Scene]:
    """Both objects with a field of the next release, which nobody here writes."""
    with ExitStack() as stack:
        for name in ("deviceincidents", "nodedevicehealths"):
            body = definition(name)
            status_of(body)["properties"]["ofTomorrow"] = {"type": "string"}
            stack.enter_context(installed(scene, body))
        yield scene


@contextmanager
def installed(scene: Scene, body: dict[str, Any]) -> Generator[None]:
    """Put another definition in the place of ours, for a while, whatever happens in it."""
    name = body["spec"]["names"]["plural"]
    plane, ours = scene.cluster.plane, str(CRDS / f"{name}.yaml")
    try:
        plane.kubectl("replace", "-f", "-", stdin=yaml.safe_dump(body))
        await_served(scene, body)
        yield
    finally:
        plane.kubectl("replace", "-f", ours)
        await_served(scene, definition(name))


def await_served(scene: Scene, body: dict[str, Any]) -> None:
    """Wait until a definition is in force: each change of one makes its storage anew (429)."""
    path = f"/apis/draguard.dev/v1alpha1/{body['spec']['names']['plural']}"

    def there() -> bool:
        return known(scene, body) == fields(body) and served(scene.cluster.client, path)

    await_true(f"{path} is served by the new schema", steadily(there))


def status_of(definition: dict[str, Any]) -> dict[str, Any]:
    (version,) = definition["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["status"]


def fields(definition: dict[str, Any]) -> set[str]:
    top = status_of(definition)["properties"]
    below = {
        f"{group}.{name}" for group, field in top.items() for name in field.get("properties", ())
    }
    return {*top, *below}


def known(scene: Scene, body: dict[str, Any]) -> set[str]:
    """Return the fields of the status that the API server stores now."""
    return fields(scene.cluster.get(f"{DEFINITIONS}/{body['metadata']['name']}"))


def test_with_the_schema_of_the_release_before_a_gpu_is_tainted_emptied_and_given_back(
    older_crd: Scene,
) -> None:
    """What that schema lacks is not stored; it is not written again and again for that."""
    scene = older_crd
    assert not known(scene, definition("deviceincidents")) & {
        f"{group}.{name}" for group, names in NEWER.items() for name in names
    }
    one = gpu(0)
    scene.node("node-a", one)
    scene.train("train", 1, gpu_request())
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        scene.remediator("--resync", "1", server=proxy.url)
        record = now(95)
        scene.report("node-a", with_xids(one, record, recovery_action=fresh(1)))
        scene.await_rules({"node-a/gpu-0": "NoExecute"})
        await_true("the pod is gone", lambda: not scene.holders())
        scene.report("node-a", with_xids(one, record, recovery_action=fresh(0)))
        scene.await_rules({})
        await_true("the incident is over", lambda: scene.phase() == "Recovered")
        reported = len(proxy.writes)
        scene.holds_for(4, "it is quiet", lambda: len(proxy.writes) <= reported + 3)
        assert len(proxy.writes) < 60


def test_with_the_schemas_of_the_next_release_a_gpu_is_tainted_and_given_back(
    newer_crds: Scene,
) -> None:
    scene, one = newer_crds, gpu(0)
    scene.node("node-a", one)
    scene.remediator()
    record = now(95)
    newer = builders.report(with_xids(one, record, recovery_action=fresh(1)))
    newer = msgspec.structs.replace(newer, observed_at=clock.now())
    write(scene, "node-a", {**plain(newer), "ofTomorrow": "yes"})
    scene.await_rules({"node-a/gpu-0": "NoExecute"})

    scene.report("node-a", with_xids(one, record, recovery_action=fresh(0)))

    scene.await_rules({})
    stored = scene.cluster.get(f"{REPORTS}/node-a")
    assert stored["status"]["ofTomorrow"] == "yes"


def plain(status: NodeHealth) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(status))


def write(scene: Scene, node: str, status: dict[str, Any]) -> None:
    scene.cluster.client.merge_patch(f"{REPORTS}/{node}/status", {"status": status})


def sick_report(**changed: object) -> dict[str, Any]:
    """The report of a GPU off the bus, as its agent writes it now."""
    one = off_the_bus(gpu(0))
    status = msgspec.structs.replace(builders.report(one), observed_at=clock.now())
    return {**plain(status), **changed}


def test_an_older_report_that_lacks_what_came_since_is_believed(scene: Scene) -> None:
    scene.node("node-a", gpu(0))
    scene.remediator()
    older = sick_report(schemaVersion=SCHEMA_VERSION)
    since = {"agentVersion", "inventory", "sources", "switches", "fabric"}
    older = {name: value for name, value in older.items() if name not in since}

    write(scene, "node-a", older)

    scene.await_rules({"node-a/gpu-0": "NoExecute"})


def test_a_report_of_the_next_release_is_believed_and_its_new_fields_are_left_out(
    scene: Scene,
) -> None:
    scene.node("node-a", gpu(0))
    scene.remediator()
    newer = sick_report(schemaVersion=SCHEMA_VERSION + 1, aFieldOfTomorrow={"x": [1]})
    newer["gpus"][0]["anotherOne"] = True

    write(scene, "node-a", newer)

    scene.await_rules({"node-a/gpu-0": "NoExecute"})


def test_a_report_two_releases_ahead_changes_nothing_and_says_why(scene: Scene) -> None:
    scene.node("node-a", gpu(0))
    remediator = scene.remediator()

    write(scene, "node-a", sick_report(schemaVersion=SCHEMA_VERSION + 2))

    remediator.await_saying(f"schema {SCHEMA_VERSION + 2} is newer than this version knows")
    scene.holds_for(2, "nothing is tainted", lambda: not scene.rules())


def test_an_incident_that_a_newer_remediator_wrote_is_gone_on_with(scene: Scene) -> None:
    """After a downgrade: the fields that it does not know stay, and hold nothing up."""
    one = gpu(0)
    scene.node("node-a", one)
    first = scene.remediator()
    record = now(95)
    scene.report("node-a", with_xids(one, record, recovery_action=fresh(1)))
    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    first.stop()
    path = f"/apis/draguard.dev/v1alpha1/deviceincidents/{scene.incident()['metadata']['name']}"
    mark = {"metadata": {"annotations": {"draguard.dev/of-tomorrow": "yes"}}}
    scene.cluster.client.merge_patch(path, mark)
    scene.cluster.client.merge_patch(f"{path}/status", {"status": {"schemaVersion": 2}})

    scene.remediator()
    scene.report("node-a", with_xids(one, record, recovery_action=fresh(0)))

    scene.await_rules({})
    annotations = scene.incident()["metadata"]["annotations"]
    assert annotations["draguard.dev/of-tomorrow"] == "yes"
