"""The remediator as a whole, on an API server in memory: its probes, policy file and Events."""

import ctypes
import gc
import http.client
import threading
from collections.abc import Generator
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest

from exporter.model.node_health import FabricHealth, GpuHealth
from kubeapi import clock
from kubeapi.endpoint import Endpoint
from remediator import __main__ as program
from remediator.controller import feature_gates
from remediator.controller.agents import LEASE_NAME
from remediator.model.incident import incident_name
from remediator.plan.events import NAMESPACE
from remediator.settings import Settings
from simulator.cluster.ports import free_port
from tests.chain.scene import resource_slice
from tests.lab.cluster import await_true
from tests.remediator.builders import NODE, dead, gpu, published, report, uuid
from tests.remediator.controller.api import (
    CLAIMS,
    GROUP,
    INCIDENTS,
    LEASES,
    NAMESPACES,
    PODS,
    REPORTS,
    RULES,
    SLICES,
    Api,
    Json,
    serving,
)

NODES = "/api/v1/nodes"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
CALLED = ("True", "NodeRebootNeeded")
WAITS = '\ndraguard_remediator_deferred_gpus{reason="RulesNotServed"} 1.0\n'
MISSING = "draguard_remediator_rule_status_missing"
ENFORCE = "defaults: {mode: enforce, settle: 100ms}"
# A thread that ends anywhere may leave the connection open that it had just made.
bugs_end_threads = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning",
    "ignore:unclosed <socket:ResourceWarning",
)


class Replica:
    """A remediator that runs, and what its page answers."""

    def __init__(self, settings: Settings) -> None:
        self._of_others = frozenset(threading.enumerate())
        self.remediator = program.Remediator(settings)
        self._port = int(settings.listen.rpartition(":")[2])
        self._thread = threading.Thread(target=self.remediator.run)
        self._thread.start()
        self._ended = False

    def stop(self) -> None:
        self.remediator.stop()
        self._thread.join(60)
        if self._ended:
            gc.collect()  # what it left open is found in this test and not in the next one

    def end(self, name: str) -> None:
        """End one of its threads as a bug would, without a word."""
        self._ended = True
        mine = frozenset(threading.enumerate()) - self._of_others
        (found,) = [thread.ident for thread in mine if thread.name == name and thread.ident]
        raised = ctypes.py_object(SystemExit)
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(found), raised) == 1

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page; (0, "") where nothing listens."""
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            link.close()


class Deployment:
    """An API server with one node, and the replicas of the remediator before it."""

    def __init__(self, api: Api, endpoint: Endpoint, folder: Path) -> None:
        self.api, self._endpoint = api, endpoint
        self._policy = folder / "policy.yaml"
        self._replicas: list[Replica] = []
        devices = [*published(gpu(0)), *published(gpu(1))]
        api.put(SLICES, "slice-a", spec=resource_slice(NODE, devices)["spec"])
        api.put(LEASES, f"draguard-agent-{NODE}", spec={"renewTime": _now()})
        self.report(gpu(0), gpu(1))

    def report(self, *gpus: GpuHealth) -> None:
        status = msgspec.structs.replace(report(*gpus), observed_at=clock.now(), content_hash="h1")
        self.api.put(REPORTS, NODE, status=msgspec.to_builtins(status))

    def policy(self, text: str) -> None:
        """Replace the policy file in one step, as a mounted ConfigMap is replaced."""
        fresh = self._policy.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.rename(self._policy)

    def start(self, identity: str = "first", *, resync: float = 60.0, **flags: Any) -> Replica:
        settings = Settings(
            **flags,
            policy=self._policy if self._policy.exists() else None,
            listen=f"127.0.0.1:{free_port()}",
            kube_server=self._endpoint.server,
            leader_identity=identity,
            resync=resync,
        )
        one = Replica(settings)
        self._replicas.append(one)
        await_true(f"{identity} has listed all", lambda: one.get("/readyz")[0] == 200)
        return one

    def stop(self) -> None:
        for replica in self._replicas:
            replica.stop()

    def events(self) -> list[Json]:
        """Return every Event of taint rules without effect."""
        posted = list(self.api.stored.get(EVENTS, {}).values())
        return [event for event in posted if event["reason"] == "RulesWithoutEffect"]

    def resync(self) -> None:
        """Wait until each replica has looked at all again, and once more."""
        before = self.api.reads.count(GROUP)
        looks = 3 * len(("slices", "claims", "rules")) * len(self._replicas)
        await_true("all is looked at", lambda: self.api.reads.count(GROUP) > before + looks)


@pytest.fixture
def deployment(tmp_path: Path) -> Generator[Deployment]:
    with serving() as (api, endpoint):
        found = Deployment(api, endpoint, tmp_path)
        try:
            yield found
        finally:
            found.stop()


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without the second between the first two looks at the policy file."""
    monkeypatch.setattr(program, "POLICY_LOOK", 0.05)


