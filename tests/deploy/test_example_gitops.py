"""The examples for Argo CD and Flux: under their own CRDs, with values that the chart takes."""

from pathlib import Path

import msgspec
import pytest
import yaml

from deploy.program import rendered
from deploy.sources import CHART
from kubeapi.client import ApiError, Client
from simulator.cluster.controlplane import ControlPlane
from tests.deploy.rendered import Json
from tests.lab import operators

pytestmark = pytest.mark.verify
EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
APPLICATIONS = "/apis/argoproj.io/v1alpha1/namespaces/default/applications"
REPOSITORIES = "/apis/source.toolkit.fluxcd.io/v1/namespaces/default/ocirepositories"


def of(name: str) -> dict[str, Json]:
    """Return the objects of an example, by kind."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    return {found["kind"]: found for found in yaml.safe_load_all(text)}


APPLICATION = of("argocd-application.yaml")["Application"]
REPOSITORY, RELEASE = of("flux.yaml")["OCIRepository"], of("flux.yaml")["HelmRelease"]


@pytest.fixture(scope="module")
def known(control_plane: ControlPlane, client: Client, real_components: list[str]) -> Client:
    operators.install(control_plane, operators.OF_EXAMPLES)
    real_components.append(operators.versions(operators.OF_EXAMPLES))
    return client


def tried(client: Client, path: str, body: Json) -> Json:
    """Create without storing; fields that the schema lacks are refused."""
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    here = {**body, "metadata": {"name": body["metadata"]["name"]}}
    return msgspec.json.decode(client.create(path, here, strict), type=Json)


@pytest.mark.parametrize(
    ("path", "body"), [(APPLICATIONS, APPLICATION), (REPOSITORIES, REPOSITORY)]
)
def test_an_example_fits_the_schema(known: Client, path: str, body: Json) -> None:
    assert tried(known, path, body)["spec"].items() >= body["spec"].items()


@pytest.mark.parametrize(
    ("path", "body"), [(APPLICATIONS, APPLICATION), (REPOSITORIES, REPOSITORY)]
)
def test_a_field_that_its_kind_does_not_have_is_refused(
    known: Client, path: str, body: Json
) -> None:
    with pytest.raises(ApiError, match="unknown field"):
        tried(known, path, {**body, "spec": {**body["spec"], "chrat": "x"}})


VALUES = {
    "Argo CD": APPLICATION["spec"]["source"]["helm"]["valuesObject"],
    "Flux": RELEASE["spec"]["values"],
}


@pytest.mark.parametrize("found", VALUES.values(), ids=VALUES)
@pytest.mark.usefixtures("helm_built")
def test_the_chart_takes_its_values(found: Json) -> None:
    registry = found["image"]["registry"]

    assert found == {"image": {"registry": registry}}
    assert f"image: {registry}/draguard-exporter" in rendered(
        CHART, (f"image.registry={registry}",)
    ).replace('"', "")


def test_the_parts_of_an_example_name_each_other() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    source = APPLICATION["spec"]["source"]

    assert (source["chart"], source["targetRevision"]) == (chart["name"], chart["version"])
    assert RELEASE["spec"]["chartRef"] == {
        "kind": "OCIRepository",
        "name": REPOSITORY["metadata"]["name"],
    }
    assert REPOSITORY["spec"]["url"].endswith(f"/{chart['name']}")
