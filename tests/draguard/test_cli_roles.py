"""Each command as a user with one of the chart's roles: it works, or names the right it lacks."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from draguard.__main__ import main
from tests.chain.scene import INCIDENTS, LEASES
from tests.conftest import built
from tests.deploy import rendered
from tests.draguard.fleet import LOST_INCIDENT, SLICE_INCIDENT, Fleet
from tests.draguard.printed import printed
from tests.lab.cluster import await_true

ROLES = "--show-only=templates/user-roles.yaml"
COMMANDS = {
    "status": "status",
    "incidents": "incidents",
    "plan": "plan",
    "doctor": "doctor",
    "version": "version",
    "explain": "explain xid 79",
    "bundle": "bundle -o FILE",
    "why": "why train",
    "hold": f"hold {LOST_INCIDENT} --until 1h --reason x",
    "ignore": f"ignore {LOST_INCIDENT} --until 1h --reason x --yes",
    "untaint": f"untaint {LOST_INCIDENT} --reason x --yes",
    "confirm-repaired": f"confirm-repaired {SLICE_INCIDENT} --reason x",
    "cordon": "cordon node-a/1 --reason x",
    "cordon --evict": "cordon node-a/1 --reason x --evict --yes",
    "uncordon": "uncordon node-a/1",
    "cleanup": "cleanup --all --dry-run",
}
PATCHES = ("hold", "ignore", "untaint", "confirm-repaired")
LEASES_THERE = "list leases.coordination.k8s.io in namespace draguard-system"
READERS = {
    **dict.fromkeys(PATCHES, (2, "patch deviceincidents.draguard.dev")),
    "cordon": (2, "create devicetaintrules.resource.k8s.io"),
    "cordon --evict": (2, "create devicetaintrules.resource.k8s.io"),
    "uncordon": (2, "delete devicetaintrules.resource.k8s.io"),
    "cleanup": (2, "list nodes"),
    "why": (2, "get pods in namespace default"),
}
ALONE = {
    "status": (1, LEASES_THERE),
    "plan": (2, LEASES_THERE),
    "doctor": (1, LEASES_THERE),
    "bundle": (0, "list events in namespace draguard-system"),
    "explain": (0, "list deployments"),
}
LACKS: dict[str, dict[str, tuple[int, str]]] = {
    "view": {
        **READERS,
        "status": (0, "list nodes"),
        "plan": (0, "the pods of node-b, node-c cannot be listed.*view may not list pods;"),
        "doctor": (1, "list nodes"),
    },
    "view-alone": {**READERS, **ALONE, "version": (1, "")},
    "operator": {
        "doctor": (1, "create subjectaccessreviews.authorization.k8s.io"),
        "why": (0, "list events in namespace default"),
    },
    "operator-alone": {
        **ALONE,
        "why": (0, "list events in namespace default"),
        "version": (1, ""),
        "untaint": (0, "you may not read whether a remediator leads"),
    },
}
"""By user, with the ClusterRole of that name, and but for `alone` the Role of Draguard's namespace:
how a command ends, and which right it says is missing. Every other command works."""


@pytest.fixture(scope="session")
def helm_built(pytestconfig: pytest.Config) -> Path:
    return built(pytestconfig, "helm_built")


@pytest.fixture(scope="module")
def granted(fleet: Fleet, helm_built: Path) -> Iterator[Fleet]:
    """The fleet with the chart's roles, each bound to users that have no other."""
    kubectl = fleet.cluster.plane.kubectl
    roles = rendered.text((), f"--namespace={LEASES}", ROLES)
    kubectl("apply", "-f", "-", stdin=roles)
    bindings = ("view", "operator")
    for role in bindings:
        users = (f"--user={role}", f"--user={role}-alone")
        kubectl("create", "clusterrolebinding", role, f"--clusterrole=draguard-{role}", *users)
        view = ("--role=draguard-view", f"--user={role}")
        kubectl("create", "rolebinding", role, "-n", LEASES, *view)
    where = ("--kubeconfig", fleet.kubeconfig)
    for user in LACKS:
        await_true(f"{user} may", lambda user=user: main(["incidents", *where, "--as", user]) == 0)
    for user in bindings:
        await_true(f"{user} may", lambda user=user: main(["status", *where, "--as", user]) == 0)
    yield fleet
    for role in bindings:
        kubectl("delete", "clusterrolebinding", role)
        kubectl("delete", "rolebinding", role, "-n", LEASES)
    kubectl("delete", "-f", "-", stdin=roles)


