"""Agents and CRDs that are a version apart, and refusals, on a real API server."""

import copy
import threading
from collections.abc import Generator, Iterator
from typing import Any

import msgspec
import pytest
import yaml

from exporter.agent.report import acceptance, ledger, outline
from exporter.agent.report.reporter import Reporter
from exporter.agent.report.stored_report import COLLECTION
from exporter.model.node_health import NodeDeviceHealth, NodeHealth, SourceHealth
from exporter.model.signals import Signal
from exporter.self_metrics import SelfMetrics
from exporter.settings import Settings
from kubeapi.client import ApiError, Client, NotFound
from simulator.cluster.controlplane import ControlPlane
from tests.exporter.agent.report.test_report_on_real_apiserver import CRDS, install
from tests.exporter.running import wait_for
from tests.exporter.worlds import START, Sensed, at, gpu, seen, with_bus

pytestmark = pytest.mark.verify

NODE = "node-skew"
PATH = f"{COLLECTION}/{NODE}"
Schema = dict[str, Any]

NEW_ON_TOP = ("switches", "inventory")
NEW_OF_A_GPU = ("fabric", "nvlink", "slowdowns", "xidsDropped")
"""Fields that the first CRD did not have."""


class Agent:
    """A reporter with the ledger behind it, as an agent has it."""

    def __init__(self, client: Client, interval: float = 0.2) -> None:
        settings = Settings(node_name=NODE, report_interval=interval, lease_namespace="default")
        self._client = client.sibling()
        self._adopted = threading.Event()
        self.metrics = SelfMetrics("1")
        self.report = ledger.begin("boot-1", "1", START)
        self.reporter = Reporter(settings, self._client, self.metrics, self._adopt)
        self.reporter.start()

    def _adopt(self, last: NodeHealth | None) -> None:
        if last is not None:
            self.report = ledger.adopt(last, "boot-1", "1", START)
        self._adopted.set()

    def __enter__(self) -> "Agent":
        assert self._adopted.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.reporter.stop()
        self._client.close()

    def take(self, *signals: Signal) -> None:
        self.report = ledger.take(self.report, signals, run="run-1", kernel_sequence=None)
        self.reporter.offer(self.report)

    def look(self, seconds: float = 0.0) -> None:
        changes = with_bus(seen(gpu(sram_threshold=False), seconds=seconds), gpu().bus_id)
        self.report = ledger.observe(self.report, changes)
        self.reporter.offer(self.report)

    def state(self, reason: str, *, up: bool) -> SourceHealth:
        """Wait for a state."""

        def found() -> SourceHealth | None:
            state = self.reporter.source()
            return state if (state.reason, state.up) == (reason, up) else None

        return wait_for(found, what=reason or "acceptance")


@pytest.fixture
def plane(control_plane: ControlPlane, client: Client) -> Iterator[ControlPlane]:
    """The shared control plane with our CRDs, which stay as they are in the repository."""
    install(control_plane, client)
    yield control_plane
    install(control_plane, client)
    wait_for(lambda: forget(client))


@pytest.fixture
def agent(plane: ControlPlane, client: Client) -> Generator[Agent]:
    with Agent(client) as running:
        yield running


def forget(client: Client) -> bool:
    """Delete the report; False while the CRD is being changed."""
    try:
        client.delete(PATH)
    except NotFound:
        return True
    return False


def stored(client: Client) -> NodeHealth:
    try:
        body = client.get(PATH)
    except NotFound:
        return NodeHealth()
    return msgspec.json.decode(body, type=NodeDeviceHealth).status


def raw_status(client: Client) -> Schema:
    found: Schema = msgspec.json.decode(client.get(PATH))
    return dict(found["status"])


def crd() -> Schema:
    text = (CRDS / "nodedevicehealths.yaml").read_text(encoding="utf-8")
    found: Schema = yaml.safe_load(text)
    return found


def status_of(definition: Schema) -> Schema:
    (version,) = definition["spec"]["versions"]
    found: Schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    return found


def older() -> Schema:
    definition = copy.deepcopy(crd())
    status = status_of(definition)
    for name in NEW_ON_TOP:
        del status[name]
    of_a_gpu = status["gpus"]["items"]["properties"]
    for name in NEW_OF_A_GPU:
        del of_a_gpu[name]
    del of_a_gpu["memory"]["properties"]["sramThresholdExceeded"]
    return definition


def newer() -> Schema:
    definition = copy.deepcopy(crd())
    status = status_of(definition)
    fact = {"type": "string", "description": "Of a later release."}
    status["laterFact"] = fact
    status["gpus"]["items"]["properties"]["laterFact"] = fact
    return definition


def apply(plane: ControlPlane, definition: Schema) -> None:
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(definition))


def sxid(number: int) -> Signal:
    return Signal(
        kind="sxid",
        source="kmsg",
        at=at(number),
        number=number,
        bus_id="0000:c2:00.0",
        code=20034,
        fatal=True,
        link=28,
    )


def xid_counts(report: NodeHealth) -> dict[int, int]:
    return {record.code: record.count for health in report.gpus for record in health.xids}


def test_everything_that_is_written_is_stored(client: Client, agent: Agent) -> None:
    agent.look()
    agent.take(Sensed().kmsg(1, 119), sxid(2))
    agent.state("", up=True)
    written = wait_for(lambda: found if (found := stored(client)).switches else None)
    assert (written.inventory.seen, written.inventory.on_bus) == (1, 1)
    assert written.switches == agent.report.switches
    assert written.gpus == outline.finished(agent.report).gpus


