"""What Prometheus scrapes of a real cluster: an incident's whole life, agents."""

import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from exporter.model.node_health import GpuHealth
from simulator.cluster.workloads import gpu_request
from tests.chain.scene import INCIDENTS, Scene, fresh
from tests.chain.test_incidents import for_seconds, intend
from tests.chain.test_taint_and_move import now, with_xids
from tests.exporter.running import free_port
from tests.lab.cluster import Json, await_true
from tests.lab.prometheus import Prometheus, check_metrics
from tests.remediator.builders import gpu, uuid

TAINTING = "defaults: {mode: enforce, settle: 1h, soak: 2h}"
"""Nobody is moved while a person takes his time to hold."""
EVICTING = """
defaults: {mode: enforce, settle: 1s, soak: 16s}
budget: {correlation: {after_change: 0s}}
"""


class Page:
    """The page of one replica, fetched anew at each look."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"

    def text(self) -> str:
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=30) as answer:
            return answer.read().decode()

    def samples(self, name: str) -> list[tuple[Mapping[str, str], float]]:
        return [
            (sample.labels, sample.value)
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
            if sample.name == name
        ]

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of a family by one label; 0 is left out, as one state of several."""
        found: defaultdict[str, float] = defaultdict(float)
        for labels, value in self.samples(name):
            found[labels[label]] += value
        return {word: value for word, value in found.items() if value}

    def await_by(self, name: str, label: str, expected: Mapping[str, float]) -> None:
        await_true(
            f"{name} by {label} is {expected}", lambda: self.by(name, label) == dict(expected)
        )


def remediator(scene: Scene, *flags: str) -> Page:
    port = free_port()
    scene.remediator(f"--listen=127.0.0.1:{port}", *flags)
    return Page(port)


def fails(health: GpuHealth) -> GpuHealth:
    """An error that only a reset ends: the recovery action says so until it is done."""
    return with_xids(health, now(95), recovery_action=fresh(1))


ITS_LIFE = {
    "incidents_opened_total": ("class", {"gpu": 1}),
    "incidents_closed_total": ("result", {"Recovered": 1}),
    "time_to_taint_seconds_count": ("class", {"gpu": 1}),
    "time_to_repair_seconds_count": ("class", {"gpu": 1}),
    "pods_evicted_total": ("by", {"NoExecute": 1}),
    "deferrals_total": ("reason", {"Human": 1}),
}
"""What is counted of one incident that was held, evicted for and mended."""


def test_the_page_tells_an_incident_from_its_first_signal_to_its_end(scene: Scene) -> None:
    one, other = gpu(0), gpu(1)
    scene.policy(TAINTING)
    scene.node("node-a", one, other)
    scene.train("train", 2, gpu_request())
    page = remediator(scene)
    page.await_by("draguard_devices", "state", {"allocated": 2})
    assert page.samples("draguard_incident_info") == []
    assert page.samples("draguard_incidents_omitted") == [({}, 0)]

    broken = fails(one)
    scene.report("node-a", broken, other)
    await_true("the incident is reported", scene.phase)
    intend(scene, "hold", for_seconds(600))
    await_true("the hold counts", lambda: scene.incident()["status"]["policy"].get("intents"))
    scene.policy(EVICTING)
    page.await_by("draguard_incident_deferred", "reason", {"Human": 1})
    page.await_by("draguard_incident_rules", "effect", {"NoSchedule": 1})
    await_true("affected pods are shown", lambda: page.samples("draguard_incident_consumer_info"))
    ((incident, _),) = page.samples("draguard_incident_info")
    ((consumer, _),) = page.samples("draguard_incident_consumer_info")
    name = scene.incident()["metadata"]["name"]
    assert incident == {
        "incident": name,
        "node": "node-a",
        "UUID": uuid(0),
        "class": "gpu",
        "cause": "xid-95",
        "scope": scene.incident()["status"]["scope"]["summary"],
    }
    assert consumer["pod_name"].startswith("train-")
    assert consumer["via"] == "claim"
    assert page.by("draguard_incident_mode", "mode") == {"enforce": 1}
    page.await_by("draguard_incident_phase", "phase", {"Tainted": 1})
    assert page.by("draguard_incident_needs", "needs") == {"gpu-reset": 1}
    assert page.by("draguard_incident_recurrence", "incident") == {name: 1}
    page.await_by("draguard_devices", "taint", {"none": 1, "draguard": 1})
    assert page.by("draguard_devices", "state") == {"allocated": 2}

    intend(scene, "hold", None)
    page.await_by("draguard_incident_rules", "effect", {"NoExecute": 1})
    page.await_by("draguard_incident_evicted_pods", "incident", {name: 1})
    assert page.samples("draguard_incident_deferred") == []
    page.await_by("draguard_incident_consumer_info", "via", {"evicted": 1})

    scene.report("node-a", with_xids(broken, *broken.xids, recovery_action=fresh(0)), other)
    scene.await_phase("Recovered")
    page.await_by("draguard_devices", "state", {"allocated": 2})

    def left() -> list[str]:
        return [line for line in page.text().splitlines() if line.startswith("draguard_incident_")]

    await_true("nothing of the incident is left", lambda: not left())
    assert len(scene.cluster.items(INCIDENTS)) == 1
    for family, (label, counted) in ITS_LIFE.items():
        page.await_by(f"draguard_remediator_{family}", label, counted)


