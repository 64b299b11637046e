"""Memory of the agent while all devices are held by one pod with 9,000 labels, all shown."""

import time

from benchmarks.figures import Figure, Section
from benchmarks.lone import SLICES, Ground, Layout, Lone
from benchmarks.processes import highest_megabytes, maps_of, pss_megabytes
from benchmarks.scraper import page
from benchmarks.waiting import await_true
from simulator.cluster import workloads

LABELS = 9_000
ONE = Layout("7 slices", "1xH100", {0: SLICES.mig[0]}, 7)
_LIMIT = "537"
"""MB: the chart's 512 Mi."""
_POD = "crowded"
_PODS = "/api/v1/namespaces/ml/pods"
_SETTLE = 20.0
"""Seconds in which pages are rendered one after the other."""


def measure(ground: Ground, layout: Layout) -> Section:
    title = f"Memory of {layout.name} held by one pod with {LABELS:,} labels, all shown"
    ground.say(title)
    with Lone(ground, layout, "--interval=0.5", "--pod-labels") as lone:
        agent = lone.exporter["agent"]
        labels = {
            f"bench.example/label-{n:05d}": f"value-{n:05d}".ljust(63, "v") for n in range(LABELS)
        }
        made = workloads.pod(_POD, {**workloads.pod_spec(), "nodeName": lone.name})
        ground.client.create(_PODS, {**made, "metadata": {**made["metadata"], "labels": labels}})
        lone.node.kubelet.set_pods([{**claim, "name": _POD} for claim in lone.held])
        shown = b'bench_example_label_00000="'
        await_true("the page shows the pod's labels", lambda: shown in page(lone.port), 120.0)
        time.sleep(_SETTLE)
        figures = (
            Figure(what="page", unit="MB", values=(len(page(lone.port)) / 1e6,)),
            _figure("agent, PSS", pss_megabytes(maps_of(agent))),
            _figure("agent, highest RSS", highest_megabytes(agent)),
        )
        ground.client.delete(f"{_PODS}/{_POD}", {"gracePeriodSeconds": 0})
    return Section(title, figures)


def _figure(what: str, megabytes: float) -> Figure:
    return Figure(what=what, unit="MB", values=(megabytes,), budget=_LIMIT)
