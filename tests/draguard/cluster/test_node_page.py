"""What a node's exporter says of a pod's devices, from a page as the exporter renders it."""

import json
from pathlib import Path

import msgspec
import pytest

from allocation.model.device_use import DeviceUse
from allocation.model.pods import Pod
from draguard.cluster.node_page import read_uses, uses_on
from draguard.connection.retrying_client import RetryingClient
from kubeapi.client import ApiError
from kubeapi.endpoint import Endpoint
from tests.draguard.bundle.playing import PlayedApi
from tests.draguard.bundle.test_collect import pod as own_pod

GOLDEN = Path(__file__).parents[2] / "golden/exporter/h100-shared.text"
KUBELET = 'draguard_source_up{source="podresources"} 1\n'
PAGE = GOLDEN.read_text() + KUBELET
GPU = "gpu.nvidia.com/node-a/gpu-0"
WHERE = "/api/v1/namespaces/draguard-system/pods/agent-1:9400/proxy/metrics"


def pod(name: str, uid: str = "") -> Pod:
    meta = {"name": name, "namespace": "team", "uid": uid or f"uid-{name}"}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": "node-a"}}, Pod)


def test_one_that_computes_and_one_without_a_process_share_a_gpu() -> None:
    assert uses_on(PAGE, pod("a")) == (DeviceUse(GPU, 1 << 30, 0.4),)
    assert uses_on(PAGE, pod("b")) == (DeviceUse(GPU, 0, 0.0),)


def test_a_pod_that_the_kubelet_has_given_nothing_has_none() -> None:
    assert uses_on(PAGE, pod("c")) == ()


def test_an_earlier_pod_of_its_name_is_another() -> None:
    assert uses_on(PAGE, pod("a", "uid-of-the-next")) == ()


def test_old_label_names_are_read_as_well() -> None:
    old = PAGE.replace("UUID=", "uuid=").replace('namespace="team"', 'pod_namespace="team"')
    old = old.replace(',pod="', ',pod_name="')

    assert uses_on(old, pod("a")) == (DeviceUse(GPU, 1 << 30, 0.4),)


@pytest.mark.parametrize(
    "page",
    [
        GOLDEN.read_text(),
        GOLDEN.read_text() + KUBELET.replace("} 1", ',reason="Down"} 0'),
        PAGE + 'draguard_join_misses{reason="NotPublished"} 1\n',
    ],
)
def test_nothing_is_known_of_it_where_the_join_does_not_know_all(page: str) -> None:
    assert uses_on(page, pod("c")) is None


@pytest.mark.parametrize(
    ("use", "idle", "text"),
    [
        (DeviceUse(GPU, 0), True, f"{GPU}: memory in use 0.0 GiB"),
        (DeviceUse(GPU, 3 << 29, 0.0), True, f"{GPU}: memory in use 1.5 GiB, 0% of its SM time"),
        (DeviceUse(GPU, 3 << 29, 0.5), False, f"{GPU}: memory in use 1.5 GiB, 50% of its SM time"),
        (DeviceUse(GPU, 3 << 29), False, f"{GPU}: memory in use 1.5 GiB"),
        (DeviceUse(GPU), False, f"{GPU}: memory in use unknown"),
    ],
)
def test_only_what_is_known_to_do_nothing_is_idle(use: DeviceUse, idle: bool, text: str) -> None:
    assert use.idle is idle
    assert str(use) == text


def read(answers: dict[str, object]) -> tuple[DeviceUse, ...] | None:
    requested: list[str] = []
    with PlayedApi(answers, (), requested) as api:
        client = RetryingClient(Endpoint(server=f"http://127.0.0.1:{api.port}"), timeout=5.0)
        try:
            return read_uses(client, pod("a"))
        finally:
            client.close()


def exporter() -> dict[str, list[object]]:
    found = json.loads(json.dumps(own_pod("agent-1", restarts=1)))
    found["metadata"]["namespace"] = "draguard-system"
    return {"items": [found]}


def test_the_page_comes_by_the_proxy_of_the_api_server() -> None:
    assert read({"/api/v1/pods": exporter(), WHERE: PAGE}) == (DeviceUse(GPU, 1 << 30, 0.4),)


def test_without_an_exporter_on_the_node_nothing_is_known() -> None:
    assert read({"/api/v1/pods": {"items": []}}) is None


def test_of_two_pods_that_may_be_the_exporter_none_is_believed() -> None:
    pods = {"items": [*exporter()["items"], own_pod("agent-2")]}

    assert read({"/api/v1/pods": pods, WHERE: PAGE}) is None


ENDLESS = f"{PAGE.replace('} 1073741824', '} +Inf')}"


@pytest.mark.parametrize("page", [{WHERE: PAGE + "draguard_join_misses{\n"}, {WHERE: ENDLESS}, {}])
def test_a_page_that_cannot_be_read_is_an_error(page: dict[str, object]) -> None:
    with pytest.raises(ApiError):
        read({"/api/v1/pods": exporter(), **page})
