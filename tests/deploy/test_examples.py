"""The example manifests, as the real API server takes them under their real schemas."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from kubeapi.client import ApiError, Client
from remediator.model.node import PROBLEM, REPAIR_NEEDED
from simulator.cluster.controlplane import ControlPlane
from tests.lab.cluster import await_true

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"


class Example(NamedTuple):
    """One manifest, and where the API server serves its kind."""

    name: str
    path: str

    @property
    def schema(self) -> Path:
        return Path(__file__).parent / f"{self.name}_schema.yaml"

    def body(self) -> Json:
        text = (EXAMPLES / f"{self.name}.yaml").read_text(encoding="utf-8")
        found: Json = yaml.safe_load(text)
        return found


HEALTH_CHECK = Example("nodehealthcheck", "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks")
READINESS_RULE = Example(
    "nodereadinessrule", "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules"
)
ALL = (HEALTH_CHECK, READINESS_RULE)


@pytest.fixture(scope="module")
def kinds(control_plane: ControlPlane, client: Client) -> Iterator[Client]:
    """An API server that knows the kinds of the examples."""
    files = [word for example in ALL for word in ("-f", str(example.schema))]
    control_plane.kubectl("apply", *files)

    def served() -> bool:
        try:
            for example in ALL:
                client.get(example.path)
        except ApiError:
            return False
        return True

    await_true("the kinds are served", served)
    yield client
    control_plane.kubectl("delete", *files)


def tried(client: Client, example: Example, body: Json) -> Json:
    """Create without storing; fields that the schema lacks are refused."""
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    return msgspec.json.decode(client.create(example.path, body, strict), type=Json)


@pytest.mark.parametrize("example", ALL)
def test_an_example_fits_the_schema_and_nothing_is_filled_in(
    kinds: Client, example: Example
) -> None:
    body = example.body()

    assert tried(kinds, example, body)["spec"] == body["spec"]


def test_the_health_check_acts_on_our_condition_and_on_nothing_else() -> None:
    (condition,) = HEALTH_CHECK.body()["spec"]["unhealthyConditions"]

    assert condition["type"] == REPAIR_NEEDED
    assert condition["status"] == PROBLEM[REPAIR_NEEDED]


@pytest.mark.parametrize(
    ("status", "tainted"),
    [(None, False), ("False", False), (PROBLEM[REPAIR_NEEDED], True)],
    ids=["always healthy", "no repair", "repair needed"],
)
def test_the_readiness_rule_taints_a_node_exactly_while_it_needs_a_repair(
    status: str | None, *, tainted: bool
) -> None:
    """As the controller decides: the taint goes when each condition has its required status."""
    spec = READINESS_RULE.body()["spec"]
    (condition,) = spec["conditions"]

    assert condition["type"] == REPAIR_NEEDED
    assert spec["enforcementMode"] == "continuous"
    found = status or condition.get("defaultStatus", "Unknown")
    assert (found != condition["requiredStatus"]) is tainted


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
def test_a_mistake_in_the_health_check_is_refused(
    kinds: Client, mistake: Callable[[Json], None], complaint: str
) -> None:
    refused(kinds, HEALTH_CHECK, mistake, complaint)


@pytest.mark.parametrize(
    ("mistake", "complaint"),
    [
        (spec_with("conditions.0.requiredStatus", "no"), "Unsupported value"),
        (spec_with("conditions", []), "should have at least 1 items"),
        (spec_with("enforcementMode", "bootstrap-only"), "defaultStatus should not be used"),
        (spec_with("conditionPolicy", "anyOf"), "defaultStatus is not supported"),
        (spec_with("nodeSelector", {}), "must not be empty"),
        (spec_with("taint.key", "draguard.dev/repair"), "must start with 'readiness.k8s.io/'"),
        (spec_with("taint.effect", "Never"), "Unsupported value"),
        (spec_with("taints", []), "unknown field"),
    ],
)
def test_a_mistake_in_the_readiness_rule_is_refused(
    kinds: Client, mistake: Callable[[Json], None], complaint: str
) -> None:
    refused(kinds, READINESS_RULE, mistake, complaint)


def refused(
    client: Client, example: Example, mistake: Callable[[Json], None], complaint: str
) -> None:
    body = example.body()
    mistake(body["spec"])

    with pytest.raises(ApiError, match=complaint):
        tried(client, example, body)
