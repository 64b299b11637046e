"""`draguard why` after the scheduler: what a real kubelet, driver and container runtime say."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import pytest

from simulator.cluster.workloads import claim, gpu_request, pod, pod_spec
from tests.draguard.printed import printed
from tests.lab.cluster import await_true
from tests.lab.node.containerd import CDI_FOLDER, PAUSE
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.workload import PODS, Json, Workload

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
NAME = "why"
WHOLE = re.compile(r"gpu-\d+")
COUNTED = re.compile(r'draguard_claims{.*reason="PreparationFailed".*} 1')
Explain = Callable[[], Json]


@pytest.fixture
def why(node: RealNode, capsys: pytest.CaptureFixture[str]) -> Explain:
    def run() -> Json:
        where = ("--kubeconfig", str(node.plane.kubeconfig), "-o", "json")
        found = msgspec.json.decode(printed(capsys, "why", NAME, *where), type=Json)
        return found["finding"]

    return run


@pytest.fixture
def start(node: RealNode) -> Iterator[Callable[[str], None]]:
    """Create the pod with a claim of one GPU and this image; both are gone after the test."""

    def create(image: str) -> None:
        node.client.create(CLAIMS, claim(NAME, gpu_request()))
        spec = pod_spec(shared_claim=NAME)
        spec["containers"][0] |= {"image": image, "imagePullPolicy": "Never"}
        node.client.create(PODS, pod(NAME, spec))

    yield create
    node.client.delete(f"{PODS}/{NAME}", {"gracePeriodSeconds": 1})
    await_true("the pod is gone", lambda: NAME not in _names(node, PODS))
    node.client.delete(f"{CLAIMS}/{NAME}")
    await_true("the claim is gone", lambda: NAME not in _names(node, CLAIMS))


def _names(node: RealNode, path: str) -> set[str]:
    return {each["metadata"]["name"] for each in node.items(path)}


def reason(why: Explain, expected: str) -> Json:
    found: Json = {}

    def is_expected() -> bool:
        found.update(why())
        return found["reason"] == expected

    try:
        await_true(f"the reason is {expected}", is_expected, 90)
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from None
    return found


def test_a_pod_that_waits_learns_which_claim_has_the_gpus_and_runs_once_they_are_free(
    node: RealNode, why: Explain, start: Callable[[str], None]
) -> None:
    """By the scheduler's own allocation, and by what the driver publishes."""
    devices = [device for each in node.slices() for device in each["spec"]["devices"]]
    whole = [device for device in devices if WHOLE.fullmatch(device["name"])]
    holder = Workload(node, "why-holder", gpu_request(count=len(whole)))
    try:
        start(PAUSE)
        found = reason(why, "Allocated")
    finally:
        holder.remove()

    assert found["layer"] == "Allocation"
    text = f"0 can be had, {len(whole)} allocated (default/why-holder-"
    assert text in found["message"]
    assert reason(why, "Running")


def test_a_driver_that_is_down_does_not_answer_and_then_the_pod_runs(
    node: RealNode, why: Explain, start: Callable[[str], None]
) -> None:
    """For half a minute the scheduler still knows its slices."""
    node.driver.stop()
    try:
        start(PAUSE)
        found = reason(why, "DriverDown")
    finally:
        node.gpus.republish()
        node.driver.start()

    assert found["layer"] == "Preparation"
    assert found["message"] == (
        f"DRA driver gpu.nvidia.com does not answer the kubelet of {node.name}"
    )
    assert reason(why, "Running")["message"].startswith(f"it runs on {node.name} with gpu.nvidia")


def test_a_gpu_that_is_lost_between_allocation_and_preparation_is_the_driver_s_error(
    node: RealNode, release: Release, why: Explain, start: Callable[[str], None]
) -> None:
    """The driver publishes all GPUs still, and finds none of them."""
    published = json.loads(node.gpus.published.read_text())
    node.gpus.published.write_text(json.dumps({**published, "edits": {}}))
    try:
        start(PAUSE)
        found = reason(why, "PreparationFailed")
        page = partial(release.page, "explainer", 9403, "metrics")
        await_true("the metric says so", lambda: COUNTED.search(page()), 90)
    finally:
        node.gpus.republish()

    assert "it has no container edits" in found["evidence"][0]
    assert reason(why, "Running")


def test_a_cdi_file_that_is_missing_is_the_runtime_s_error(
    node: RealNode, why: Explain, start: Callable[[str], None]
) -> None:
    start("no-such-image:1")
    assert reason(why, "ContainerNotStarted")["layer"] == "Runtime"

    files = node.plane.inside("sh", "-c", f"ls {CDI_FOLDER}/*").split()
    uid = msgspec.json.decode(node.client.get(f"{CLAIMS}/{NAME}"), type=Json)["metadata"]["uid"]
    mine = [file for file in files if uid in file]
    node.plane.inside("rm", *mine)
    change = {"spec": {"containers": [{"name": "main", "image": PAUSE}]}}
    node.client.strategic_merge_patch(f"{PODS}/{NAME}", change)

    found = reason(why, "CdiDeviceMissing")
    assert "CDI" in found["evidence"][0]
