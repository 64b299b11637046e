"""What the real API server makes of a DeviceIncident: its limits, its identity, its fields."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kubeapi.client import ApiError
from kubeapi.types import ObjectMeta
from kubeapi.versions import RULE_VERSIONS, Versioned
from remediator.controller.apply import Writer
from remediator.controller.cache import Cache
from remediator.controller.feature_gates import StatedRule
from remediator.controller.rate_limit import Pace
from remediator.controller.rejected_fields import Unstored
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.incident_caps import cut_to_limits
from remediator.model.incident_status import IncidentStatus, merge_patch
from remediator.plan.steps import OpenIncident
from tests.chain.scene import Scene
from tests.remediator.builders import make_status
from tests.remediator.model.statuses import STATUSES

INCIDENTS = "/apis/draguard.dev/v1alpha1/deviceincidents"
NAME = "gpu-0-1"


def opened(scene: Scene, **spec: str) -> str:
    """Open an incident and return its path."""
    body: dict[str, Any] = {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "DeviceIncident",
        "metadata": {"name": NAME},
        "spec": {"node": "node-a", "uuid": "GPU-0", **spec},
    }
    scene.cluster.client.create(INCIDENTS, body)
    return f"{INCIDENTS}/{NAME}"


@pytest.mark.parametrize(
    "spec", [{"node": ""}, {"node": "Node_A"}, {"uuid": "MIG-1"}, {"uuid": "GPU-" + "0" * 60}]
)
def test_an_identity_that_is_none_is_refused(scene: Scene, spec: dict[str, str]) -> None:
    with pytest.raises(ApiError, match="422"):
        opened(scene, **spec)


@pytest.mark.parametrize("other", [{"node": "node-b"}, {"uuid": "GPU-1"}])
def test_the_identity_of_an_incident_never_changes(scene: Scene, other: dict[str, str]) -> None:
    path = opened(scene)

    with pytest.raises(ApiError, match="immutable"):
        scene.cluster.client.merge_patch(path, {"spec": other})


def test_incidents_are_selected_by_node_gpu_and_phase(scene: Scene) -> None:
    path = opened(scene)
    scene.cluster.client.merge_patch(f"{path}/status", {"status": {"phase": "Tainted"}})

    for selector in ("spec.node=node-a", "spec.uuid=GPU-0", "status.phase=Tainted"):
        found = scene.cluster.plane.kubectl("get", "di", "-o", "name", "--field-selector", selector)
        assert NAME in found, selector
    assert NAME not in scene.cluster.plane.kubectl(
        "get", "di", "-o", "name", "--field-selector", "status.phase=Drained"
    )


def test_any_status_that_is_cut_to_the_limits_is_stored(scene: Scene) -> None:
    path = opened(scene)
    client = scene.cluster.client

    @settings(
        max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
    )
    @given(STATUSES)
    def write(status: IncidentStatus) -> None:
        client.merge_patch(f"{path}/status", {"status": merge_patch(cut_to_limits(status))})

    write()


def test_a_status_takes_the_place_of_the_one_before(scene: Scene) -> None:
    path = opened(scene)
    first = make_status(phase="Tainted", message="one", dbe_volatile=3)
    for status in (first, IncidentStatus(phase="Drained")):
        scene.cluster.client.merge_patch(f"{path}/status", {"status": merge_patch(status)})

    assert scene.cluster.get(path)["status"] == {"phase": "Drained"}
    assert IncidentSpec("node-a", "GPU-0").uuid == scene.cluster.get(path)["spec"]["uuid"]


@pytest.mark.parametrize("name", ["", "east-1"])
def test_an_incident_says_in_which_cluster_it_is_where_that_has_a_name(
    scene: Scene, name: str
) -> None:
    """For those who collect the incidents of several clusters."""
    client = scene.cluster.client
    rules = Versioned(client, "devicetaintrules", RULE_VERSIONS, StatedRule, lambda _: None)
    pace = Pace(50, 100)
    one = Writer(
        client,
        Cache(lambda _: None),
        rules,
        pace,
        leading=lambda: True,
        unstored=Unstored(),
        cluster_name=name,
    )
    try:
        spec = IncidentSpec(node="node-a", uuid="GPU-0")
        one.apply(OpenIncident(Incident(ObjectMeta(name=NAME), spec)))
    finally:
        one.stop()
        rules.stop()

    (stored,) = scene.cluster.items(INCIDENTS)
    named = {"draguard.dev/cluster": name} if name else {}
    assert stored["metadata"]["labels"] == {"draguard.dev/gpu": "GPU-0", **named}
