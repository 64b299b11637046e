"""Memory of the exporter alone after pods that came and went, each with many labels."""

import time

from benchmarks.figures import Figure, Section
from benchmarks.growth import memory
from benchmarks.lone import SLICES, Ground, Lone
from benchmarks.scraper import page
from benchmarks.waiting import await_true
from simulator.cluster import workloads

PODS = 10_000
LABELS = 30
_LOOKS = 4
"""How often memory is looked at; the last ones must not differ."""
_SETTLE = 10.0
_PODS = "/api/v1/namespaces/ml/pods"
_NOW = {"gracePeriodSeconds": 0}


def measure(ground: Ground, pods: int = PODS) -> Section:
    title = f"Memory of {SLICES.name} after pods with {LABELS} labels each, all shown"
    ground.say(f"{title}: {pods:,} pods")
    with Lone(ground, SLICES, "--interval=0.2", "--pod-labels") as lone:
        time.sleep(_SETTLE)
        figures: list[Figure] = [*memory(lone, "at the start", parts=True)]
        gone = 0
        for look in range(1, _LOOKS + 1):
            while gone < look * pods // _LOOKS:
                gone += _generation(ground, lone, gone)
            figures += memory(lone, f"after {gone:,} pods", parts=True)
    return Section(title, tuple(figures))


def _generation(ground: Ground, lone: Lone, number: int) -> int:
    """Let new pods hold all devices until the page shows their labels; returns how many."""
    names = [f"past-{number + index}" for index in range(len(lone.held))]
    for name in names:
        made = workloads.pod(name, {**workloads.pod_spec(), "nodeName": lone.name})
        labels = {f"bench.example/label-{n}": f"value-of-{name}-{n}" for n in range(LABELS)}
        body = {**made, "metadata": {**made["metadata"], "labels": labels}}
        ground.client.create(_PODS, body)
    held = [{**claim, "name": name} for claim, name in zip(lone.held, names, strict=True)]
    lone.node.kubelet.set_pods(held)
    last = f"value-of-{names[-1]}-{LABELS - 1}".encode()
    await_true("the page shows the last pod's labels", lambda: last in page(lone.port))
    for name in names:
        ground.client.delete(f"{_PODS}/{name}", _NOW)
    return len(names)