def _now() -> str:
    return clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LateServer:
    """Answers no write of a status until it may."""

    def __init__(self) -> None:
        self.waits, self.may_answer = threading.Event(), threading.Event()

    def __call__(self, status: Json) -> str:
        if status:
            self.waits.set()
            assert self.may_answer.wait(60)
        return ""


class TestReady:
    def test_a_replica_names_the_leader_whether_it_leads_or_follows(
        self, deployment: Deployment
    ) -> None:
        first = deployment.start("first")
        await_true("the first leads", lambda: "; leader (first)" in first.get("/readyz")[1])
        second = deployment.start("second")
        await_true("the second follows", lambda: "; follower of first" in second.get("/readyz")[1])

        first.stop()

        await_true("the second leads", lambda: "; leader (second)" in second.get("/readyz")[1])
        assert second.get("/readyz")[0] == 200


class TestHealthy:
    @bugs_end_threads
    def test_it_fails_with_any_watch_that_has_ended_and_names_it(
        self, deployment: Deployment
    ) -> None:
        one = deployment.start()
        watches = (REPORTS, INCIDENTS, LEASES, SLICES, CLAIMS, RULES, NODES, NAMESPACES)
        assert one.get("/healthz")[0] == 200

        for path in watches:
            one.end(f"reflector {path}")
            deployment.api.put(path, "any")  # it ends when it reads this
            await_true(f"{path} has ended", lambda path=path: path in one.get("/healthz")[1])
            assert one.get("/healthz")[0] == 503

        text = one.get("/healthz")[1]
        assert text.startswith("not ok: a watch has ended: watch of /")
        assert text.count("watch of /") == len(watches)

    @bugs_end_threads
    def test_it_fails_with_an_election_that_has_ended(self, deployment: Deployment) -> None:
        deployment.api.put(LEASES, LEASE_NAME, spec={"holderIdentity": "other"})
        one = deployment.start()  # a follower, which looks at the Lease each second
        assert one.get("/healthz")[0] == 200

        one.end("leader election")

        await_true("it fails", lambda: one.get("/healthz")[0] == 503)
        assert one.get("/healthz")[1] == "not ok: the leader election has ended\n"

    def test_it_fails_while_the_loop_has_not_turned_for_two_minutes(
        self, deployment: Deployment
    ) -> None:
        one = deployment.start()
        loop = one.remediator._loop  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - its two minutes need not pass
        deployment.api.misfit = late = LateServer()
        deployment.report(dead(0), gpu(1))
        await_true("the loop waits for an answer", late.waits.is_set)
        loop.last_pass = monotonic() - 60
        assert one.get("/healthz")[0] == 200

        loop.last_pass = monotonic() - 119

        await_true("it fails", lambda: one.get("/healthz")[0] == 503)
        assert one.get("/healthz")[1].startswith("not ok: the last pass of the loop was 12")
        late.may_answer.set()
        await_true("the loop turns again", lambda: one.get("/healthz")[0] == 200)


class TestPolicyFile:
    def test_a_changed_file_counts_within_seconds_and_without_a_restart(
        self, deployment: Deployment
    ) -> None:
        deployment.policy("{}")
        deployment.start()
        deployment.report(dead(0), gpu(1))
        await_true("an incident", lambda: deployment.api.stored.get(INCIDENTS))
        assert deployment.api.effects() == {}

        deployment.policy(ENFORCE)

        await_true("two looks have found it", deployment.api.effects, timeout=5)


