"""What the kubelet's PodResources service says, as `readings`.

Each failure is a PodResourcesError with a stable word and a sentence. The
kubelet lists running containers and restartable init containers; a plain init
container's devices are not in its answer.
"""

from pathlib import Path

from exporter.model.readings import ContainerDevices
from exporter.sensor.kubelet import podresources_wire as wire
from exporter.sensor.kubelet import unary
from exporter.sensor.kubelet.unary import CallFailed

DEADLINE = 5.0
"""Seconds for one List; the kubelet answers from memory."""

_REASONS = {
    unary.DEADLINE_EXCEEDED: "Timeout",
    unary.UNIMPLEMENTED: "Unsupported",
    unary.RESOURCE_EXHAUSTED: "TooLarge",
    unary.PERMISSION_DENIED: "PermissionDenied",
}
_RATE_LIMIT = "rate limit"
"""In the kubelet's words for RESOURCE_EXHAUSTED when it was queried too often."""


class PodResourcesError(Exception):
    """The kubelet did not say who holds what."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PodResources:
    """One kubelet, queried over a connection of its own each time.

    One kept open would have to learn when a restarted kubelet made its socket anew.
    """

    def __init__(self, socket: Path, deadline: float = DEADLINE) -> None:
        self._socket = socket
        self._deadline = deadline
        self._bytes: bytes | None = None
        self._containers: tuple[ContainerDevices, ...] = ()
        self.refused = 0
        """Containers in the last answer that were left out: a name in them was too long or no
        text."""

    def list(self) -> tuple[ContainerDevices, ...]:
        """Ask the kubelet once; raises PodResourcesError. Containers without devices are left out.

        While nothing changes the same tuple comes back, not an equal one.
        """
        answer = self._ask()
        if answer != self._bytes:
            reply = self._read(answer)
            # The kubelet gives its pods in any order: other bytes may say the same.
            if reply.containers != self._containers:
                self._containers = reply.containers
            self._bytes, self.refused = answer, reply.refused
        return self._containers

    def _ask(self) -> bytes:
        self._check_socket()
        try:
            return unary.call(
                self._socket,
                wire.LIST_METHOD,
                wire.EMPTY_REQUEST,
                seconds=self._deadline,
                most=wire.MAX_RECEIVE_BYTES,
            )
        except CallFailed as failed:
            limited = _RATE_LIMIT in failed.details
            reason = "RateLimited" if limited else _REASONS.get(failed.code, "Unavailable")
            raise PodResourcesError(
                reason, f"the kubelet at {self._socket} does not list pods: {failed}"
            ) from failed

    def _check_socket(self) -> None:
        try:
            there, why = self._socket.exists(), ""
        except OSError as error:
            there, why = False, f" ({error.strerror})"
        if not there:
            raise PodResourcesError(
                "PermissionDenied" if why else "NotFound",
                f"{self._socket} is not there{why}, so metrics have no pod labels: mount "
                "the kubelet's pod-resources folder (in the chart exporter.kubeletPath), or name "
                "the socket with --pod-resources-socket",
            )

    def _read(self, answer: bytes) -> wire.Reply:
        try:
            return wire.read(answer)
        except (wire.Malformed, wire.TooLarge) as error:
            raise PodResourcesError(
                type(error).__name__,
                f"the kubelet at {self._socket} sent {len(answer)} bytes that are not a list of "
                f"pods: {error}",
            ) from error


def list_containers(socket: Path, deadline: float = DEADLINE) -> tuple[ContainerDevices, ...]:
    """Ask a kubelet once; raises PodResourcesError."""
    return PodResources(socket, deadline).list()
