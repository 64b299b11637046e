"""The example manifests, as the real API server takes them under their real schemas."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubeapi.client import ApiError, Client
from remediator.model.node import HARDWARE_READY, PROBLEM, REPAIR_NEEDED
from simulator.cluster.controlplane import ControlPlane
from tests.lab.cluster import await_true

Json = dict[str, Any]
EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "nodehealthcheck.yaml"
SCHEMA = Path(__file__).parent / "nodehealthcheck_schema.yaml"
CHECKS = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"


@pytest.fixture(scope="module")
def medik8s(control_plane: ControlPlane, client: Client) -> Iterator[Client]:
    control_plane.kubectl("apply", "-f", str(SCHEMA))

    def served() -> bool:
        try:
            client.get(CHECKS)
        except ApiError:
            return False
        return True

    await_true("NodeHealthChecks are served", served)
    yield client
    control_plane.kubectl("delete", "-f", str(SCHEMA))


def example() -> Json:
    found: Json = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    return found


def tried(client: Client, body: Json) -> Json:
    """Create without storing; fields that the schema lacks are refused."""
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    return msgspec.json.decode(client.create(CHECKS, body, strict), type=Json)


def test_the_node_health_check_fits_the_schema_and_nothing_is_filled_in(medik8s: Client) -> None:
    body = example()

    assert tried(medik8s, body)["spec"] == body["spec"]


def test_it_acts_on_our_condition_and_on_nothing_else() -> None:
    (condition,) = example()["spec"]["unhealthyConditions"]

    assert condition["type"] == REPAIR_NEEDED
    assert condition["status"] == PROBLEM[REPAIR_NEEDED]


def spec_with(path: str, value: object) -> Callable[[Json], None]:
    """Return what sets one field of a spec, given as `a.0.b`."""

    def change(spec: Json) -> None:
        *way, last = path.split(".")
        at: Any = spec
        for step in way:
            at = at[int(step)] if step.isdecimal() else at[step]
        at[last] = value

    return change


def twice(spec: Json) -> None:
    spec["unhealthyConditions"] *= 2


def without_duration(spec: Json) -> None:
    del spec["unhealthyConditions"][0]["duration"]


@pytest.mark.parametrize(
    ("mistake", "complaint"),
    [
        (without_duration, "duration: Required value"),
        (spec_with("unhealthyConditions.0.duration", "5 minutes"), "should match"),
        (spec_with("unhealthyConditions.0.status", value=True), "must be of type string"),
        (spec_with("unhealthyConditions.0.type", ""), "at least 1 chars long"),
        (twice, "Duplicate value"),
        (spec_with("minHealthy", "most"), "should match"),
        (spec_with("remediationTemplate", "reboot"), "must be of type object"),
        (spec_with("remediationTemplate.nam", "x"), "unknown field"),
        (spec_with("unhealthyCondition", []), "unknown field"),
        (spec_with("selector.matchExpressions.0.operator", None), "Required value"),
    ],
)
def test_a_mistake_in_it_is_refused(
    medik8s: Client, mistake: Callable[[Json], None], complaint: str
) -> None:
    body = example()
    mistake(body["spec"])

    with pytest.raises(ApiError, match=complaint):
        tried(medik8s, body)


def test_the_example_for_eks_speaks_of_reasons_that_are_written() -> None:
    text = (EXAMPLE.parent / "eks-node-repair.json").read_text(encoding="utf-8")
    overrides = msgspec.json.decode(text, type=Json)["nodeRepairConfigOverrides"]

    for override in overrides:
        assert override.keys() == {
            "nodeMonitoringCondition",
            "nodeUnhealthyReason",
            "minRepairWaitTimeMins",
            "repairAction",
        }
        assert override["nodeMonitoringCondition"] == HARDWARE_READY
        assert re.fullmatch(
            r"NvidiaXID\d+Error|NvidiaDeviceRepairNeeded", override["nodeUnhealthyReason"]
        )
        assert override["repairAction"] in ("Replace", "Reboot", "NoAction")
