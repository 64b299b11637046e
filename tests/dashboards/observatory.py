"""A cluster that is watched as a user would: real programs, scraped by a real Prometheus.

Scenario by scenario every question that a dashboard asks is put to it, and kept with what it
answered.
"""

import urllib.error
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from dashboards.boards import Asked
from simulator.cluster.workloads import gpu_request, mig_request
from simulator.node import SimulatedNode
from tests.chain.scene import Scene
from tests.exporter.live.stage import connection
from tests.exporter.running import Exporter, free_port
from tests.lab.cluster import await_true
from tests.lab.prometheus import Prometheus

NODE, GPUS, MIG = "node-a", "4xH100", {3: ["1g.10gb"] * 7}
CLUSTER = "lab"
INTERVAL = "1s"
POLICY = "defaults: {mode: enforce, settle: 1s, soak: 600s}"
STALE_AFTER = 8
"""Seconds of silence after which an agent is not believed; its Lease is renewed each second."""
EXPORTER_JOB, REMEDIATOR_JOB = "draguard-exporter", "draguard-remediator"


class Answer(msgspec.Struct, frozen=True):
    """What one question brought: the series, or what Prometheus had against it."""

    series: int
    error: str = ""


class Observatory:
    """One node with four GPUs, the last in seven slices; jobs on them; all programs; Prometheus."""

    def __init__(self, scene: Scene, node: SimulatedNode, root: Path) -> None:
        self.scene = scene
        self.node = node
        self.exporter = Exporter(
            node, "run", *connection(scene.cluster.plane.endpoint(), root), "--lease-interval=1"
        )
        self.remediator_port = free_port()
        scene.policy(POLICY)

    def start(self) -> None:
        """Start everything, and the jobs; returns when each GPU is told as healthy."""
        player = self.scene.cluster.player
        player.add_node(NODE)
        player.publish(NODE, self.node.slices())
        self.exporter.start()
        self.exporter.wait_shows('draguard_source_up{source="nvml"} 1', "draguard_report_up 1")
        listen = f"127.0.0.1:{self.remediator_port}"
        remediator = self.scene.remediator("--listen", listen, "--stale-after", str(STALE_AFTER))
        remediator.await_saying(f"{NODE}: 4 healthy")
        self.scene.train("train", 2, gpu_request())
        self.scene.train("infer", 3, mig_request("1g.10gb"))
        self.told_to_the_kubelet()
        self.exporter.wait_shows("draguard_device_allocation_info{")

    def told_to_the_kubelet(self) -> None:
        """Let the kubelet's socket say which pods run now."""
        self.node.kubelet.set_pods(self.scene.cluster.player.pods_of(NODE))

    @property
    def targets(self) -> Mapping[str, str]:
        return {
            EXPORTER_JOB: f"127.0.0.1:{self.exporter.port}",
            REMEDIATOR_JOB: f"127.0.0.1:{self.remediator_port}",
        }

    def victim(self) -> int:
        """Return the index of a whole GPU that a job holds."""
        device = min(device for device in self.scene.holders("train").values())
        return int(device.rpartition("-")[2])

    def variables(self) -> Mapping[str, str]:
        """Return what Grafana would put in for each variable; the UUID is the victim's."""
        return {
            "cluster": CLUSTER,
            "node": NODE,
            "namespace": ".+",
            "claim": ".+",
            "incident": ".*",
            "__rate_interval": "10s",
            "__interval": "5s",
            "__range": "5m",
        }


def asked_as(expression: str, variables: Mapping[str, str]) -> str:
    """Put in the variables as Grafana does; the longest names first."""
    for name in sorted(variables, key=len, reverse=True):
        for written in (f"${{{name}}}", f"${name}"):
            expression = expression.replace(written, variables[name])
    return expression


def answers(
    prometheus: Prometheus, questions: Iterable[Asked], variables: Mapping[str, str]
) -> Mapping[Asked, Answer]:
    """Put every question to Prometheus."""
    return {one: _answer(prometheus, asked_as(one.expr, variables)) for one in questions}


def _answer(prometheus: Prometheus, expression: str) -> Answer:
    try:
        return Answer(len(prometheus.query(expression)))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(0, f"{error.read().decode()}: {expression}")


def await_answer(prometheus: Prometheus, what: str, expression: str) -> None:
    """Wait until an expression has an answer."""
    await_true(f"Prometheus knows that {what}", lambda: prometheus.query(expression))


Scenario = Callable[[Observatory, Prometheus], None]
"""Lets something happen, and returns when Prometheus has heard of it."""


def healthy(one: Observatory, prometheus: Prometheus) -> None:
    del one
    for name in (EXPORTER_JOB, REMEDIATOR_JOB):
        await_answer(prometheus, f"{name} is up", f'up{{job="{name}"}} == 1')
    await_answer(prometheus, "claims hold devices", "draguard_device_allocation_info")
    # Rates need two scrapes that both have the series.
    await_answer(prometheus, "time goes on", "count_over_time(draguard_gpu_info[1m]) > 5")


def a_gpu_is_lost(one: Observatory, prometheus: Prometheus) -> None:
    victim = one.victim()
    one.node.lose(victim)
    one.node.inject_xid(victim, 79, nvml=False)
    fenced = 'draguard_incident_rules{effect="NoExecute"} > 0'
    await_answer(prometheus, "it is fenced", fenced)
    one.told_to_the_kubelet()
    await_answer(prometheus, "the XID is counted", 'draguard_xid_errors_total{code="79"}')


def a_slice_fails(one: Observatory, prometheus: Prometheus) -> None:
    device = min(one.scene.holders("infer").values())
    start = int(device.rpartition("-")[2])
    (gi,) = [slot.gi for slot in one.node.gpu(3).instances if slot.start == start]
    one.node.inject_xid(3, 94, gi=gi, reset=False, drain_reset=False, kernel_instance=True)
    await_answer(prometheus, "its incident is open", 'draguard_incident_info{cause="xid-94"}')
    await_answer(prometheus, "it is counted", 'draguard_xid_errors_total{code="94"}')


def the_exporter_is_dead(one: Observatory, prometheus: Prometheus) -> None:
    one.exporter.kill()
    await_answer(prometheus, "it is down", f'up{{job="{EXPORTER_JOB}"}} == 0')


def the_agent_is_stale(one: Observatory, prometheus: Prometheus) -> None:
    del one
    await_answer(prometheus, "its agent is silent", "draguard_agent_stale == 1")


SCENARIOS: Mapping[str, Scenario] = {
    "healthy": healthy,
    "XID 79": a_gpu_is_lost,
    "slice fault": a_slice_fails,
    "exporter dead": the_exporter_is_dead,
    "agent stale": the_agent_is_stale,
}
"""In the order in which they happen, each on top of the one before."""


def play(
    one: Observatory, prometheus: Prometheus, questions: Iterable[Asked]
) -> Iterator[tuple[str, Mapping[Asked, Answer]]]:
    """Play all scenarios; yield each with what every question brought in it."""
    asked = tuple(questions)
    variables = {**one.variables(), "uuid": one.node.gpu(one.victim()).uuid}
    for name, happens in SCENARIOS.items():
        happens(one, prometheus)
        yield name, answers(prometheus, asked, variables)
