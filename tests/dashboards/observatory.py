"""A cluster that is watched as a user would: real programs, scraped by a real Prometheus.

Scenario by scenario every question that a dashboard asks is put to it, and kept with what it
answered.
"""

import re
import time
import urllib.error
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from dashboards.boards import BoardQuery
from simulator.cluster.workloads import DRIVER, claim, gpu_request, mig_request
from simulator.node import SimulatedNode
from tests.chain.scene import Scene
from tests.chain.test_cluster_metrics import Page
from tests.dashboards import crowd
from tests.exporter.live.stage import connection
from tests.exporter.running import Exporter, free_port
from tests.lab.cluster import RULES, await_true
from tests.lab.kubelets import pods_on
from tests.lab.prometheus import Prometheus

NODE, GPUS, MIG = "node-a", "4xH100", {3: ["1g.10gb"] * 7}
CLUSTER = "lab"
INTERVAL = "1s"
POLICY = """
defaults: {{mode: {mode}, settle: 1s, soak: 15s}}
budget: {{evict: {{cluster: {cluster}}}, correlation: {{after_change: 0s}}}}
"""
WATCHING = POLICY.format(mode="incident-only", cluster=16)
NOBODY_IS_MOVED = POLICY.format(mode="enforce", cluster=0)
ALL_MAY_BE_MOVED = POLICY.format(mode="enforce", cluster=16)
ALL_ARE_EVICTED = ALL_MAY_BE_MOVED + "classes: {lost: {evict: {within: 1s, then: wait}}}\n"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
HANGS_AFTER = 10
"""Seconds after which a call is given up; a process that stalls for less is not taken for hung."""
STALE_AFTER = 20
"""Seconds of silence after which an agent is not believed; its Lease is renewed each second, and a
busy machine may stop it for some."""
EXPORTER_JOB, REMEDIATOR_JOB = "draguard-exporter", "draguard-remediator"
EXPLAINER_JOB = "draguard-explainer"


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
            node,
            "run",
            *connection(scene.cluster.plane.endpoint(), root),
            "--lease-interval=1",
            f"--sample-deadline={HANGS_AFTER}",
        )
        self.remediator_port, self.explainer_port = free_port(), free_port()
        scene.policy(WATCHING)

    def start(self) -> None:
        """Start everything, and the jobs; returns when each GPU is reported as healthy."""
        player = self.scene.cluster.player
        player.add_node(NODE)
        player.publish(NODE, self.node.slices())
        self.exporter.start()
        self.exporter.wait_shows('draguard_source_up{source="nvml"} 1', "draguard_report_up 1")
        listen = f"127.0.0.1:{self.remediator_port}"
        remediator = self.scene.remediator("--listen", listen, "--stale-after", str(STALE_AFTER))
        remediator.await_saying(f"{NODE}: 4 healthy")
        self.scene.explainer("--listen", f"127.0.0.1:{self.explainer_port}")
        # Only what it sees allocated and started is counted.
        page = Page(self.explainer_port)
        await_true("the explainer has looked", partial(_has_looked, page))
        alone = claim("alone", gpu_request())
        self.scene.cluster.add("resource.k8s.io/v1", "resourceclaims", alone)
        self.scene.train("train", 3, gpu_request())
        self.scene.train("infer", 3, mig_request("1g.10gb"))
        self.show_to_the_kubelet()
        self.exporter.wait_shows("draguard_device_allocation_info{")

    def show_to_the_kubelet(self) -> None:
        """Let the kubelet's socket say which pods run now."""
        self.node.kubelet.set_pods(pods_on(self.scene.cluster, NODE))

    @property
    def targets(self) -> Mapping[str, str]:
        return {
            EXPORTER_JOB: f"127.0.0.1:{self.exporter.port}",
            REMEDIATOR_JOB: f"127.0.0.1:{self.remediator_port}",
            EXPLAINER_JOB: f"127.0.0.1:{self.explainer_port}",
        }

    def slices(self) -> list[str]:
        """Return every published MIG slice as `pool/device`."""
        devices = [device for made in self.node.slices() for device in made["spec"]["devices"]]
        return [f"{NODE}/{device['name']}" for device in devices if "-mig-" in device["name"]]

    def taint(self, device: str) -> None:
        """Taint a device as a person would, by a rule that is none of ours."""
        pool, _, name = device.partition("/")
        selector = {"driver": DRIVER, "pool": pool, "device": name}
        taint = {"key": "example.com/burn-in", "effect": "NoSchedule"}
        spec = {"deviceSelector": selector, "taint": taint}
        body = {"metadata": {"name": "burn-in"}, "spec": spec}
        self.scene.cluster.client.create(RULES, body)

    def taint_by_driver(self, device: str) -> None:
        """Publish a device with a taint, as a driver does."""
        self.node.generation += 1
        published = self.node.slices()
        for made in (made for each in published for made in each["spec"]["devices"]):
            if made["name"] == device.rpartition("/")[2]:
                made["taints"] = [{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}]
        self.scene.cluster.player.publish(NODE, published)

    def protect(self, app: str) -> None:
        """Forbid to disrupt any pod of an app."""
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        body |= {"metadata": {"name": app}, "spec": spec}
        self.scene.cluster.add("policy/v1", "poddisruptionbudgets", body)

    def victim(self) -> int:
        """Return the index of a whole GPU that a job holds."""
        device = min(device for device in self.scene.holders("train").values())
        return int(device.rpartition("-")[2])


