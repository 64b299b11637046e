"""In every cluster that people have, each line of the doctor that is not ok says what to do."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draguard.__main__ import main
from draguard.doctor.check import Check
from tests.chain.conftest import install
from tests.chain.proxy import Proxy
from tests.draguard.fleet import Fleet
from tests.draguard.printed import items
from tests.draguard.test_cli_errors import config, written

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/deviceincidents.draguard.dev"
PLAIN = "with plain manifests: kubectl apply --server-side -f deploy/manifests/crds.yaml"
Examined = dict[str, Check]
Examine = Callable[..., Examined]


@pytest.fixture
def examine(capsys: pytest.CaptureFixture[str]) -> Examine:
    """Run the doctor, and look at what holds of every line; gives the last of each name."""

    def run(*where: str, ends: int = 1) -> Examined:
        capsys.readouterr()
        assert main(["doctor", "-o", "json", *where]) == ends
        found = msgspec.convert(items(capsys.readouterr().out, "DoctorReport"), list[Check])
        assert [check for check in found if check.state != "ok" and not check.remedy] == []
        assert [check for check in found if check.state == "ok" and check.remedy] == []
        return {check.about: check for check in found}

    return run


@pytest.fixture
def proxy(fleet: Fleet) -> Iterator[Proxy]:
    with Proxy(fleet.cluster.plane.endpoint()) as one:
        yield one


@pytest.fixture
def through(proxy: Proxy, fleet: Fleet, tmp_path: Path) -> tuple[str, str]:
    token = fleet.cluster.plane.endpoint().token or ""
    return "--kubeconfig", str(written(tmp_path, "config", config(proxy.url, token)))


def test_one_agent_is_silent_and_one_node_has_none(fleet: Fleet, examine: Examine) -> None:
    agents = examine("--kubeconfig", fleet.kubeconfig)["agents"]

    assert agents.state == "bad"
    assert agents.says == "1 agent report is stale: node-e; the state of its GPUs is unknown"
    assert agents.remedy.startswith("kubectl -n draguard-system logs ")


def test_a_cluster_without_dra(proxy: Proxy, through: tuple[str, str], examine: Examine) -> None:
    proxy.refuse, proxy.refused_path = 404, "/apis/resource.k8s.io"

    found = examine(*through)

    assert found["Dynamic Resource Allocation"].state == "bad"
    assert "use Kubernetes 1.34" in found["Dynamic Resource Allocation"].remedy
    assert found["DeviceTaintRules"].state == "warn"


def test_a_cluster_without_the_chart(
    proxy: Proxy, through: tuple[str, str], examine: Examine
) -> None:
    proxy.refuse, proxy.refused_path = 404, "draguard.dev"

    found = examine(*through, "-n", "not-here")

    assert found["CRD deviceincidents"].state == "bad"
    assert found["CRD deviceincidents"].remedy == f"install the chart (docs/install.md); {PLAIN}"
    assert "docs/install.md" in found["exporter"].remedy
    assert found["cluster state"].state == "unknown"
    assert "docs/install.md" in found["cluster state"].remedy
    assert found["permissions of draguard-remediator"].state == "bad"


def test_crds_alone_without_the_rest(fleet: Fleet, examine: Examine) -> None:
    found = examine("--kubeconfig", fleet.kubeconfig, "-n", "not-here")

    assert found["remediator"].says == "no remediator leads: nothing is tainted or untainted"
    assert "kubectl get pods -A" in found["remediator"].remedy
    assert found["exporter"].state == "warn"


def test_crds_of_an_older_schema(fleet: Fleet, examine: Examine) -> None:
    client = fleet.cluster.client
    stored: dict[str, Any] = msgspec.json.decode(client.get(CRD))
    schema = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for group, field in (
        ("recovery", "untaint"),
        ("history", "recurrence"),
        ("repair", "needs"),
        ("scope", "foreignTaints"),
    ):
        del schema["status"]["properties"][group]["properties"][field]
    client.merge_patch(CRD, {"spec": {"versions": stored["spec"]["versions"]}})
    try:
        found = examine("--kubeconfig", fleet.kubeconfig)["CRD deviceincidents"]
    finally:
        install(fleet.cluster.plane, client)

    assert found.state == "warn"
    assert "and 1 more, so these fields are not stored" in found.says
    assert found.remedy == f"upgrade the chart (docs/install.md, Upgrading); {PLAIN}"


def test_who_may_see_little(fleet: Fleet, examine: Examine) -> None:
    found = examine("--kubeconfig", fleet.kubeconfig, "--context", "remediator", ends=0)

    assert found["cluster state"].state == "unknown"
    assert found["cluster state"].remedy == "ask for the permissions listed in docs/cli.md, Rights"


def test_a_server_that_fails_in_one_place_costs_one_line(
    proxy: Proxy, through: tuple[str, str], examine: Examine
) -> None:
    proxy.refuse, proxy.refused_path = 500, "/apis/admissionregistration.k8s.io"

    found = examine(*through)

    assert found["admission"].state == "unknown"
    assert found["agents"].state == "bad"
