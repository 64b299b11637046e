"""The kubelet's PodResources server: answers List from a value that can be swapped.

A gRPC server on a unix socket. It can hang, fail, and answer
more than a client expects.
"""
# pyright: basic
# Reason: grpcio has no types, and the PodResources messages are built at run time.

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from simulator import kubelet_api as api

_MAX_HANG_SECONDS = 600.0


class KubeletError(Exception):
    """The simulated kubelet cannot serve; the message says what to do."""


class Kubelet:
    """Serves PodResources v1 on `socket`.

    A pod is a mapping with the field names of the API:
    `{"name": .., "namespace": .., "containers": [{"name": .., "devices":
    [{"resource_name": .., "device_ids": [..]}], "dynamic_resources":
    [{"claim_name": .., "claim_namespace": .., "claim_resources":
    [{"driver_name": .., "pool_name": .., "device_name": .., "share_id": ..,
    "cdi_devices": [{"name": ..}]}]}]}]}`.
    """

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.calls = 0
        """List calls that arrived."""
        self._answer = api.ListPodResourcesResponse()
        self._status: tuple[grpc.StatusCode, str] | None = None
        self._go_on = threading.Event()
        self._go_on.set()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Begin to serve; raises KubeletError when the socket cannot be bound."""
        self.socket.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(4, thread_name_prefix="simulated-kubelet"))
        server.add_generic_rpc_handlers((_handlers(self),))
        try:
            server.add_insecure_port(f"unix:{self.socket}")
        except RuntimeError as error:
            raise KubeletError(
                f"cannot listen on {self.socket}: {error}; choose a folder that is writable and "
                "whose path is shorter than 90 characters"
            ) from error
        server.start()
        self._server = server

    def stop(self) -> None:
        """Stop serving and end calls that hang; the socket goes."""
        self._go_on.set()
        if self._server is not None:
            self._server.stop(grace=None).wait(5)
            self._server = None
        self.socket.unlink(missing_ok=True)

    def set_pods(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Answer with these pods from the next call on."""
        self._answer = api.ListPodResourcesResponse(pod_resources=[dict(pod) for pod in pods])

    def fail(self, code: str = "UNAVAILABLE", details: str = "simulated failure") -> None:
        """Answer with a gRPC status, named as in `grpc.StatusCode`, until `heal`."""
        self._status = (grpc.StatusCode[code], details)

    def hang(self) -> None:
        """Do not answer until `heal`."""
        self._go_on.clear()

    def swell(self, size: int) -> None:
        """Answer with one pod more whose names alone have `size` bytes."""
        self._answer.pod_resources.add(name="x" * size, namespace="huge")

    def heal(self) -> None:
        """Answer normally again."""
        self._status = None
        self._go_on.set()

    def answer(self, context: grpc.ServicerContext) -> Any:
        """Answer one List call."""
        self.calls += 1
        self._go_on.wait(_MAX_HANG_SECONDS)
        if self._status is not None:
            context.abort(*self._status)
        return self._answer


def _handlers(kubelet: Kubelet) -> grpc.GenericRpcHandler:
    def listed(_request: object, context: grpc.ServicerContext) -> Any:
        return kubelet.answer(context)

    def unimplemented(_request: object, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "the simulated kubelet only answers List")

    return grpc.method_handlers_generic_handler(
        api.SERVICE,
        {
            "List": _unary(listed, api.ListPodResourcesRequest),
            "Get": _unary(unimplemented, api.GetPodResourcesRequest),
            "GetAllocatableResources": _unary(unimplemented, api.AllocatableResourcesRequest),
        },
    )


def _unary(behaviour: Any, request: Any) -> grpc.RpcMethodHandler:
    return grpc.unary_unary_rpc_method_handler(
        behaviour,
        request_deserializer=request.FromString,
        response_serializer=api.ListPodResourcesResponse.SerializeToString,
    )
