"""`draguard bundle` on the real API server: what is in it, and what must not be."""

import json
import stat
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from draguard.__main__ import main
from kubeapi.client import Client, Conflict, NotFound
from tests.chain.scene import INCIDENTS, LEASES
from tests.draguard.bundle.kubelet import LoggingKubelet
from tests.draguard.fleet import LOST_INCIDENT, POLICY, SICK, Fleet
from tests.draguard.printed import printed
from tests.draguard.test_cli_errors import config, written
from tests.lab.cluster import Json, await_true

SECRET = "planted-Qx7Zw9"
CORE = f"/api/v1/namespaces/{LEASES}"
APPS = f"/apis/apps/v1/namespaces/{LEASES}"
OURS = {"app.kubernetes.io/name": "draguard"}
ENV = [
    {"name": "PLAIN", "value": f"{SECRET}-env"},
    {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "web", "key": "p", "optional": True}}},
]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LOG = f"""\
2026-01-05T12:00:00Z INFO leading node=gpu-7
2026-01-05T12:00:01Z WARN asking with Bearer {SECRET}-bearer
2026-01-05T12:00:02Z WARN https://user:{SECRET}-url@example.com refused
-----BEGIN PRIVATE KEY-----
{SECRET}-pem
-----END PRIVATE KEY-----
2026-01-05T12:00:03Z INFO end of the log
"""
ALL = {
    *(f"objects/{name}.json" for name in ("deviceincidents", "nodedevicehealths", "leases")),
    *(f"objects/{name}.json" for name in ("deployments", "daemonsets", "pods", "events")),
    *(f"objects/{name}.json" for name in ("devicetaintrules", "resourceslices")),
    *("policy.yaml", "version.txt", "status.txt", "doctor.txt", "plan.txt", "incidents.txt"),
    "logs/draguard-remediator-x/remediator.log",
    "manifest.txt",
}


def own_pod(name: str, account: str) -> Json:
    container = {
        "name": "remediator",
        "image": "example.com/draguard:1",
        "args": ["remediator", f"--password={SECRET}-arg", "--policy=/etc/draguard/policy.yaml"],
        "env": ENV,
        "ports": [{"name": "metrics", "containerPort": 9401}],
    }
    notes = {LAST_APPLIED: json.dumps({"env": f"{SECRET}-applied"})}
    return {
        "metadata": {"name": name, "labels": OURS, "annotations": notes},
        "spec": {"nodeName": "node-a", "serviceAccountName": account, "containers": [container]},
    }


GONE = "of-the-past/train-7"
"""A user's pod that no claim and no incident names any more."""
ENDED: Json = {
    "name": "remediator",
    "image": "example.com/draguard:1",
    "imageID": "",
    "ready": False,
    "restartCount": 1,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {
        "terminated": {"exitCode": 1, "reason": "Error", "message": f"INFO {GONE} is deleted\n"}
    },
}
"""As the kubelet has it, which takes the end of the log."""


def event() -> Json:
    about = {"kind": "Pod", "name": "draguard-remediator-x", "namespace": LEASES}
    return {
        "metadata": {"name": "draguard-planted"},
        "involvedObject": about,
        "reason": "Failed",
        "message": f"pull of https://robot:{SECRET}-pull@registry.example.com/x failed",
    }