def test_an_agent_that_falls_silent_is_stale_and_one_that_speaks_is_not(scene: Scene) -> None:
    for name in ("node-a", "node-b"):
        scene.node(name, gpu(0, node=name))
    scene.agents_live = False
    page = remediator(scene, "--stale-after=20")

    def reported(*speaking: str) -> dict[str, float]:
        for name in speaking:
            scene.alive(name)
        return {labels["node"]: stale for labels, stale in page.samples("draguard_agent_stale")}

    await_true("both speak", lambda: reported("node-a", "node-b") == {"node-a": 0, "node-b": 0})
    await_true("one is silent", lambda: reported("node-b") == {"node-a": 1, "node-b": 0})


def test_a_follower_tells_what_the_leader_tells(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    leader = remediator(scene)
    leads = "draguard_remediator_leader"
    await_true("it leads", lambda: leader.samples(leads) == [({}, 1)])
    follower = remediator(scene)

    scene.report("node-a", fails(one))

    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    for page in (leader, follower):
        page.await_by("draguard_incident_rules", "effect", {"NoExecute": 1})
        page.await_by("draguard_devices", "taint", {"draguard": 1})
    assert follower.samples(leads) == [({}, 0)]


WORDS = ('quotes" and {braces}', "lines\nof a\\ text", "<b>bold</b>")
"""What somebody may have written into an incident."""


def forged(number: int, word: str) -> Json:
    return {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "DeviceIncident",
        "metadata": {"name": f"forged-{number}"},
        "spec": {"node": "node-a", "uuid": uuid(number)},
    }


def found_by(word: str) -> Json:
    """The longest that the CRD takes."""
    scope: Json = {"summary": (word * 300)[:256], "devices": []}
    return {"status": {"fault": {"class": "gpu", "cause": word}, "scope": scope}}


def test_a_real_prometheus_reads_hostile_words_of_an_incident(
    scene: Scene, prometheus_built: Path, tmp_path: Path
) -> None:
    scene.policy("defaults: {mode: enforce, settle: 1s, soak: 1h}")
    scene.node("node-a", *(gpu(index) for index in range(len(WORDS))))
    for number, word in enumerate(WORDS):
        scene.cluster.client.create(INCIDENTS, forged(number, word))
        path = f"{INCIDENTS}/forged-{number}/status"
        scene.cluster.client.merge_patch(path, found_by(word))
    page = remediator(scene)
    await_true("all are there", lambda: len(page.samples("draguard_incident_info")) == len(WORDS))

    assert check_metrics(prometheus_built, page.text().encode()) == ""
    with Prometheus(
        prometheus_built, tmp_path, {"remediator": page.address}, port=free_port()
    ) as prometheus:
        scraped = await_true("it is scraped", lambda: prometheus.query("draguard_incident_info"))

        def content() -> bool:
            return [target["lastError"] for target in prometheus.targets()] == [""]

        await_true("nothing is wrong with a scrape", content)
    found = {series["metric"]["cause"]: series["metric"]["scope"] for series in scraped}
    assert set(found) == set(WORDS)
    assert all(scope[:240] == (word * 300)[:240] for word, scope in found.items())
    assert {len(scope) for scope in found.values()} == {256}
