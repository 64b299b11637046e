"""What the kubelet says, over real gRPC on a unix socket."""
# pyright: basic
# Reason: grpcio has no types.

import contextlib
import socket
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model.readings import ClaimDevice, ContainerDevices, PluginDevice
from exporter.sensor.kubelet import podresources_wire as wire
from exporter.sensor.kubelet.podresources import PodResources, PodResourcesError, list_containers
from simulator.node import SimulatedNode
from tests.lab.examples import examples

POD = {
    "name": "train-0",
    "namespace": "team",
    "containers": [
        {"name": "sidecar"},
        {
            "name": "main",
            "devices": [{"resource_name": "nvidia.com/gpu", "device_ids": ["GPU-1", "GPU-2"]}],
            "dynamic_resources": [
                {
                    "claim_name": "claim-0",
                    "claim_namespace": "team",
                    "claim_resources": [
                        {
                            "driver_name": "gpu.nvidia.com",
                            "pool_name": "node-a",
                            "device_name": "gpu-0",
                            "share_id": "share-1",
                            "cdi_devices": [{"name": "k8s.gpu.nvidia.com/claim=uid-gpu-0"}],
                        }
                    ],
                }
            ],
        },
    ],
}


def test_claims_and_device_plugin_ids_are_read_and_idle_containers_left_out(
    node: SimulatedNode,
) -> None:
    node.kubelet.set_pods([POD])
    (found,) = list_containers(node.kubelet.socket, deadline=60.0)
    cdi = ("k8s.gpu.nvidia.com/claim=uid-gpu-0",)
    claim = ClaimDevice("claim-0", "team", "gpu.nvidia.com", "node-a", "gpu-0", "share-1", cdi)
    plugin = tuple(PluginDevice("nvidia.com/gpu", uuid) for uuid in ("GPU-1", "GPU-2"))
    assert found == ContainerDevices("team", "train-0", "main", (claim,), plugin)


def test_an_answer_above_grpcs_usual_limit_is_read(node: SimulatedNode) -> None:
    node.kubelet.set_pods([POD])
    node.kubelet.swell(5 << 20)
    assert len(list_containers(node.kubelet.socket, deadline=60.0)) == 1


def reason(node: SimulatedNode, deadline: float = 60.0) -> str:
    with pytest.raises(PodResourcesError) as caught:
        list_containers(node.kubelet.socket, deadline=deadline)
    assert str(node.kubelet.socket) in str(caught.value)
    return caught.value.reason


def test_each_failure_has_a_word_and_a_sentence(node: SimulatedNode) -> None:
    node.kubelet.hang()
    assert reason(node, deadline=0.5) == "Timeout"
    node.kubelet.heal()
    node.kubelet.fail("UNIMPLEMENTED")
    assert reason(node) == "Unsupported"
    node.kubelet.fail("INTERNAL")
    assert reason(node) == "Unavailable"
    node.kubelet.heal()
    node.kubelet.swell(17 << 20)
    assert reason(node) == "TooLarge"
    node.kubelet.stop()
    assert reason(node) == "NotFound"


def busy(number: int) -> dict[str, Any]:
    claim = {
        "claim_name": f"claim-{number}",
        "claim_namespace": "team",
        "claim_resources": [
            {"driver_name": "gpu.nvidia.com", "pool_name": "node-a", "device_name": f"gpu-{number}"}
        ],
    }
    idle = {"name": "sidecar" * 8, "cpu_ids": list(range(300)), "memory": [{"memory_type": "x"}]}
    main = {"name": "main", "dynamic_resources": [claim]}
    return {"name": f"pod-{number}", "namespace": "team", "containers": [idle] * 50 + [main]}


def test_a_full_node_of_four_mebibytes_is_read_whole(node: SimulatedNode) -> None:
    pods = [busy(number) for number in range(160)]
    node.kubelet.set_pods(pods)
    kubelet = PodResources(node.kubelet.socket, deadline=60.0)
    found = kubelet.list()
    assert len(kubelet._bytes or b"") > 4 << 20  # noqa: SLF001 - that the test is what it says
    assert sorted(devices.claims[0].device for devices in found) == sorted(
        f"gpu-{n}" for n in range(160)
    )


