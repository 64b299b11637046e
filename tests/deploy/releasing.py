"""The real Helm against one API server, and what plays the kubelet for the pods of its hooks."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

import msgspec
import yaml

from deploy.program import NAMESPACE
from kubeapi.client import ApiError, Client
from simulator.cluster.controlplane import ControlPlane
from tests.deploy.rendered import LOCAL
from tests.lab.cluster import RULES, await_true

Json = dict[str, Any]
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def items(client: Client, path: str) -> list[Json]:
    return msgspec.json.decode(client.get(path), type=Json)["items"]


def store_rule(admin: Client, rule: Json) -> None:
    """Store a DeviceTaintRule where no policies stand.

    Those of a release that has just gone are in force for a moment more.
    """

    def stored() -> bool:
        try:
            admin.create(RULES, rule)
        except ApiError as error:
            if "ValidatingAdmissionPolicy" not in str(error):
                raise
            return False
        return True

    await_true("the policies of the release before are out of force", stored)


class Helm:
    """The real program, against one API server."""

    def __init__(self, programs: Path, plane: ControlPlane, home: Path) -> None:
        self._program = programs / "helm"
        # What it remembers of an API server is no use to the next one on the same port.
        self._env = {**os.environ, "HOME": str(home), "KUBECONFIG": str(plane.kubeconfig)}

    def __call__(self, *arguments: str) -> str:
        ours = arguments[0] in ("install", "upgrade") and not any(
            argument.endswith(".tgz") for argument in arguments
        )
        local = ["--set", LOCAL] if ours else []  # a kept release may not know this value
        done = subprocess.run(
            [self._program, *arguments, *local, "--namespace", NAMESPACE],
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


class ReleaseJobs(threading.Thread):
    """Plays the kubelet of the hook's pods: runs their command under their account, for real."""

    def __init__(self, plane: ControlPlane, client: Client, folder: Path) -> None:
        super().__init__(daemon=True)
        self._plane, self._client, self._folder = plane, client, folder
        self._stopped = threading.Event()
        self.output: list[str] = []

    def run(self) -> None:
        done: set[str] = set()
        while not self._stopped.wait(0.2):
            for pod in items(self._client, PODS):
                uid = pod["metadata"]["uid"]
                if _is_of_hook(pod) and _is_due(pod) and uid not in done:
                    done.add(uid)
                    self._play(pod)

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _play(self, pod: Json) -> None:
        account = pod["spec"]["serviceAccountName"]
        token = self._plane.kubectl("create", "token", account, "-n", NAMESPACE).strip()
        admin = self._plane.endpoint()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pod",
            "contexts": [{"name": "pod", "context": {"cluster": "here", "user": account}}],
            "clusters": [
                {
                    "name": "here",
                    "cluster": {"server": admin.server, "certificate-authority": admin.ca_file},
                }
            ],
            "users": [{"name": account, "user": {"token": token}}],
        }
        file = self._folder / "pod.kubeconfig"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        command = [sys.executable, "-m", "draguard", *pod["spec"]["containers"][0]["args"]]
        ran = subprocess.run(
            command,
            env={**os.environ, "KUBECONFIG": str(file)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.output.append(ran.stdout + ran.stderr)
        phase = "Failed" if ran.returncode else "Succeeded"
        name = pod["metadata"]["name"]
        self._client.merge_patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})


def _is_of_hook(pod: Json) -> bool:
    return pod["spec"].get("serviceAccountName") == "draguard-cleanup"


def _is_due(pod: Json) -> bool:
    """Whether it waits for a kubelet: one of a release before may still be there, played."""
    return pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]
