"""The one door to gRPC: what the kubelet's PodResources service says, as `readings`.

Each failure is a PodResourcesError with a stable word and a sentence.
"""
# pyright: basic
# grpcio carries no types, and the message classes are built at run time.

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from exporter import podresources_api as api
from exporter.readings import ClaimDevice, ContainerDevices, PluginDevice

DEADLINE = 5.0
"""Seconds for one List; the kubelet answers from memory."""

_REASONS = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "Timeout",
    grpc.StatusCode.UNIMPLEMENTED: "Unsupported",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "TooLarge",
    grpc.StatusCode.PERMISSION_DENIED: "PermissionDenied",
}


class PodResourcesError(Exception):
    """The kubelet did not say who holds what."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def list_containers(socket: Path, deadline: float = DEADLINE) -> tuple[ContainerDevices, ...]:
    """Ask the kubelet once; raises PodResourcesError. Containers without devices are left out."""
    if not socket.exists():
        raise PodResourcesError(
            "NotFound",
            f"{socket} is not there, so no metric says which pod it is of: mount the kubelet's "
            "pod-resources folder, or name the socket with --pod-resources-socket",
        )
    options = (("grpc.max_receive_message_length", api.MAX_RECEIVE_BYTES),)
    try:
        with grpc.insecure_channel(f"unix:{socket}", options=options) as channel:
            call = channel.unary_unary(
                api.LIST_METHOD,
                request_serializer=api.ListPodResourcesRequest.SerializeToString,
                response_deserializer=api.ListPodResourcesResponse.FromString,
            )
            answer = call(api.ListPodResourcesRequest(), timeout=deadline)
    except grpc.RpcError as error:
        raise _refused(socket, error) from error
    return tuple(sorted(_containers(answer)))


def _refused(socket: Path, error: Any) -> PodResourcesError:
    code = error.code()
    reason = _REASONS.get(code, "Unavailable")
    return PodResourcesError(
        reason, f"the kubelet at {socket} does not list pods: {code.name}: {error.details()}"
    )


def _containers(answer: Any) -> Iterator[ContainerDevices]:
    for pod in answer.pod_resources:
        for container in pod.containers:
            claims = tuple(sorted(_claims(container)))
            plugin = tuple(sorted(_plugin(container)))
            if claims or plugin:
                yield ContainerDevices(pod.namespace, pod.name, container.name, claims, plugin)


def _claims(container: Any) -> Iterator[ClaimDevice]:
    for claim in container.dynamic_resources:
        for device in claim.claim_resources:
            yield ClaimDevice(
                claim.claim_name,
                claim.claim_namespace,
                device.driver_name,
                device.pool_name,
                device.device_name,
                device.share_id,
                tuple(one.name for one in device.cdi_devices),
            )


def _plugin(container: Any) -> Iterator[PluginDevice]:
    for resource in container.devices:
        for device in resource.device_ids:
            yield PluginDevice(resource.resource_name, device)