def test_an_unchanged_answer_gives_the_same_tuple_whatever_its_order(node: SimulatedNode) -> None:
    kubelet = PodResources(node.kubelet.socket, deadline=60.0)
    node.kubelet.set_pods([busy(1), busy(2)])
    first = kubelet.list()
    assert kubelet.list() is first
    node.kubelet.set_pods([busy(2), busy(1)])
    assert kubelet.list() is first
    node.kubelet.set_pods([busy(2)])
    assert kubelet.list() != first


def test_a_kubelet_that_was_restarted_is_read_at_once(node: SimulatedNode) -> None:
    kubelet = PodResources(node.kubelet.socket, deadline=60.0)
    node.kubelet.set_pods([busy(1)])
    first = kubelet.list()
    node.kubelet.stop()
    with pytest.raises(PodResourcesError):
        kubelet.list()
    node.kubelet.start()
    assert kubelet.list() is first


def test_too_many_questions_are_not_taken_for_too_large_an_answer(node: SimulatedNode) -> None:
    node.kubelet.fail("RESOURCE_EXHAUSTED", "rejected by rate limit")
    assert reason(node) == "RateLimited"


class Answering:
    """A real gRPC server that answers List with the bytes it is given."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = b""
        self._threads = ThreadPoolExecutor(2)
        self._server = grpc.server(self._threads)
        handler = grpc.unary_unary_rpc_method_handler(lambda _request, _context: self.bytes)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(wire.SERVICE, {"List": handler}),)
        )
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait(5)
        self._threads.shutdown()


@pytest.fixture(scope="module")
def answering() -> Iterator[Answering]:
    with TemporaryDirectory(prefix="dg-") as root:
        server = Answering(Path(root) / "k.sock")
        yield server
        server.stop()


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=300))
def test_any_answer_is_a_list_or_an_error_with_a_word(answering: Answering, reply: bytes) -> None:
    answering.bytes = reply
    refused: PodResourcesError | None = None
    try:
        list_containers(answering.path, deadline=60.0)
    except PodResourcesError as error:
        refused = error
    assert refused is None or refused.reason == "Malformed"
    assert refused is None or f"{len(reply)} bytes" in str(refused)


def test_an_answer_without_sense_is_an_error_and_the_next_one_is_read(answering: Answering) -> None:
    kubelet = PodResources(answering.path, deadline=60.0)
    answering.bytes = b"\x0a\xff"
    with pytest.raises(PodResourcesError) as caught:
        kubelet.list()
    assert caught.value.reason == "Malformed"
    answering.bytes = b""
    assert kubelet.list() == ()


@contextlib.contextmanager
def speaking(message: bytes) -> Generator[Path]:
    """Open a socket behind which no gRPC server is."""
    with TemporaryDirectory(prefix="dg-") as root, socket.socket(socket.AF_UNIX) as server:
        path = Path(root) / "k.sock"
        server.bind(str(path))
        server.listen()
        ended = threading.Event()

        def serve() -> None:
            while True:
                connection, _ = server.accept()
                # Who asked may have lost patience before the answer came.
                with connection, contextlib.suppress(OSError):
                    if ended.is_set():
                        return
                    connection.sendall(message)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            ended.set()
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
            thread.join()


@pytest.mark.parametrize("message", [b"", b"HTTP/1.1 200 OK\r\n\r\n", bytes(range(256)) * 40])
def test_whoever_speaks_no_grpc_is_an_error(message: bytes) -> None:
    with speaking(message) as path, pytest.raises(PodResourcesError) as caught:
        list_containers(path, deadline=0.5)
    assert caught.value.reason in ("Unavailable", "Timeout")


def test_a_file_in_place_of_the_socket_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "k.sock").write_text("")
    with pytest.raises(PodResourcesError) as caught:
        list_containers(tmp_path / "k.sock", deadline=60.0)
    assert caught.value.reason == "Unavailable"
