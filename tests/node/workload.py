"""Pods that hold devices of a real node, down to the processes of their containers."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from kubeapi.client import NotFound
from simulator.cluster import workloads
from tests.lab.cluster import RULES, await_true
from tests.lab.node.containerd import PAUSE
from tests.lab.node.real_node import RealNode

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
_CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
_TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
_TICK = 0.002
WIPED_SECONDS = 120.0


class Workload:
    """One pod that runs with the devices it was given."""

    def __init__(self, node: RealNode, name: str, *requests: Json, extended: int = 0) -> None:
        """Start it; returns when it runs."""
        self.node = node
        self.name = name
        if requests:
            node.client.create(_TEMPLATES, workloads.claim_template(name, *requests))
        spec = workloads.pod_spec(template=name if requests else "", extended_gpus=extended)
        spec["containers"][0] |= {"image": PAUSE, "imagePullPolicy": "Never"}
        node.client.create(PODS, workloads.pod(name, spec))
        try:
            await_true(f"{name} runs", lambda: self.phase() == "Running", 120)
        except AssertionError as error:
            described = node.plane.kubectl("describe", "pod", name)
            raise AssertionError(f"{error}\n{described}") from None

    def read(self) -> Json | None:
        """Return the pod as the API server has it; None once it is gone."""
        try:
            return msgspec.json.decode(self.node.client.get(f"{PODS}/{self.name}"), type=Json)
        except NotFound:
            return None

    def phase(self) -> str:
        pod = self.read()
        return str(pod["status"]["phase"]) if pod else "gone"

    def is_evicted(self) -> bool:
        """Whether it is gone or going."""
        pod = self.read()
        return pod is None or "deletionTimestamp" in pod["metadata"]

    def device(self) -> str:
        """Return the name of its first device."""
        for claim in self.node.items(_CLAIMS):
            status = claim.get("status", {})
            if any(user["name"] == self.name for user in status.get("reservedFor", [])):
                return str(status["allocation"]["devices"]["results"][0]["device"])
        raise AssertionError(f"{self.name} has no device")

    def process(self) -> Path:
        """Return the folder in /proc, as the machine sees it, of its container's process."""
        pod = self.read()
        assert pod is not None
        (status,) = pod["status"]["containerStatuses"]
        container = status["containerID"].removeprefix("containerd://")
        return self.node.process(container)

    def remove(self) -> None:
        """Delete it at once; returns when it is gone."""
        self.node.plane.kubectl("delete", "pod", self.name, "--now", "--ignore-not-found")
        self.node.plane.kubectl("delete", "resourceclaimtemplate", self.name, "--ignore-not-found")


def lose(node: RealNode, device: str) -> None:
    """Let a whole GPU fall off the bus: NVML says so, and the driver one line."""
    number = int(device.removeprefix("gpu-"))
    node.gpus.lose(number)
    node.gpus.inject_xid(number, 79, nvml=False)


@contextmanager
def driver_away(node: RealNode) -> Generator[None]:
    """Keep the driver away until the kubelet has deleted the slices, and during the block."""
    node.driver.stop()
    try:
        await_true("the kubelet deletes the slices", lambda: not node.slices(), WIPED_SECONDS)
        yield
    finally:
        node.gpus.republish()
        node.driver.start()
    await_true("the slices are back", node.slices)


def tainted(node: RealNode) -> dict[str, str]:
    """Return the effect of each rule by the device that it names."""
    rules = [rule["spec"] for rule in node.items(RULES)]
    return {spec["deviceSelector"].get("device", ""): spec["taint"]["effect"] for spec in rules}


def await_end(process: Path, timeout: float = 60.0) -> float:
    """Wait for the end of a process; returns when it was seen, as `time.monotonic` counts."""
    deadline = time.monotonic() + timeout
    while _runs(process):
        assert time.monotonic() < deadline, f"{process} runs on after {timeout:.0f} s"
        time.sleep(_TICK)
    return time.monotonic()


def _runs(process: Path) -> bool:
    """Whether a process has not ended; one that its parent did not collect yet has."""
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
