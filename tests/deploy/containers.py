"""Containers of real pods, played as processes: what a kubelet makes of their spec.

Arguments, environment and volumes are the pod's own, the user is whoever runs the tests. There is
no container around them, so paths of mounts become folders here, and what a container's own file
system would hold (the host's kernel and driver, the address of the API server) is given by flags:
`Surroundings` has them all.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kubeapi.client import Client, NotFound
from tests.deploy import tokens
from tests.exporter.running import PATIENCE, free_port
from tests.lab.cluster import await_true

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Surroundings(NamedTuple):
    """What there is around a container that its spec does not say."""

    host_paths: Mapping[str, Path]
    """Where a hostPath of the pod lies on this machine."""
    flags: Mapping[str, Sequence[str]] = {}
    """By container, for what its own file system would hold; `{/a/path}` is a path in it."""
    variables: Mapping[str, str] = {}


class Pod:
    """One pod with a folder for its volumes. Its containers see nothing of each other's mounts."""

    def __init__(self, admin: Client, pod: Json, around: Surroundings, folder: Path) -> None:
        self._admin = admin
        self.body = pod
        self.name, self.uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
        self._around = around
        self._folder = folder
        self._folder.mkdir(parents=True)
        self._volumes = {volume["name"]: self._volume(volume) for volume in pod["spec"]["volumes"]}

    def container(self, name: str) -> "Container":
        (spec,) = [
            candidate for candidate in self.body["spec"]["containers"] if candidate["name"] == name
        ]
        mounts = {
            mount["mountPath"]: self._volumes[mount["name"]]
            for mount in spec.get("volumeMounts", [])
        }
        return Container(self, spec, mounts, self._around)

    def log(self, container: str) -> Path:
        return self._folder / f"{container}.log"

    def _volume(self, volume: Json) -> Path:
        if "hostPath" in volume:
            return self._around.host_paths[volume["hostPath"]["path"]]
        here = self._folder / volume["name"]
        here.mkdir()
        if "projected" in volume:
            for source in volume["projected"]["sources"]:
                self._project(source, here)
        elif "configMap" in volume:
            self._project(volume, here)
        return here

    def _project(self, source: Json, here: Path) -> None:
        """Lay a source's files out; raises KeyError for one that is not known here."""
        if "serviceAccountToken" in source:
            file = here / source["serviceAccountToken"]["path"]
            file.write_text(tokens.of_pod(self._admin, self.body), encoding="ascii")
            self._describe(here, file)
            return
        data = self._config_map(source["configMap"]["name"])
        items = source["configMap"].get("items") or [{"key": key, "path": key} for key in data]
        for item in items:
            (here / item["path"]).write_text(data[item["key"]], encoding="utf-8")

    def _describe(self, here: Path, token: Path) -> None:
        """Write a kubeconfig beside the token, for a command that looks in a fixed place."""
        at = self._admin.endpoint
        cluster = {"server": at.server, "certificate-authority": str(here / "ca.crt")}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": self.name, "user": {"tokenFile": str(token)}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": self.name}}],
            "current-context": "here",
        }
        (here / "kubeconfig").write_bytes(msgspec.json.encode(content))

    def _config_map(self, name: str) -> Mapping[str, str]:
        """Return its data; waits for one that a controller makes, as a kubelet does."""
        path = f"/api/v1/namespaces/{self.body['metadata']['namespace']}/configmaps/{name}"

        def found() -> bytes:
            try:
                return self._admin.get(path)
            except NotFound:
                return b""

        stored: Json = msgspec.json.decode(await_true(f"{path} is there", found))
        return stored["data"]


class Container:
    """One container as a process."""

    def __init__(self, pod: Pod, spec: Json, mounts: Mapping[str, Path], at: Surroundings) -> None:
        self.port = free_port()
        self._pod, self._spec, self._mounts, self._around = pod, spec, mounts, at
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def arguments(self) -> list[str]:
        """The rendered ones with paths and ports of this machine, then the surroundings' flags."""
        rendered = [self._here(argument) for argument in self._spec["args"]]
        around = self._around.flags.get(self._spec["name"], ())
        return [*rendered, *(self._filled(argument) for argument in around)]

    def start(self) -> "Container":
        with self._pod.log(self._spec["name"]).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "draguard", *self.arguments],
                cwd=ROOT,
                env=self._environment(),
                stdout=log,
                stderr=log,
            )
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self) -> int:
        """Return the exit code of a container that ends by itself."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        finally:
            self.kill()

    def logged(self) -> str:
        return self._pod.log(self._spec["name"]).read_text(encoding="utf-8", errors="replace")

    def _here(self, text: str) -> str:
        """Return an argument with the paths of mounts, and the port, of this machine."""
        for port in self._spec.get("ports", []):
            if text == f"--listen=:{port['containerPort']}":
                return f"--listen=127.0.0.1:{self.port}"
        name, sign, value = text.partition("=")
        for mount, folder in sorted(self._mounts.items(), reverse=True):
            if value == mount or value.startswith(f"{mount}/"):
                return f"{name}{sign}{folder}{value.removeprefix(mount)}"
        return text

    def _filled(self, flag: str) -> str:
        name, _, path = flag.partition("=")
        return self._here(f"{name}={path[1:-1]}") if path.startswith("{") else flag

    def _environment(self) -> dict[str, str]:
        environment = {"PATH": os.environ["PATH"], **self._around.variables}
        for variable in self._spec.get("env", []):
            field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            environment[variable["name"]] = (
                _field(self._pod.body, field) if field else variable["value"]
            )
        return environment


def _field(pod: Json, path: str) -> str:
    """Return what the downward API says of a pod."""
    for part in path.split("."):
        pod = pod[part]
    return str(pod)