@pytest.fixture(scope="module")
def planted(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with pods of Draguard that have secrets wherever one may stand."""
    client = fleet.cluster.client
    account = {"metadata": {"name": "draguard-remediator"}}
    with suppress(Conflict):
        client.create(f"{CORE}/serviceaccounts", account)
    paths = {
        f"{CORE}/pods": own_pod("draguard-remediator-x", "draguard-remediator"),
        f"{CORE}/events": event(),
    }
    for path, body in paths.items():
        client.create(path, body)
    labels = {"metadata": {"labels": OURS, "annotations": {LAST_APPLIED: f"{SECRET}-applied"}}}
    client.merge_patch(f"{APPS}/deployments/draguard-remediator", labels)
    policy = {"data": {"policy.yaml": f"# token: {SECRET}-policy\n{POLICY}", "x": f"{SECRET}-key"}}
    client.merge_patch(f"{CORE}/configmaps/draguard-policy", policy)
    secret = {"metadata": {"name": "web"}, "stringData": {"p": f"{SECRET}-stored"}}
    client.create(f"{CORE}/secrets", secret)
    reason = {"by": "ana", "reason": f"password: {SECRET}-reason"}
    client.merge_patch(f"{INCIDENTS}/{LOST_INCIDENT}", {"spec": {"ignore": reason}})
    await_true("the pod runs", lambda: phase(client) == "Running")
    yield fleet
    for path, body in {**paths, f"{CORE}/secrets": secret}.items():
        with suppress(NotFound):
            client.delete(f"{path}/{body['metadata']['name']}")
    client.delete(f"{CORE}/serviceaccounts/draguard-remediator")
    client.merge_patch(f"{INCIDENTS}/{LOST_INCIDENT}", {"spec": {"ignore": None}})


def phase(client: Client) -> str:
    return json.loads(client.get(f"{CORE}/pods/draguard-remediator-x"))["status"].get("phase", "")


@pytest.fixture
def kubelet(planted: Fleet) -> Iterator[LoggingKubelet]:
    token = planted.cluster.plane.endpoint().token
    with LoggingKubelet({"remediator": f"{LOG}the user {token} is known\n"}) as one:
        status: Json = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": one.port}},
        }
        planted.cluster.client.merge_patch("/api/v1/nodes/node-a/status", {"status": status})
        yield one


def contents(file: Path) -> dict[str, str]:
    """Return the text of each file of a bundle, by its name below the one folder."""
    with tarfile.open(file) as tar:
        found: dict[str, str] = {}
        for member in tar.getmembers():
            content: Any = tar.extractfile(member)
            assert member.isfile()
            assert member.name.startswith("draguard-bundle-")
            found[member.name.partition("/")[2]] = content.read().decode()
        return found


def bundled(
    fleet: Fleet, folder: Path, capsys: pytest.CaptureFixture[str], *flags: str
) -> dict[str, str]:
    file = folder / "b.tar.gz"
    printed(capsys, "bundle", "-o", str(file), "--kubeconfig", fleet.kubeconfig, *flags)
    return contents(file)


def test_all_parts_are_in_it(
    planted: Fleet, kubelet: LoggingKubelet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bundled(planted, tmp_path, capsys)

    assert set(found) == ALL
    assert SICK in found["status.txt"]
    assert LOST_INCIDENT in found["incidents.txt"]
    assert "DeviceTaintRules" in found["doctor.txt"]
    assert "Node node-b" in found["plan.txt"]
    assert "lost: {mode: enforce}" in found["policy.yaml"]
    assert "INFO end of the log" in found["logs/draguard-remediator-x/remediator.log"]
    assert kubelet.requested[0]["tailLines"] == ["2000"]
    assert kubelet.requested[0]["limitBytes"] == [str(1 << 20)]
    rules = json.loads(found["objects/devicetaintrules.json"])["items"]
    assert {rule["spec"]["taint"]["effect"] for rule in rules} == {"NoSchedule"}
    pod = json.loads(found["objects/pods.json"])["items"][0]
    assert pod["spec"]["containers"][0]["env"] == [
        {"name": "PLAIN", "value": "<left out>"},
        ENV[1],
    ]
    assert "--policy=/etc/draguard/policy.yaml" in pod["spec"]["containers"][0]["args"]
    assert "managedFields" not in pod["metadata"]


def test_no_planted_secret_comes_out(
    planted: Fleet, kubelet: LoggingKubelet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = planted.cluster.plane.endpoint().token
    assert token
    for name, text in bundled(planted, tmp_path, capsys).items():
        assert SECRET not in text, name
        assert token not in text, name


def test_what_cannot_be_read_is_a_line_with_its_reason(
    planted: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No kubelet serves logs, and the API server's proxy reaches no pod."""
    status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}
    planted.cluster.client.merge_patch("/api/v1/nodes/node-a/status", {"status": status})
    file = tmp_path / "b.tar.gz"
    stated = printed(capsys, "bundle", "-o", str(file), "--kubeconfig", planted.kubeconfig)

    manifest = contents(file)["manifest.txt"]
    for part in (
        "logs/draguard-remediator-x/remediator.log",
        "pages/draguard-remediator-x/metrics",
    ):
        line = next(line for line in manifest.splitlines() if part in line)
        assert line.startswith("missing")
        assert len(line.split(maxsplit=2)[2]) > 20
        assert part in stated


