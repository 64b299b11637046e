"""A scenario in which every right that the chart grants is needed: from `helm install` to its end.

Each act waits for what it is about, so that the next one begins in a known state.
"""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from exporter.model.device import GPU_DRIVER, Device
from kubeapi.lease import read
from remediator.controller.agents import LEASE_NAME
from remediator.model import taint_rule
from simulator.cluster import workloads
from tests.chain.conftest import served
from tests.chain.scene import INCIDENTS, REPORTS, Scene
from tests.deploy import rendered
from tests.deploy.containers import Container
from tests.deploy.installed import GPU_NODE, NAMESPACE, Installed
from tests.lab.cluster import NODES, RULES, await_true

Json = dict[str, Any]
VALUES = """
exporter:
  interval: 0.5
  extraArgs: [--lease-interval=0.5]
  podLabels: {enabled: true}
remediator:
  policy: {text: "defaults: {mode: enforce, settle: 1s, soak: 4s}\\n"}
  nodeConditions: {enabled: true, acceleratedHardwareReady: true}
explainer: {eventAfter: 1}
networkPolicy: {enabled: true, egress: {enabled: true}}
"""
"""All that asks for a right, and times that a test can wait for."""
NO_KUBELET = "no-kubelet"
TRAIN, EXTENDED = "train", "extended"
SQUATTED, REBOOT = 6, 7
"""GPUs that no pod holds: the scheduler takes the first ones."""
OF_LAST_YEAR, NODE_OF_LAST_YEAR = "gpu-of-last-year-1", "node-of-last-year"
_ADOPTED = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {
        "meta.helm.sh/release-name": "draguard",
        "meta.helm.sh/release-namespace": NAMESPACE,
    },
}
"""How a release takes over what was there before it, in Helm's own words."""
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Scenario:
    """The cluster, what runs in it, and what happens to it."""

    def __init__(self, installed: Installed, folder: Path) -> None:
        self.at = installed
        self.scene = Scene(installed.cluster, folder)
        self._values = folder / "values.yaml"
        self._values.write_text(VALUES, encoding="utf-8")
        self._remediators: dict[str, Container] = {}
        self.released: list[str] = []
        """What each run of the hook at the uninstallation said."""

    @property
    def acts(self) -> tuple[Callable[[], None], ...]:
        """What happens while the chart is installed, in order."""
        return (
            self.something_was_here_before,
            self.the_chart_is_installed,
            self.work_begins,
            self.pods_wait,
            self.a_gpu_fails_and_is_repaired,
            self.the_leader_dies,
            self.an_extended_resource_is_evicted,
            self.a_node_needs_a_reboot,
            self.a_name_is_taken,
            self.what_is_old_is_pruned,
        )

    @property
    def flags(self) -> str:
        """The flag of helm with the values of this installation."""
        return f"--values={self._values}"

    def absent(self) -> list[str]:
        """Return the rendered objects that the API server does not have."""
        found: list[str] = []
        for manifest in rendered.objects((), self.flags, "--no-hooks"):
            group = manifest["apiVersion"].partition("/")[0]
            name = f"{manifest['kind']}.{group}/{manifest['metadata']['name']}"
            kind = manifest["kind"] if "/" not in manifest["apiVersion"] else name.partition("/")[0]
            where = f"--namespace={manifest['metadata'].get('namespace', NAMESPACE)}"
            requested = (
                "get",
                kind,
                manifest["metadata"]["name"],
                where,
                "--ignore-not-found",
                "-o=name",
            )
            if not self.at.plane.kubectl(*requested).strip():
                found.append(name)
        return found

    def remarks(self) -> list[str]:
        """Return what the API server has to say about our policies' expressions."""

        def checked() -> list[Json]:
            found = self.scene.cluster.items(_POLICIES)
            return (
                found if all("typeChecking" in policy.get("status", {}) for policy in found) else []
            )

        policies = await_true("the policies are checked", checked)
        return [str(policy) for policy in policies if policy["status"]["typeChecking"]]

    def something_was_here_before(self) -> None:
        """A case file and a report that are due to go, and a rule in the place of one of ours."""
        self.at.plane.kubectl("apply", "-f", "-", stdin=self._template("crds.yaml"))
        for kind in (REPORTS, INCIDENTS):
            name = f"{kind.rpartition('/')[2]}.draguard.dev"
            self.at.client.merge_patch(f"{_CRDS}/{name}", {"metadata": _ADOPTED})
            await_true(f"{name} is served", partial(served, self.at.client, kind))
        self.at.client.create(INCIDENTS, _case_of_last_year())
        status = {"phase": "Recovered", "history": {"closedTime": "2025-01-02T00:00:00Z"}}
        self.at.client.merge_patch(f"{INCIDENTS}/{OF_LAST_YEAR}/status", {"status": status})
        self.at.client.create(REPORTS, _report_of_last_year())
        status = {"observedTime": "2025-01-01T00:00:00Z"}
        self.at.client.merge_patch(f"{REPORTS}/{NODE_OF_LAST_YEAR}/status", {"status": status})
        self.at.client.create(RULES, _squatter())

    def the_chart_is_installed(self) -> None:
        self.at.helm("install", "draguard", str(rendered.CHART), "--create-namespace", self.flags)
        (pod,) = self.at.pods("exporter", 1)
        for name in ("sensor", "agent"):
            self.at.run(pod, name)
        for replica in self.at.pods("remediator", 2):
            self._remediators[replica.name] = self.at.run(replica, "remediator")
        (pod,) = self.at.pods("explainer", 1)
        self.at.run(pod, "explainer")
        await_true("somebody leads", self._leader)
        await_true(
            "the node reports", lambda: GPU_NODE in _names(self.scene.cluster.items(REPORTS))
        )

    def work_begins(self) -> None:
        self.scene.train(TRAIN, 2, workloads.gpu_request())
        spec = workloads.pod_spec(extended_gpus=1)
        body = workloads.deployment(EXTENDED, 1, spec)
        self.scene.cluster.add("apps/v1", "deployments", body)
        await_true("it runs", lambda: len(self._pods(EXTENDED)) == 1)

    def pods_wait(self) -> None:
        """One for a template that is not there, one on a node without a kubelet."""
        named = {"name": "gpu", "resourceClaimTemplateName": "nowhere"}
        waits = workloads.pod_spec() | {"resourceClaims": [named]}
        self.scene.cluster.add("v1", "pods", workloads.pod("no-template", waits))
        self.at.client.create(NODES, {"metadata": {"name": NO_KUBELET}})
        spec = workloads.pod_spec(shared_claim="nowhere") | {"nodeName": NO_KUBELET}
        self.scene.cluster.add("v1", "pods", workloads.pod("hangs", spec))
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        path = "/api/v1/namespaces/default/pods/hangs/status"
        self.at.client.merge_patch(path, {"status": {"conditions": [scheduled]}})
        for reason, name in (("TemplateMissing", "no-template"), ("ClaimMissing", "hangs")):
            await_true(f"{name} has an Event", partial(self._has_event, name, reason))

    def _has_event(self, pod: str, reason: str) -> bool:
        found = self.scene.cluster.items("/apis/events.k8s.io/v1/namespaces/default/events")
        return any(
            each["regarding"]["name"] == pod and each["note"].startswith(reason) for each in found
        )

    def a_gpu_fails_and_is_repaired(self) -> None:
        victim, device = next(iter(self.scene.holders(TRAIN).items()))
        number = int(device.rpartition("-")[2])
        self._break(number, action=1)
        self._await_rule(number, "NoExecute")
        await_true("its pod is gone", lambda: victim not in self.scene.holders(TRAIN))
        await_true("another runs", lambda: len(self.scene.holders(TRAIN)) == 2)
        self._await_phase(number, "Drained")
        self.at.node.heal(number)
        self._await_phase(number, "Recovered")
        assert device not in self.scene.rules()

    def the_leader_dies(self) -> None:
        before = self._leader()
        for container in self._remediators.values():
            if f"now leader ({before})" in container.logged():
                container.kill()
        await_true("the other one leads", lambda: self._leader() not in {"", before})

    def an_extended_resource_is_evicted(self) -> None:
        (pod,) = self._pods(EXTENDED)
        number = int(self.scene.cluster.device_of(pod["metadata"]["name"]).rpartition("-")[2])
        uid = pod["metadata"]["uid"]
        self._break(number, action=1)
        self._await_rule(number, "NoExecute")

        def moved() -> bool:
            uids = {other["metadata"]["uid"] for other in self._pods(EXTENDED)}
            return bool(uids) and uid not in uids

        await_true("its pod, which NoExecute does not reach, is moved", moved)

    def a_node_needs_a_reboot(self) -> None:
        self._break(REBOOT, action=2)
        await_true("the Node says so", lambda: "DraguardDeviceRepairNeeded" in self.conditions())

    def a_name_is_taken(self) -> None:
        """The taint waits until a person has taken the other rule away."""
        self._break(SQUATTED, action=1)
        name = _rule_name(SQUATTED)
        await_true(
            "it is said", lambda: any(name in container.logged() for container in self._alive())
        )
        self.at.client.delete(f"{RULES}/{name}")
        device = f"{GPU_NODE}/gpu-{SQUATTED}"
        await_true(f"{device} is tainted", lambda: device in self.scene.rules())

    def what_is_old_is_pruned(self) -> None:
        def left() -> set[str]:
            stored = (*self.scene.incidents(), *self.scene.cluster.items(REPORTS))
            return _names(stored) & {OF_LAST_YEAR, NODE_OF_LAST_YEAR}

        await_true("they are gone", lambda: not left())

    def the_chart_is_uninstalled(self) -> None:
        """Helm waits for its hooks, whose pods are played meanwhile."""
        await_true("there is something to take back", lambda: len(self.scene.rules()) == 3)
        failed: list[BaseException] = []

        def uninstall() -> None:
            try:
                self.at.helm("uninstall", "draguard")
            except BaseException as error:  # noqa: BLE001 - told in the test's own thread
                failed.append(error)

        helm = threading.Thread(target=uninstall, daemon=True)
        helm.start()
        played: set[str] = set()
        while helm.is_alive():
            self._play_hooks(played)
            self.at.stop_deleted()
            helm.join(0.1)
        assert not failed, failed
        assert len(played) >= 2, "before and after the release goes"
        await_true("the pods are gone", lambda: not self.at.pods_now("remediator"))

    def _play_hooks(self, played: set[str]) -> None:
        """Run each pod of the hook once, as a kubelet does."""
        for pod in self.at.pods_now("cleanup"):
            if pod.name in played:
                continue
            played.add(pod.name)
            hook = self.at.run(pod, "cleanup")
            self.at.finish(pod, hook.wait())
            self.released.append(hook.logged())

    def _break(self, number: int, *, action: int) -> None:
        self.at.node.set_recovery_action(number, action)
        self.at.node.inject_xid(number, 95, reset=True)

    def _await_rule(self, number: int, effect: str) -> None:
        device = f"{GPU_NODE}/gpu-{number}"
        await_true(f"{device} is {effect}", lambda: self.scene.rules().get(device) == effect)

    def _await_phase(self, number: int, phase: str) -> None:
        uuid = self.at.node.gpu(number).uuid
        await_true(f"{uuid} is {phase}", lambda: self._phase(uuid) == phase)

    def _phase(self, uuid: str) -> str:
        found = [
            incident for incident in self.scene.incidents() if incident["spec"]["uuid"] == uuid
        ]
        return str(found[-1].get("status", {}).get("phase", "")) if found else ""

    def _pods(self, name: str) -> list[Json]:
        running = self.scene.cluster.running()
        return [pod for pod in running if pod["metadata"]["name"].startswith(name)]

    def conditions(self) -> set[str]:
        node = self.scene.cluster.get(f"{NODES}/{GPU_NODE}")
        return {condition["type"] for condition in node["status"]["conditions"]}

    def _leader(self) -> str:
        found = read(self.at.client, NAMESPACE, LEASE_NAME)
        return (found.spec.holder_identity or "") if found else ""

    def _alive(self) -> list[Container]:
        return [container for container in self._remediators.values() if container.running]

    def _template(self, name: str) -> str:
        return rendered.text((), self.flags, f"--show-only=templates/{name}")


def _rule_name(number: int) -> str:
    return taint_rule.rule_name(Device(GPU_DRIVER, GPU_NODE, f"gpu-{number}"))


def _squatter() -> Json:
    """A rule of somebody else's under a name that one of ours must have."""
    taint = {"key": "example.com/mine", "effect": "None"}
    selector = {"driver": GPU_DRIVER, "pool": GPU_NODE, "device": f"gpu-{SQUATTED}"}
    spec = {"taint": taint, "deviceSelector": selector}
    return {"metadata": {"name": _rule_name(SQUATTED)}, "spec": spec}


def _names(objects: Iterable[Json]) -> set[str]:
    return {found["metadata"]["name"] for found in objects}


def _report_of_last_year() -> Json:
    """The report of a node that is gone."""
    return {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "NodeDeviceHealth",
        "metadata": {"name": NODE_OF_LAST_YEAR},
    }


def _case_of_last_year() -> Json:
    return {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "DeviceIncident",
        "metadata": {"name": OF_LAST_YEAR},
        "spec": {"node": GPU_NODE, "uuid": "GPU-of-last-year"},
    }
