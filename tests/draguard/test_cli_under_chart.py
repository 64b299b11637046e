"""The command line with the chart's roles for people, under the chart's admission policies."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from draguard.__main__ import main
from kubeapi.client import ApiError
from remediator.model.taint_rule import MANAGED_BY, MANAGER
from tests.chain.scene import INCIDENTS, LEASES
from tests.conftest import built
from tests.deploy import rendered
from tests.draguard.fleet import LOST_INCIDENT, Fleet
from tests.draguard.printed import printed
from tests.draguard.test_cli_errors import config
from tests.lab.cluster import RULES, await_true

Tell = Callable[..., str]
ROLES = "--show-only=templates/user-roles.yaml"
POLICIES = "--show-only=templates/admission.yaml"
NAMESPACE = f"--namespace={LEASES}"


@pytest.fixture(scope="session")
def helm_built(pytestconfig: pytest.Config) -> Path:
    return built(pytestconfig, "helm_built")


@pytest.fixture(scope="module")
def guarded(fleet: Fleet, helm_built: Path) -> Iterator[Fleet]:
    """The fleet with roles and policies of the chart, which go with this file."""
    objects = rendered.text((), NAMESPACE, ROLES, POLICIES)
    fleet.cluster.plane.kubectl("apply", "-f", "-", stdin=objects)
    try:
        await_true("the policies are in force", lambda: refuses(fleet))
        yield fleet
    finally:
        fleet.cluster.plane.kubectl("delete", "-f", "-", stdin=objects)
        await_true("the policies are gone", lambda: not refuses(fleet))


def refuses(fleet: Fleet) -> bool:
    """Whether somebody else's rule with our mark is refused."""
    selector = {"driver": "gpu.nvidia.com", "pool": "p", "device": "d"}
    taint = {"key": "example.com/x", "effect": "NoSchedule"}
    body = {
        "metadata": {"name": "tried", "labels": {MANAGED_BY: MANAGER}},
        "spec": {"deviceSelector": selector, "taint": taint},
    }
    try:
        fleet.cluster.client.create(RULES, body, {"dryRun": "All"})
    except ApiError as error:
        return "ValidatingAdmissionPolicy" in error.message
    return False


def tell_as(
    role: str, fleet: Fleet, folder: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Tell]:
    """Run commands as an account with one of the chart's roles, and the namespaced one."""
    plane, name = fleet.cluster.plane, f"person-with-{role}"
    account = f"--serviceaccount=default:{name}"
    plane.kubectl("create", "serviceaccount", name)
    plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={role}", account)
    view = ("-n", LEASES, "--role=draguard-view", account)
    plane.kubectl("create", "rolebinding", name, *view)
    at = plane.endpoint()
    content = config(at.server, plane.kubectl("create", "token", name).strip())
    content["clusters"][0]["cluster"]["certificate-authority"] = at.ca_file
    path = folder / "config"
    path.write_text(json.dumps(content), encoding="utf-8")
    where = ("--kubeconfig", str(path))

    def run(*arguments: str, ends: int = 0) -> str:
        return printed(capsys, *arguments, *where, ends=ends)

    try:
        await_true("the role counts", lambda: main(["incidents", *where]) == 0)
        await_true("the other role counts", lambda: main(["status", *where]) == 0)
        yield run
    finally:
        plane.kubectl("delete", "rolebinding", name, "-n", LEASES)
        plane.kubectl("delete", "clusterrolebinding", name)
        plane.kubectl("delete", "serviceaccount", name)


@pytest.fixture
def operator(guarded: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Tell]:
    yield from tell_as("draguard-operator", guarded, tmp_path, capsys)


@pytest.fixture
def viewer(guarded: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Tell]:
    yield from tell_as("draguard-view", guarded, tmp_path, capsys)


def test_who_is_on_call_may_look_answer_and_taint(operator: Tell, guarded: Fleet) -> None:
    for command in (("status",), ("plan",)):
        stated = operator(*command)
        assert "not read" not in stated
        assert "cannot be listed" not in stated
        assert "ConfigMap draguard-system/draguard-policy" in stated
    assert "ok       your permissions: status, plan, incidents" in operator("doctor", ends=1)
    assert "ok       admission of devicetaintrules: guarded by" in operator("doctor", ends=1)

    operator("hold", LOST_INCIDENT, "--until", "1h", "--reason", "x")
    stored = guarded.cluster.get(f"{INCIDENTS}/{LOST_INCIDENT}")["spec"]["hold"]
    assert stored["by"] == "system:serviceaccount:default:person-with-draguard-operator"
    theirs = {"spec": {"ignore": {"by": "ana", "reason": "x"}}}
    with pytest.raises(ApiError, match="names the user who writes it"):
        guarded.cluster.client.merge_patch(f"{INCIDENTS}/{LOST_INCIDENT}", theirs)
    operator("hold", LOST_INCIDENT, "--remove")

    assert "cordoned" in operator("cordon", "node-a/1", "--reason", "x")
    assert "cordoned" in operator("cordon", "node-a/1", "--reason", "x", "--evict", "--yes")
    assert "uncordoned" in operator("uncordon", "node-a/1")
    assert "would be removed" in operator("cleanup", "--all", "--dry-run")


def test_who_may_look_may_look_and_nothing_else(viewer: Tell) -> None:
    assert "not read: " in viewer("status")
    assert "1 in NeedsHuman" in viewer("status")
    for command in (
        ("hold", LOST_INCIDENT, "--until", "1h", "--reason", "x"),
        ("cordon", "node-a/1", "--reason", "x"),
    ):
        assert "ask for a role that allows the verb" in viewer(*command, ends=2)