def test_a_user_without_rights_reads_what_the_role_allows(
    planted: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plane = planted.cluster.plane
    plane.kubectl("create", "clusterrole", "few", "--verb=list", "--resource=deviceincidents")
    plane.kubectl("create", "clusterrolebinding", "few", "--clusterrole=few", "--user=eve")
    try:
        await_true(
            "the role counts",
            lambda: main(["incidents", "--kubeconfig", planted.kubeconfig, "--as", "eve"]) == 0,
        )
        found = bundled(planted, tmp_path, capsys, "--as", "eve")
    finally:
        plane.kubectl("delete", "clusterrolebinding/few", "clusterrole/few")

    assert {"objects/deviceincidents.json", "incidents.txt", "manifest.txt"} <= set(found)
    assert "objects/pods.json" not in found
    for right in (
        "list pods in namespace draguard-system",
        "list devicetaintrules.resource.k8s.io",
    ):
        assert f"eve may not {right}" in found["manifest.txt"]


def test_a_server_that_does_not_answer_is_not_queried_for_every_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))
    stated = printed(capsys, "bundle", "-o", str(tmp_path / "b"), "--kubeconfig", str(path), ends=2)

    assert "no answer from http://127.0.0.1:1" in stated
    assert not (tmp_path / "b").exists()


def test_the_file_is_its_owners_alone(
    fleet: Fleet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    stated = printed(capsys, "bundle", "--kubeconfig", fleet.kubeconfig)

    (file,) = tmp_path.iterdir()
    assert file.name.startswith("draguard-bundle-")
    assert f"{file.name}: " in stated
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_files_of_others_beside_it_stay_as_they_are(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, readable = tmp_path / "other", tmp_path / "b.part"
    other.write_text("x", encoding="utf-8")
    readable.write_text("y", encoding="utf-8")
    readable.chmod(0o644)
    (tmp_path / "b").symlink_to(other)
    printed(capsys, "bundle", "-o", str(tmp_path / "b"), "--kubeconfig", fleet.kubeconfig)

    assert (other.read_text(encoding="utf-8"), readable.read_text(encoding="utf-8")) == ("x", "y")
    assert stat.S_IMODE((tmp_path / "b").lstat().st_mode) == 0o600
    assert {file.name for file in tmp_path.iterdir()} == {"other", "b.part", "b"}


def test_a_folder_that_is_not_there_is_a_sentence(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none" / "b.tar.gz"

    assert main(["bundle", "-o", str(file), "--kubeconfig", fleet.kubeconfig]) == 1
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


def test_names_of_pods_are_pseudonyms_where_that_is_desired(
    planted: Fleet, kubelet: LoggingKubelet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {"status": {"containerStatuses": [ENDED]}}
    planted.cluster.client.merge_patch(f"{CORE}/pods/draguard-remediator-x/status", status)
    with_names = bundled(planted, tmp_path, capsys)
    kubelet.requested.clear()
    found = bundled(planted, tmp_path, capsys, "--pseudonyms")

    for name in ("objects/pods.json", "doctor.txt"):
        assert GONE in with_names[name]
        assert '"reason": "Error"' in found[name] or "CrashLoopBackOff" in found[name]
    affected = json.loads(found["objects/deviceincidents.json"])["items"]
    pods = [pod for each in affected for pod in each["status"]["scope"].get("affectedPods", ())]
    assert {pod["namespace"] for pod in pods} == {"default", "namespace-1"}
    assert all(pod["pod"].startswith("pod-") for pod in pods)
    for text in found.values():
        assert "monitoring" not in text
        assert "dcgm/" not in text
        assert GONE not in text
    assert SICK in found["status.txt"]
    assert kubelet.requested == []
    assert "logs and pages" in found["manifest.txt"]


def test_without_the_right_to_learn_all_names_there_are_no_pseudonyms(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("-o", str(tmp_path / "b"), "--kubeconfig", fleet.kubeconfig, "--as", "eve")

    stated = printed(capsys, "bundle", "--pseudonyms", *where, ends=2)

    assert "eve may not list resourceclaims.resource.k8s.io" in stated
    assert [*tmp_path.iterdir()] == []