def _has_looked(page: Page) -> bool:
    try:
        return bool(page.samples("draguard_explainer_rows_dropped"))
    except OSError:
        return False


VARIABLES: Mapping[str, str] = {
    "cluster": CLUSTER,
    "node": NODE,
    "namespace": ".*",
    "claim": ".*",
    "held": ".+",
    "incident": ".*",
    "instance": ".+",
    "Hostname": ".+",
    "gpu": ".+",
    "__rate_interval": "10s",
    "__interval": "120s",
    "__interval_ms": "120000",
    "__range": "5m",
    "ago": "5s",
}
"""What Grafana would put in; `uuid` is that of the GPU that is lost."""
Variables = Callable[[], Mapping[str, str]]
"""Filled in before each question, since time goes on between two of them."""


def since(began: float, uuid: str) -> Mapping[str, str]:
    """Return the variables for a scenario; what was is what was before it, however long it took."""
    passed = int(time.monotonic() - began) + 10
    return {**VARIABLES, **_looking_back(passed), "uuid": uuid}


def _looking_back(seconds: int) -> Mapping[str, str]:
    back = dict.fromkeys(("ago", "__interval", "__rate_interval"), f"{seconds}s")
    return {**back, "__interval_ms": f"{seconds}000"}


def filled_in(expression: str, variables: Mapping[str, str]) -> str:
    """Put in the variables as Grafana does, the longest names first.

    What is compared with an hour ago is compared with `ago`: a scenario is short.
    """
    for name in sorted(variables, key=len, reverse=True):
        for written in (f"${{{name}}}", f"${name}"):
            expression = expression.replace(written, variables[name])
    return re.sub(r"\boffset \d+[mhd]", f"offset {variables['ago']}", expression)


def answers(
    prometheus: Prometheus, questions: Iterable[BoardQuery], variables: Variables, at: float = 0.0
) -> Mapping[BoardQuery, Answer]:
    """Put every question to Prometheus, of Unix time `at`; 0: of now."""
    return {
        question: _answer(prometheus, filled_in(question.expr, variables()), at)
        for question in questions
    }


GAPS = f"""
min_over_time(up{{job="{REMEDIATOR_JOB}"}}[1m]) == 0
or min_over_time(up{{job="{EXPORTER_JOB}"}}[1m]) == 0 and up == 1
"""
"""Programs that live, and did not answer a scrape in time."""
ROUNDS = 10


def queried_around_gaps(
    prometheus: Prometheus, questions: Iterable[BoardQuery], variables: Variables
) -> Mapping[BoardQuery, Answer]:
    """Put every question; again where a machine too busy for a scrape may have cost the answer."""
    found = answers(prometheus, questions, variables)
    for number in range(1, ROUNDS):
        unanswered = [
            question for question, answer in found.items() if not answer.series and not answer.error
        ]
        if not unanswered or not prometheus.query(GAPS):
            break
        time.sleep(1)
        found = {**found, **answers(prometheus, unanswered, partial(earlier, variables, number))}
    return found


def earlier(variables: Variables, seconds: int) -> Mapping[str, str]:
    """Return them with a look back that goes farther."""
    now = variables()
    return {**now, **_looking_back(int(now["ago"].removesuffix("s")) + seconds)}


