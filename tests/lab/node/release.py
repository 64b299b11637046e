"""Draguard on a real node, installed by the real Helm from the chart of the checkout."""

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from deploy import program
from deploy.program import NAMESPACE, RELEASE
from deploy.sources import CHART
from kubeapi.client import Conflict
from kubeapi.lease import leases
from remediator.controller.agents import LEASE_NAME
from simulator.cluster.build import build
from tests.lab.cluster import await_true
from tests.lab.node import images
from tests.lab.node.gpus import LIBRARY_FOLDER
from tests.lab.node.real_node import RealNode

ENFORCE = """
defaults: {mode: enforce, settle: 1s, soak: 1h}
budget:
  evict: {node: 32, cluster: 32, deviceClass: none, domain: none, rate: none}
  taint: {node: 32, cluster: 32}
"""
"""What was tainted stays so while a test looks at it; each test has GPUs of its own."""
READY_SECONDS = 180.0
_OF_DEVICES = "DCGM_FI_DEV_FB_USED{"
LABEL = re.compile(r'(\w+)="([^"]*)"')
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
Json = dict[str, Any]


def values(node: RealNode) -> Json:
    """Return what every way to install here has in common."""
    simulated = "/host/driver/sim"
    return {
        "image": {"tag": images.TAG, "pullPolicy": "Never", "allowLocal": True},
        "exporter": {
            "extraArgs": [
                f"--kernel-log={simulated}/kmsg",
                f"--pci-devices-dir={simulated}/pci",
            ],
            "gpu": {
                "access": "driver-root",
                "driverRoot": str(node.gpus.root),
                "libraryDir": LIBRARY_FOLDER,
            },
        },
        "remediator": {"replicas": 1, "policy": {"text": ENFORCE}},
    }


