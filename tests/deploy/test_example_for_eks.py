"""The example for EKS' node repair, under the schema that AWS' own client has for it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from remediator.model.node import HARDWARE_READY
from tests.lab import eks_api

Json = dict[str, Any]
pytestmark = pytest.mark.verify
FILE = Path(__file__).parents[2] / "deploy" / "examples" / "eks-node-repair.json"
SHAPE = "NodeRepairConfig"
"""What `aws eks update-nodegroup-config --node-repair-config` takes."""


def example() -> Json:
    return msgspec.json.decode(FILE.read_bytes(), type=Json)


@pytest.fixture(scope="module")
def schema() -> Json:
    return eks_api.schema(SHAPE)


def test_it_fits_the_api_and_gives_all_four_values_of_each_override(schema: Json) -> None:
    """The API has them all optional, and its text says that all must be given."""
    jsonschema.validate(example(), schema)

    members = schema["properties"]["nodeRepairConfigOverrides"]["items"]["properties"]
    for override in example()["nodeRepairConfigOverrides"]:
        assert override.keys() == members.keys()


def first(key: str, value: object) -> Callable[[Json], None]:
    """Return what sets one value of the first override."""

    def change(config: Json) -> None:
        config["nodeRepairConfigOverrides"][0][key] = value

    return change


def enabled_yes(config: Json) -> None:
    config["enabled"] = "yes"


@pytest.mark.parametrize(
    ("mistake", "complaint"),
    [
        (first("repairAction", "Terminate"), "'Terminate' is not one of"),
        (first("minRepairWaitTimeMins", 0), "0 is less than the minimum"),
        (first("minRepairWaitTimeMins", "10"), "is not of type 'integer'"),
        (first("nodeUnhealthyReasons", []), "Additional properties are not allowed"),
        (enabled_yes, "is not of type 'boolean'"),
    ],
)
def test_a_mistake_in_it_is_seen(
    schema: Json, mistake: Callable[[Json], None], complaint: str
) -> None:
    config = example()
    mistake(config)

    with pytest.raises(jsonschema.ValidationError, match=complaint):
        jsonschema.validate(config, schema)


def test_it_speaks_of_a_condition_and_reasons_that_are_written() -> None:
    for override in example()["nodeRepairConfigOverrides"]:
        assert override["nodeMonitoringCondition"] == HARDWARE_READY
        assert re.fullmatch(
            r"NvidiaXID\d+Error|NvidiaDeviceRepairNeeded", override["nodeUnhealthyReason"]
        )