def test_an_older_crd_is_reported_and_what_it_knows_is_stored(
    plane: ControlPlane, client: Client, agent: Agent
) -> None:
    apply(plane, older())
    agent.look()
    agent.take(Sensed().kmsg(1, 79), sxid(2))
    state = agent.state("FieldsDropped", up=True)
    assert 'unknown field "status.' in state.message
    assert "deploy/manifests/crds.yaml" in state.message
    wait_for(lambda: "draguard_report_up 1.0" in agent.metrics.text().decode())
    wait_for(lambda: xid_counts(stored(client)) == {79: 1})
    assert "switches" not in raw_status(client)

    apply(plane, crd())
    agent.state("", up=True)
    wait_for(lambda: stored(client).switches == agent.report.switches)


def test_an_agent_goes_on_from_what_an_older_crd_left_of_its_report(
    plane: ControlPlane, client: Client
) -> None:
    sensed = Sensed()
    apply(plane, older())
    with Agent(client) as first:
        first.take(sensed.kmsg(1, 79))
        first.state("FieldsDropped", up=True)
        wait_for(lambda: xid_counts(stored(client)) == {79: 1})
    with Agent(client) as second:
        second.take(*sensed.ring.resume(second.report.cursor, "boot-1"), sensed.kmsg(20, 79))
        wait_for(lambda: xid_counts(stored(client)) == {79: 2})


def test_a_newer_crd_and_a_newer_agents_report_are_taken_as_far_as_they_are_known(
    plane: ControlPlane, client: Client
) -> None:
    apply(plane, newer())
    with Agent(client, interval=900.0) as first:
        first.take(Sensed().kmsg(1, 79))
        wait_for(lambda: xid_counts(stored(client)) == {79: 1})
    of_later: Schema = {**raw_status(client), "schemaVersion": 2, "laterFact": "x"}
    of_later["gpus"][0]["laterFact"] = "y"
    wait_for(lambda: _patched(client, of_later).get("laterFact"))
    with Agent(client) as second:
        assert xid_counts(second.report) == {79: 1}
        second.look(5)
        second.state("", up=True)
        wait_for(lambda: stored(client).schema_version == 1)
    assert xid_counts(stored(client)) == {79: 1}


def _patched(client: Client, status: Schema) -> Schema:
    client.merge_patch(f"{PATH}/status", {"status": status})
    return raw_status(client)


@pytest.mark.parametrize(("version", "count"), [(0, 2), (1, 2), (2, 2), (3, 1)])
def test_a_report_one_version_apart_is_taken_up_and_one_further_apart_is_begun_anew(
    plane: ControlPlane, client: Client, version: int, count: int
) -> None:
    sensed = Sensed()
    # Without a write under way at its end, which the server could still take afterwards.
    with Agent(client, interval=900.0) as first:
        first.take(sensed.kmsg(1, 79), sxid(2))
        wait_for(lambda: xid_counts(stored(client)) == {79: 1})
    client.merge_patch(f"{PATH}/status", {"status": {"schemaVersion": version}})
    with Agent(client) as second:
        assert [switch.pci_bus_id for switch in second.report.switches] == ["0000:c2:00.0"] * (
            count - 1
        )
        second.take(msgspec.structs.replace(sensed.kmsg(20, 79), number=50))
        wait_for(lambda: stored(client).schema_version == 1)
        wait_for(lambda: xid_counts(stored(client)) == {79: count})


def test_an_agent_without_the_right_to_write_says_what_to_grant(plane: ControlPlane) -> None:
    nobody = Client(plane.endpoint("remediator"), timeout=60.0)
    with _Unadopted(nobody) as writer:
        state = writer.state("Forbidden", up=False)
        assert "nodedevicehealths/status" in state.message
    nobody.close()


class _Unadopted(Agent):
    """An agent that cannot read its own report."""

    def __enter__(self) -> "Agent":
        return self


@pytest.mark.parametrize(
    ("mebibytes", "reason"), [(1.8, "Invalid"), (2, "Invalid"), (4, acceptance.TOO_LARGE)]
)
def test_what_a_real_server_says_of_a_report_that_is_too_large_is_understood(
    plane: ControlPlane, client: Client, agent: Agent, mebibytes: float, reason: str
) -> None:
    """The schema's limits refuse it before etcd could; above 3 MiB the server reads no further."""
    agent.look()
    agent.state("", up=True)
    text = "x" * int(mebibytes * (1 << 20))
    with pytest.raises(ApiError) as refused:
        client.merge_patch(f"{PATH}/status", {"status": {"driverVersion": text}})
    error = refused.value
    state = acceptance.refused(error.status, error.message, acceptance.STARTED)
    assert state.reason == reason, error.message


def test_a_value_that_the_crd_refuses_is_understood(
    plane: ControlPlane, client: Client, agent: Agent
) -> None:
    agent.look()
    agent.state("", up=True)
    wrong = {"gpus": [{"uuid": "GPU-1", "presence": "Sideways", "presenceTransitionTime": START}]}
    with pytest.raises(ApiError) as refused:
        client.merge_patch(f"{PATH}/status", {"status": wrong})
    error = refused.value
    assert acceptance.refused(error.status, error.message, acceptance.STARTED).reason == "Invalid"


def test_the_rows_of_kubectl_say_what_is_missing(plane: ControlPlane, agent: Agent) -> None:
    changes = with_bus(seen(gpu()), gpu().bus_id, gpu(2).bus_id)
    agent.report = ledger.observe(agent.report, changes)
    agent.reporter.offer(agent.report)
    agent.state("", up=True)

    def row() -> str:
        return plane.kubectl("get", "ndh", NODE, "-o", "wide", "--no-headers")

    wait_for(lambda: gpu(2).bus_id in row() and "1 GPUs missing" in row())