class Release:
    """The release `draguard` of one node's cluster."""

    def __init__(self, node: RealNode) -> None:
        self._node = node
        self._helm = build(recipe=program.RECIPE) / "helm"

    def install(self, changed: Mapping[str, Any] | None = None, *, chart: Path = CHART) -> None:
        """Install or upgrade a chart; `changed` goes over `values`, key by key."""
        file = self._node.plane.layout.folder / "values.json"
        file.write_text(json.dumps(merged(values(self._node), changed or {})))
        self.helm("upgrade", "--install", RELEASE, str(chart), f"--values={file}")

    def uninstall(self) -> None:
        self.helm("uninstall", RELEASE)

    def remove(self) -> None:
        """Uninstall what is there; returns when its pods are gone, and the namespace is there."""
        self.helm("uninstall", RELEASE, "--ignore-not-found")
        path = f"/api/v1/namespaces/{NAMESPACE}"
        with suppress(Conflict):
            self._node.client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        assert self._node.client.get(path)
        await_true("no pod is left", lambda: not self._node.items(PODS), READY_SECONDS)

    def helm(self, *arguments: str) -> str:
        """Run Helm in Draguard's namespace; returns what it printed."""
        plane = self._node.plane
        home = plane.layout.folder / "helm"
        environ = {**os.environ, "HOME": str(home), "KUBECONFIG": str(plane.kubeconfig)}
        command = [self._helm, *arguments, f"--namespace={NAMESPACE}"]
        if arguments[0] == "upgrade":
            command.append("--create-namespace")
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, check=False, timeout=400
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pods(self, component: str = "") -> list[Json]:
        """Return the release's pods that are not ending; of one component or all."""
        return [
            pod
            for pod in self._node.items(PODS)
            if component in ("", pod["metadata"]["labels"].get("app.kubernetes.io/component"))
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def controllers(self) -> list[str]:
        """Return the components that are Deployments: a kept chart has fewer."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        names = [each["metadata"]["name"] for each in self._node.items(path)]
        return [name.removeprefix("draguard-") for name in sorted(names)]

    def await_ready(self, *components: str) -> float:
        """Wait until a pod of each component is Ready, and all are; returns the seconds."""
        began = time.monotonic()
        requested = components or ("exporter", *self.controllers())

        def ready() -> bool:
            found = {component: self.pods(component) for component in requested}
            return all(pods and all(map(is_ready, pods)) for pods in found.values())

        try:
            await_true(f"pods are Ready: {', '.join(requested)}", ready, READY_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.reported()}") from None
        return time.monotonic() - began

    def await_rolled_out(self) -> None:
        """Wait until no pod of the revision before is left; returns when all are Ready."""
        controllers = [f"deployment/draguard-{name}" for name in self.controllers()]
        for workload in ("daemonset/draguard-exporter", *controllers):
            within = f"--timeout={READY_SECONDS:.0f}s"
            rollout = ("rollout", "status", workload, within, f"--namespace={NAMESPACE}")
            self._node.plane.kubectl(*rollout, timeout=2 * READY_SECONDS)
        self.await_ready()

    def leader(self) -> Json | None:
        """Return the pod that leads; a Lease may still name one of an installation before."""
        (holder,) = [
            str(item["spec"].get("holderIdentity", ""))
            for item in self._node.items(leases(NAMESPACE))
            if item["metadata"]["name"] == LEASE_NAME
        ] or [""]
        found = [p for p in self.pods("remediator") if holder.startswith(p["metadata"]["name"])]
        return found[0] if found else None

    def reported(self) -> str:
        """Return what the pods and their containers say, for a failed test."""
        kubectl = self._node.plane.kubectl
        described = kubectl("describe", "pods", "--namespace", NAMESPACE)[-6000:]
        logs = [self.logs(pod["metadata"]["name"])[-3000:] for pod in self.pods()]
        return "\n".join([described, *logs])

    def process(self, component: str, container: str) -> Path:
        """Return the folder in /proc of a container's first process."""
        (pod, *_) = self.pods(component)
        return self.process_of(pod, container)

    def process_of(self, pod: Json, container: str) -> Path:
        """Return the same for a pod as `pods` returned it."""
        (found,) = [
            status["containerID"].removeprefix("containerd://")
            for status in pod["status"]["containerStatuses"]
            if status["name"] == container
        ]
        return self._node.process(found)

    def logs(self, pod: str, container: str = "") -> str:
        chosen = [f"--container={container}"] if container else ["--all-containers"]
        return self._node.plane.kubectl("logs", pod, *chosen, "--namespace", NAMESPACE)

    def exec(self, pod: str, container: str, *command: str) -> str:
        """Run a program in a container; returns its output."""
        target = (pod, f"--container={container}", f"--namespace={NAMESPACE}")
        return self._node.plane.kubectl("exec", *target, "--", *command)

    def check_of_notes(self) -> str:
        """Run the `--check` that the chart's notes print; returns its output."""
        notes = self.helm("get", "notes", RELEASE).splitlines()
        (line,) = [line for line in notes if line.endswith("exporter --check")]
        kubectl, *words = shlex.split(line)
        assert kubectl == "kubectl"
        return self._node.plane.kubectl(*words)

    def metrics(self) -> str:
        """Return the exporter's metrics page."""
        return self.page("exporter", 9400, "metrics")

    def await_shows(self, *lines: str) -> None:
        """Wait until each of the lines is on the metrics page."""

        def shown() -> bool:
            page = set(self.metrics().splitlines())
            return page.issuperset(lines)

        await_true(f"the metrics show {', '.join(lines)}", shown)

    def await_shows_pods(self, desired: Mapping[str, str], label: str) -> None:
        """Wait until exactly these devices name a pod: the value of a label to the pod's name."""

        def named() -> dict[str, str]:
            lines = (line for line in self.metrics().splitlines() if line.startswith(_OF_DEVICES))
            labels = [dict(LABEL.findall(line)) for line in lines]
            return {each.get(label, ""): each["pod"] for each in labels if each.get("pod")}

        await_true(f"the metrics name {desired}", lambda: named() == desired, READY_SECONDS)

    def page(self, component: str, port: int, path: str) -> str:
        (pod, *_) = self.pods(component)
        name = pod["metadata"]["name"]
        return self._node.client.get(f"{PODS}/{name}:{port}/proxy/{path}").decode()


def is_ready(pod: Json) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions", [])
    )


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    """Return `under` with the values of `over`, as Helm merges value files; None removes."""
    result = dict(under)
    for key, value in over.items():
        below: Any = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = merged(cast("Json", below), cast("Json", value)) if both else value
    return {key: value for key, value in result.items() if value is not None}
