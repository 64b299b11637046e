"""A release's whole life on a real API server: installed, upgraded and deleted by the real Helm."""

from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deploy.program import NAMESPACE, RELEASE
from deploy.sources import CHART
from exporter.model.device import Device
from kubeapi.client import ApiError, Client
from remediator.model import taint_rule
from simulator.cluster.controlplane import ControlPlane
from tests.chain.scene import INCIDENTS
from tests.deploy import tokens
from tests.deploy.releasing import Helm, ReleaseJobs, items, store_rule
from tests.deploy.settings import EVERYTHING
from tests.deploy.test_kept_releases import each_release
from tests.lab.cluster import RULES, await_true
from tools.kept_release import chart_of

pytestmark = pytest.mark.verify

Json = dict[str, Any]
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/deviceincidents.draguard.dev"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
MONITORS = f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}/servicemonitors"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SCRAPED = ("draguard-exporter", "draguard-explainer", "draguard-remediator")
RECORD = 1 << 20
"""Bytes of data that a Secret may have; Helm keeps a release in one."""
ANSWER = "what a person sees of it"
"""A description in the CRD of the release before, which this one words otherwise."""
NEW = "phaseSinceTime"
"""A field that the CRD of the release before does not have."""


@pytest.fixture(autouse=True)
def _nothing_stays(helm: Helm, admin: Client) -> Iterator[None]:
    """Take away what a test that failed has left to the next one."""
    yield
    helm("uninstall", RELEASE, "--no-hooks", "--ignore-not-found")
    admin.delete(RULES, {})
    with suppress(ApiError):  # the CRD is kept, and with it what a test has stored
        admin.delete(f"{INCIDENTS}/gpu-0-1")


def read(client: Client, path: str) -> Json:
    return msgspec.json.decode(client.get(path), type=Json)


def incidents(client: Client) -> list[str]:
    """Return their names; a CRD that has just changed answers 429 for a moment."""

    def listed() -> list[Json] | None:
        try:
            return items(client, INCIDENTS)
        except ApiError:
            return None

    found = await_true("incidents are served", listed) or []
    return [item["metadata"]["name"] for item in found]


def released_before(folder: Path) -> Path:
    """A copy of the chart whose CRD is another one."""
    for path in CHART.rglob("*"):
        if path.is_file():
            copy = folder / path.relative_to(CHART)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8")
            if path.name == "deviceincidents.yaml":
                text = older(text)
            copy.write_text(text, encoding="utf-8")
    return folder


def older(crd: str) -> str:
    lines = crd.replace("what Draguard may do}", f"{ANSWER}}}").splitlines(keepends=True)
    kept = [line for line in lines if not line.lstrip().startswith(f"{NEW}:")]
    assert len(kept) == len(lines) - 1
    return "".join(kept)


def taint(name: str, *, ours: bool) -> Json:
    device = Device("gpu.nvidia.com", "node-a", name)
    rule = taint_rule.Rule(
        device=device,
        effect="NoSchedule",
        fault="gpu",
        cause="xid-95",
        incident="gpu-0-1",
        uuid="GPU-0",
        gpu="GPU-0",
        node="node-a",
    )
    body = msgspec.json.decode(msgspec.json.encode(taint_rule.manifest(rule, "v1")), type=Json)
    if not ours:
        body["metadata"] = {"name": "somebody-elses"}
        body["spec"]["taint"]["key"] = "example.com/under-repair"
    return body


def stored(client: Client) -> bool:
    """Store an incident, once its CRD is served."""
    scenario = {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "DeviceIncident",
        "metadata": {"name": "gpu-0-1"},
        "spec": {"node": "node-a", "uuid": "GPU-0", "fault": "gpu"},
    }
    try:
        client.create(INCIDENTS, scenario)
    except ApiError:
        return False
    return True


def tell(admin: Client, **status: str) -> Json:
    """Write an incident's status as the remediator does; returns what is stored of it."""
    token = tokens.of_account(admin, NAMESPACE, "draguard-remediator")
    remediator = Client(msgspec.structs.replace(admin.endpoint, token=token), timeout=60.0)

    def output() -> bytes:
        try:
            return remediator.merge_patch(f"{INCIDENTS}/gpu-0-1/status", {"status": status})
        except ApiError as error:
            if "cannot patch resource" not in str(error):
                raise
            return b""

    try:
        found = await_true("the rights of a release that has just come are in force", output)
    finally:
        remediator.close()
    kept: Json = msgspec.json.decode(found)["status"]
    return kept