@pytest.mark.usefixtures("quickly")
class TestRulesWithoutEffect:
    def test_are_reported_once_by_the_leader_on_their_incident(
        self, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deployment.policy(ENFORCE)
        replicas = [deployment.start(name, resync=0.1) for name in ("first", "second")]
        link = gpu(1, fabric=FabricHealth(state=3, status=15))
        deployment.report(dead(0), link)
        effects = {"gpu-0": "NoExecute", "gpu-1": "NoSchedule"}
        await_true("both are tainted", lambda: deployment.api.effects() == effects)
        deployment.resync()
        assert deployment.events() == []

        monkeypatch.setattr(feature_gates, "SILENT_AFTER", 0.0)

        await_true("it is reported", deployment.events)
        for replica in replicas:
            assert f"\n{MISSING} 1.0\n" in replica.get("/metrics")[1]
        deployment.resync()
        (event,) = deployment.events()
        incident = incident_name(uuid(0), 1)
        stored = deployment.api.stored[INCIDENTS][incident]["metadata"]
        assert event["regarding"]["kind"] == "DeviceIncident"
        assert event["regarding"]["name"] == incident
        assert event["regarding"]["uid"] == stored["uid"]
        assert event["type"] == "Warning"
        assert "enable the feature gate DRADeviceTaintRules" in event["note"]
        posted = deployment.api.writes.count(("POST", EVENTS))
        assert posted == len(deployment.api.stored[EVENTS]), "each Event once"

    def test_are_those_without_a_status_for_their_present_effect(
        self, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deployment.policy(ENFORCE)
        before = deployment.start()
        deployment.report(dead(0), gpu(1))
        await_true("it evicts", lambda: deployment.api.effects() == {"gpu-0": "NoExecute"})
        (name,) = deployment.api.stored[RULES]
        condition = {"type": feature_gates.CONDITION, "observedGeneration": 1}
        deployment.api.put(RULES, name, status={"conditions": [condition]})
        # The next one lists the rule with its status: no watch may be late with it.
        before.stop()
        monkeypatch.setattr(feature_gates, "SILENT_AFTER", 0.0)
        one = deployment.start("second", resync=0.05)
        await_true("it is seen", lambda: f"\n{MISSING} 0.0\n" in one.get("/metrics")[1])
        deployment.resync()
        assert deployment.events() == []

        deployment.api.put(RULES, name, metadata={"generation": 2})

        await_true("it is reported", deployment.events)


@pytest.mark.usefixtures("quickly")
class TestWithoutRules:
    """An API server that has never served DeviceTaintRules."""

    def condition(self, api: Api) -> tuple[str, str]:
        found = api.stored[NODES][NODE]["status"].get("conditions", [])
        return next(((one["status"], one["reason"]) for one in found), ("", ""))

    def started(self, deployment: Deployment, mode: str) -> Replica:
        deployment.api.unserved.add(RULES)
        deployment.api.put(NODES, NODE, status={})
        deployment.policy(f"defaults: {{mode: {mode}, settle: 100ms}}")
        one = deployment.start(resync=0.2, node_condition=True)
        deployment.report(dead(0), gpu(1))
        return one

    def test_enforce_repairs_nodes_and_writes_no_rule(self, deployment: Deployment) -> None:
        one, api = self.started(deployment, "enforce"), deployment.api
        await_true("the node is called for", lambda: self.condition(api) == CALLED)

        (incident,) = api.stored[INCIDENTS].values()
        status = incident["status"]
        assert (status["policy"]["mode"], status["phase"]) == ("Enforce", "Suspected")
        assert "NoExecute deferred: DeviceTaintRules are not served" in status["message"]
        assert api.effects() == {}
        assert [write for write in api.writes if RULES in write[1]] == []
        await_true("it is counted", lambda: WAITS in one.get("/metrics")[1])
        plan = one.get("/debug/plan")[1]
        assert "deferred: RulesNotServed: NoExecute deferred: DeviceTaintRules are not" in plan

    def test_a_pod_on_a_gpu_of_the_node_is_waited_for(self, deployment: Deployment) -> None:
        api = deployment.api
        holds_a_gpu(api, "gpu-1")
        self.started(deployment, "enforce")
        await_true("it waits", lambda: self.condition(api) == ("False", "WaitingForNeighbours"))

        api.leaves("train-0", "u-train-0")

        await_true("the node is called for", lambda: self.condition(api) == CALLED)

    def test_incident_only_writes_nothing_on_the_node(self, deployment: Deployment) -> None:
        self.started(deployment, "incident-only")

        def message() -> str:
            found = list(deployment.api.stored.get(INCIDENTS, {}).values())
            return found[0].get("status", {}).get("message", "") if found else ""

        await_true("an incident", message)
        assert message().startswith("incident-only: enforce would go up to NoExecute, but Device")
        assert self.condition(deployment.api) == ("", "")


def holds_a_gpu(api: Api, device: str, pod: str = "train-0") -> None:
    """Put a running pod on a device of the node."""
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": NODE, "device": device}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"u-{pod}"}],
    }
    api.put(CLAIMS, f"claim-{pod}", spec={"devices": {}}, status=status)
    meta = {"namespace": "team", "uid": f"u-{pod}"}
    api.put(PODS, pod, metadata=meta, spec={"nodeName": NODE}, status={"phase": "Running"})