@pytest.fixture
def unanswered(granted: Fleet) -> Iterator[Fleet]:
    """Nothing that a command has written before, and one cordon."""
    yield granted
    nothing = dict.fromkeys(("hold", "ignore", "repairConfirmed"))
    for incident in (LOST_INCIDENT, SLICE_INCIDENT):
        granted.cluster.client.merge_patch(f"{INCIDENTS}/{incident}", {"spec": nothing})
    main(["uncordon", "--all", "--kubeconfig", granted.kubeconfig])


@pytest.mark.parametrize("user", LACKS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works_or_names_the_right_that_is_missing(
    command: str,
    user: str,
    unanswered: Fleet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ("--kubeconfig", unanswered.kubeconfig)
    if command == "uncordon":
        assert main(["cordon", "node-a/1", "--reason", "x", *where]) == 0
    words = COMMANDS[command].replace("FILE", str(tmp_path / "bundle")).split()
    ends, right = LACKS[user].get(command, (0, ""))
    capsys.readouterr()

    status = main([*words, *where, "--as", user])

    stated = "".join(capsys.readouterr())
    assert status == ends, stated
    if right:
        assert re.search(right if "may not" in right else f"{user} may not {right}", stated)
    elif command in LACKS[user]:
        assert "you may not read it" in stated
    else:
        assert "may not" not in stated


@pytest.fixture
def failing_pod(granted: Fleet) -> Iterator[None]:
    """One of Draguard's pods whose image cannot be pulled."""
    client, path = granted.cluster.client, f"/api/v1/namespaces/{LEASES}/pods"
    client.create(
        path,
        {
            "metadata": {"name": "stuck", "labels": {"app.kubernetes.io/name": "draguard"}},
            "spec": {"containers": [{"name": "agent", "image": "x"}], "nodeName": "none"},
        },
    )
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}
    status = {"name": "agent", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    patch = {"status": {"containerStatuses": [{**status, "state": waiting}]}}
    client.merge_patch(f"{path}/stuck/status", patch)
    yield
    client.delete(f"{path}/stuck", {"gracePeriodSeconds": 0})


@pytest.mark.parametrize("user", ["view", "operator"])
def test_own_pods_that_do_not_start_are_named_to_both(
    user: str, failing_pod: None, granted: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = printed(capsys, "doctor", "--kubeconfig", granted.kubeconfig, "--as", user, ends=1)

    assert "own pods: draguard-system/stuck on none: container agent: ImagePullBackOff" in stated


def test_the_operator_may_read_what_tells_the_stack(
    granted: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("doctor", "--kubeconfig", granted.kubeconfig, "--as")

    assert "stack: looks like driver-only (" in printed(capsys, *where, "operator", ends=1)
    assert "unknown  stack: view may not list nodes" in printed(capsys, *where, "view", ends=1)


@pytest.fixture
def refused_remediator(granted: Fleet) -> Iterator[None]:
    """A ReplicaSet of the remediator whose pods are refused: there is no such RuntimeClass."""
    client, path = granted.cluster.client, f"/apis/apps/v1/namespaces/{LEASES}/replicasets"
    labels = {"app.kubernetes.io/name": "draguard", "set": "refused"}
    account = f"/api/v1/namespaces/{LEASES}/serviceaccounts"
    client.create(account, {"metadata": {"name": "draguard-remediator"}})
    pod = {
        "serviceAccountName": "draguard-remediator",
        "runtimeClassName": "no-such-class",
        "containers": [{"name": "remediator", "image": "x"}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    client.create(path, {"metadata": {"name": "refused"}, "spec": spec})
    yield
    client.delete(f"{path}/refused")
    client.delete(f"{account}/draguard-remediator")


@pytest.mark.parametrize("user", ["view", "operator"])
def test_why_the_remediators_pod_is_not_created_is_named_to_both(
    user: str, refused_remediator: None, granted: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    def stated() -> str:
        main(["doctor", "--kubeconfig", granted.kubeconfig, "--as", user])
        return capsys.readouterr().out

    await_true("the refusal is named", lambda: "ReplicaSet refused: FailedCreate" in stated())
    assert "docs/install.md, What your nodes have" in stated()
