"""Which of our pods Kubernetes' Pod Security Standards let in, answered by the real API server."""

from collections.abc import Iterator

import pytest

from kubeapi.client import ApiError, Client
from tests.deploy import rendered
from tests.deploy.rendered import Json
from tests.deploy.settings import SETTINGS

pytestmark = [pytest.mark.usefixtures("helm_built"), pytest.mark.verify]
LEVELS = ("restricted", "baseline", "privileged")
NAMESPACES = "/api/v1/namespaces"
OF_OTHERS = ("runtimeClassName", "priorityClassName")
"""What must be there before a pod is let in, and has no part in this."""
ACCOUNT = "one"


@pytest.fixture(scope="module", autouse=True)
def _namespaces(admin: Client) -> Iterator[None]:
    for level in LEVELS:
        labels = {"pod-security.kubernetes.io/enforce": level}
        admin.create(NAMESPACES, {"metadata": {"name": f"pods-{level}", "labels": labels}})
        where = f"{NAMESPACES}/pods-{level}/serviceaccounts"
        admin.create(where, {"metadata": {"name": ACCOUNT}})
    yield
    for level in LEVELS:
        admin.delete(f"{NAMESPACES}/pods-{level}", {})


def pod(kind: str, setting: str, name: str = "") -> Json:
    spec = rendered.pod(rendered.objects(SETTINGS[setting]), kind, name)
    kept = {name: reported for name, reported in spec.items() if name not in OF_OTHERS}
    return {"metadata": {"name": "one"}, "spec": {**kept, "serviceAccountName": ACCOUNT}}


def refusal(admin: Client, level: str, manifest: Json) -> str:
    try:
        admin.create(f"{NAMESPACES}/pods-{level}/pods", manifest, {"dryRun": "All"})
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Deployment", "remediator"), ("Deployment", "explainer"), ("Job", "cleanup")],
)
def test_what_needs_nothing_of_the_node_is_let_in_where_least_is_allowed(
    admin: Client, kind: str, name: str
) -> None:
    assert refusal(admin, "restricted", pod(kind, "as shipped", name)) == ""


@pytest.mark.parametrize("setting", ["as shipped", "shares of pods", "metrics only"])
def test_the_exporter_needs_the_label_that_the_document_says(admin: Client, setting: str) -> None:
    one = pod("DaemonSet", setting)

    assert "violates PodSecurity" in refusal(admin, "baseline", one)
    assert refusal(admin, "privileged", one) == ""


def test_it_is_the_nodes_folders_and_the_capability_that_need_it(admin: Client) -> None:
    stated = refusal(admin, "baseline", pod("DaemonSet", "as shipped"))

    assert "hostPath volumes" in stated
    assert "SYSLOG" in stated