def _answer(prometheus: Prometheus, expression: str, at: float) -> Answer:
    try:
        return Answer(len(crowd.queried(prometheus, expression, at or time.time())))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(0, f"{error.read().decode()}: {expression}")


def await_answer(prometheus: Prometheus, what: str, expression: str) -> None:
    """Wait until an expression has an answer."""
    await_true(f"Prometheus knows that {what}", lambda: prometheus.query(expression))


Scenario = Callable[[Observatory, Prometheus], None]
"""Lets something happen, and returns when Prometheus has observed it."""


def healthy(observatory: Observatory, prometheus: Prometheus) -> None:
    del observatory
    for name in (EXPORTER_JOB, REMEDIATOR_JOB, EXPLAINER_JOB):
        await_answer(prometheus, f"{name} is up", f'up{{job="{name}"}} == 1')
    await_answer(prometheus, "claims hold devices", "draguard_device_allocation_info")
    await_answer(prometheus, "claims run", 'draguard_claims{state="Running"}')
    # Rates need two scrapes that both have the series.
    await_answer(prometheus, "time goes on", "count_over_time(draguard_gpu_info[1m]) > 5")


def a_gpu_is_lost_and_we_only_watch(observatory: Observatory, prometheus: Prometheus) -> None:
    victim = observatory.victim()
    observatory.node.lose(victim)
    observatory.node.inject_xid(victim, 79, nvml=False)
    await_answer(prometheus, "affected pods", "draguard_incident_consumer_info")
    await_answer(prometheus, "the XID is counted", 'draguard_xid_errors_total{code="79"}')


def the_budget_is_used_up(observatory: Observatory, prometheus: Prometheus) -> None:
    observatory.scene.policy(NOBODY_IS_MOVED)
    await_answer(prometheus, "its pod is not moved", 'draguard_incident_deferred{reason="Budget"}')


def its_pods_budget_refuses(observatory: Observatory, prometheus: Prometheus) -> None:
    observatory.protect("train")
    observatory.scene.policy(ALL_ARE_EVICTED)
    await_answer(prometheus, "its pod stays", "draguard_incident_eviction_blocked == 1")


def its_pod_is_moved(observatory: Observatory, prometheus: Prometheus) -> None:
    observatory.scene.policy(ALL_MAY_BE_MOVED)
    observatory.scene.cluster.client.delete(f"{BUDGETS}/train")
    moved = 'draguard_incident_rules{effect="NoExecute"} > 0'
    await_answer(prometheus, "it is moved", moved)
    await_answer(
        prometheus,
        "its successor finds no device",
        'draguard_claim_since_timestamp_seconds{state="Pending", reason=~"Allocated|Tainted"}',
    )
    observatory.show_to_the_kubelet()
    drained = "draguard_remediator_time_to_drain_seconds_count > 0"
    await_answer(prometheus, "nobody is left on it", drained)


def a_slice_fails_beside_one_that_a_person_tainted(
    observatory: Observatory, prometheus: Prometheus
) -> None:
    taken = set(observatory.scene.holders("infer").values())
    by_user, by_driver, *_ = (name for name in observatory.slices() if name not in taken)
    observatory.taint(by_user)
    observatory.taint_by_driver(by_driver)
    device = min(taken)
    start = int(device.rpartition("-")[2])
    (gi,) = [slot.gi for slot in observatory.node.gpu(3).instances if slot.start == start]
    observatory.node.inject_xid(3, 94, gi=gi, reset=False, drain_reset=False, kernel_instance=True)
    await_answer(prometheus, "its incident is open", 'draguard_incident_info{cause="xid-94"}')
    await_answer(prometheus, "it is counted", 'draguard_xid_errors_total{code="94"}')
    for taint in ("other", "driver"):
        await_answer(prometheus, "one is tainted", f'draguard_devices{{taint="{taint}"}} > 0')