def test_a_release_is_installed_upgraded_and_leaves_no_taint(
    operators_known: ControlPlane, admin: Client, helm: Helm, tmp_path: Path
) -> None:
    def description() -> str:
        columns = read(admin, CRD)["spec"]["versions"][0]["additionalPrinterColumns"]
        return next(column["description"] for column in columns if column["name"] == "Mode")

    before = released_before(tmp_path / "before")
    helm("install", RELEASE, str(before), "--set", "admission.enabled=false")
    assert description() == ANSWER
    await_true("an incident is stored", lambda: stored(admin))
    at = {NEW: "2026-11-21T12:00:00Z"}
    assert tell(admin, phase="Tainted", **at) == {"phase": "Tainted"}
    for name in ("gpu-0", "gpu-1"):
        store_rule(admin, taint(name, ours=True))
    store_rule(admin, taint("gpu-2", ours=False))

    settings = [word for setting in EVERYTHING for word in ("--set", setting)]
    helm("upgrade", RELEASE, str(CHART), "--reset-values", *settings)
    assert description() != ANSWER, "the CRD is that of the release before"
    assert incidents(admin) == ["gpu-0-1"]
    await_true("the new field is kept", lambda: NEW in tell(admin, **at))
    assert tell(admin, **at) == {"phase": "Tainted", **at}, "told before and after"
    assert scraped(admin) == {name: [(name, "metrics")] for name in SCRAPED}
    sizes = [
        sum(len(b64decode(data)) for data in secret["data"].values())
        for secret in items(admin, SECRETS)
    ]
    assert len(sizes) == 2
    assert max(sizes) < RECORD // 2

    with ReleaseJobs(operators_known, admin, tmp_path) as jobs:
        helm("uninstall", RELEASE)

    assert [rule["metadata"]["name"] for rule in items(admin, RULES)] == ["somebody-elses"]
    look, after_it = jobs.output
    assert look.count("would be removed") == 2
    assert after_it.count(": removed") == 2
    assert incidents(admin) == ["gpu-0-1"]
    assert left(admin) == []


def scraped(client: Client) -> dict[str, list[tuple[str, str]]]:
    """Return by ServiceMonitor what an operator would find: Services, and their ports."""
    return {
        monitor["metadata"]["name"]: [
            (service["metadata"]["name"], port["name"])
            for service in selected(client, monitor)
            for port in service["spec"]["ports"]
            if port["name"] in {end["port"] for end in monitor["spec"]["endpoints"]}
        ]
        for monitor in items(client, MONITORS)
    }


def selected(client: Client, monitor: Json) -> list[Json]:
    labels = monitor["spec"]["selector"]["matchLabels"].items()
    requested = {"labelSelector": ",".join(f"{name}={value}" for name, value in labels)}
    found = client.get(f"/api/v1/namespaces/{NAMESPACE}/services", requested)
    return msgspec.json.decode(found, type=Json)["items"]


def left(client: Client) -> list[str]:
    """Return what the release left beside the CRDs, which are meant to stay."""
    paths = (
        "/apis/apps/v1/daemonsets",
        "/apis/apps/v1/deployments",
        "/apis/batch/v1/jobs",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
        f"/api/v1/namespaces/{NAMESPACE}/services",
    )
    names = (item["metadata"]["name"] for path in paths for item in items(client, path))
    return [name for name in names if "draguard" in name]


@each_release
def test_a_kept_release_is_upgraded_and_rolled_back_with_its_incidents_and_taints(
    release: Path, operators_known: ControlPlane, admin: Client, helm: Helm, tmp_path: Path
) -> None:
    images = "image.exporter.repository=r.example.com/e,image.controller.repository=r.example.com/c"
    before = ("--set", f"admission.enabled=false,{images}")
    helm("install", RELEASE, str(chart_of(release)), *before)
    await_true("an incident is stored", lambda: stored(admin))
    assert tell(admin, phase="Tainted") == {"phase": "Tainted"}
    store_rule(admin, taint("gpu-0", ours=True))

    def kept(phase: str) -> bool:
        """An unchanged value would not be validated again, so each time another one is written."""
        assert incidents(admin) == ["gpu-0-1"]
        assert tell(admin, phase=phase) == {"phase": phase}
        return len(items(admin, RULES)) == 1

    helm("upgrade", RELEASE, str(CHART), "--reset-then-reuse-values")
    assert kept("Evicting"), "after the upgrade"
    helm("rollback", RELEASE, "1")
    assert kept("Drained"), "after the rollback"
    helm("upgrade", RELEASE, str(CHART), "--reset-then-reuse-values")
    with ReleaseJobs(operators_known, admin, tmp_path):
        helm("uninstall", RELEASE)
    assert items(admin, RULES) == []
    assert incidents(admin) == ["gpu-0-1"]
    assert left(admin) == []


def test_where_a_rollback_cannot_go_an_upgrade_does(
    plane: ControlPlane, admin: Client, helm: Helm, tmp_path: Path
) -> None:
    """Helm takes CRDs that it has kept over in an upgrade, and not in a rollback."""
    off = ("--set", "admission.enabled=false")
    helm("install", RELEASE, str(CHART), *off)
    helm("upgrade", RELEASE, str(CHART), "--set", "metricsOnly=true")
    assert items(admin, DEPLOYMENTS) == []

    with pytest.raises(AssertionError, match=r"cannot patch .* CustomResourceDefinition"):
        helm("rollback", RELEASE, "1")
    helm("upgrade", RELEASE, str(CHART), *off)

    assert "STATUS: deployed" in helm("status", RELEASE)
    assert [deployment["metadata"]["name"] for deployment in items(admin, DEPLOYMENTS)] == [
        "draguard-explainer",
        "draguard-remediator",
    ]
    with ReleaseJobs(plane, admin, tmp_path):
        helm("uninstall", RELEASE)
    assert left(admin) == []