def the_lost_gpu_is_back(observatory: Observatory, prometheus: Prometheus) -> None:
    for index in range(3):
        observatory.node.heal(index)
    tainted = 'sum(draguard_incident_rules{effect!="None"}) > 0'
    # Who leads says so: where a scrape failed, nothing is said at all.
    free = f"draguard_remediator_leader == 1 unless on () {tainted}"
    await_answer(prometheus, "nothing is tainted any more", free)
    await_true("all pods have devices again", lambda: len(observatory.scene.holders("train")) == 3)
    observatory.show_to_the_kubelet()
    held = 'count(count by (UUID) (draguard_device_allocation_info{dra_claim_name!=""})) == 4'
    await_answer(prometheus, "all GPUs are held", held)
    waits = 'draguard_claims{state="Pending", reason!="NoPod"}'
    running = f'draguard_claims{{state="Running"}} unless on () {waits}'
    await_answer(prometheus, "the claim runs", running)
    await_answer(prometheus, "one has waited for a minute", 'draguard_claims_older{age="1m"}')


def the_kubelet_does_not_answer(observatory: Observatory, prometheus: Prometheus) -> None:
    observatory.node.kubelet.fail()
    down = 'draguard_source_up{source="podresources"} == 0'
    await_answer(prometheus, "the source is down", down)


def a_gpu_hangs(observatory: Observatory, prometheus: Prometheus) -> None:
    observatory.node.hang(0)
    await_answer(prometheus, "a call did not come back", "draguard_source_hang_info")


def the_exporter_is_dead(observatory: Observatory, prometheus: Prometheus) -> None:
    observatory.exporter.kill()
    await_answer(prometheus, "it is down", f'up{{job="{EXPORTER_JOB}"}} == 0')


def the_agent_is_stale(observatory: Observatory, prometheus: Prometheus) -> None:
    del observatory
    await_answer(prometheus, "its agent is silent", "draguard_agent_stale == 1")


SCENARIOS: Mapping[str, Scenario] = {
    "healthy": healthy,
    "XID 79, watched": a_gpu_is_lost_and_we_only_watch,
    "XID 79, held": the_budget_is_used_up,
    "XID 79, blocked": its_pods_budget_refuses,
    "XID 79, moved": its_pod_is_moved,
    "slice fault": a_slice_fails_beside_one_that_a_person_tainted,
    "released": the_lost_gpu_is_back,
    "source down": the_kubelet_does_not_answer,
    "GPU hangs": a_gpu_hangs,
    "exporter dead": the_exporter_is_dead,
    "agent stale": the_agent_is_stale,
}
"""In the order in which they happen, each on top of the one before."""


RICHEST = "slice fault"
"""A GPU is lost and its pod was moved, a slice of another is at fault, the rest is well."""


def play(
    observatory: Observatory,
    prometheus: Prometheus,
    questions: Iterable[BoardQuery],
    oldest: Prometheus,
) -> Iterator[tuple[str, Mapping[BoardQuery, Answer]]]:
    """Play all scenarios; yield each with what every question brought in it.

    Last comes what the oldest release that is supported made of the richest of them.
    """
    requested = tuple(questions)
    lost, sliced = (
        observatory.node.gpu(observatory.victim()).uuid,
        observatory.node.gpu(max(MIG)).uuid,
    )
    of_oldest: Mapping[BoardQuery, Answer] = {}
    for name, happens in SCENARIOS.items():
        began = time.monotonic()
        happens(observatory, prometheus)
        variables = partial(since, began, sliced if name == RICHEST else lost)
        moment = time.time()
        reported = queried_around_gaps(prometheus, requested, variables)
        if name == RICHEST:
            of_oldest = caught_up(oldest, reported, moment, variables)
        yield name, reported
    yield OLDEST, of_oldest


OLDEST = "on Prometheus 2.42"


NEARBY = sorted(range(-30, 31), key=abs)
"""Seconds; two servers do not scrape at the same times."""


def caught_up(
    oldest: Prometheus, reported: Mapping[BoardQuery, Answer], moment: float, variables: Variables
) -> Mapping[BoardQuery, Answer]:
    """Return what another server answers of when the first was queried: the scenario has gone on.

    Of nearby where that is less. Where it never is as much, its answers are returned all the same,
    for a test to name them.
    """
    found: Mapping[BoardQuery, Answer] = {}
    for shift in NEARBY:
        less = [
            question
            for question, answer in reported.items()
            if question not in found or (answer.series and not found[question].series)
        ]
        if not less:
            break
        time.sleep(max(0.0, moment + shift + 1 - time.time()))
        found = {**found, **answers(oldest, less, variables, moment + shift)}
    return found
