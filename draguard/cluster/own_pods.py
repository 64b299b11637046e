"""Draguard's own pods into the few whose logs and pages are read. Pure."""

from collections.abc import Iterable, Iterator

import msgspec

from draguard.cluster.installation import ACCOUNT
from kubeapi.types import kubernetes_case

MOST = 20
"""Pods whose logs and pages are read: a large cluster has thousands of agents."""
WEB_CONFIG = "--web-config"
"""Flag with which a pod serves TLS."""
METRICS = "metrics"
"""Name of the port of the pages."""


class _Port(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str = ""
    container_port: int = 0


class _Container(msgspec.Struct, frozen=True):
    name: str
    args: tuple[str, ...] | None = ()
    ports: tuple[_Port, ...] | None = ()


class _Spec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    service_account_name: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] | None = ()


class _Status(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str = ""
    ready: bool = False
    restart_count: int = 0


class _PodStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    container_statuses: tuple[_Status, ...] | None = ()
    init_container_statuses: tuple[_Status, ...] | None = ()


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class OwnPod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _PodStatus = _PodStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def remediates(self) -> bool:
        return self.spec.service_account_name == ACCOUNT

    @property
    def containers(self) -> tuple[str, ...]:
        every = (*(self.spec.init_containers or ()), *self.spec.containers)
        return tuple(container.name for container in every)

    @property
    def restarted(self) -> frozenset[str]:
        """Return the containers that have run before: they have a log from then, too."""
        status = self.status
        every = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
        return frozenset(each.name for each in every if each.restart_count)

    @property
    def ready(self) -> bool:
        return all(each.ready for each in self.status.container_statuses or ())

    @property
    def well(self) -> bool:
        return self.ready and not self.restarted

    @property
    def pages(self) -> Iterator[tuple[str, str]]:
        """Give each page by a name, and its path behind the API server's proxy of this pod."""
        for container in self.spec.containers:
            for port in container.ports or ():
                if port.name == METRICS:
                    tls = any(arg.startswith(WEB_CONFIG) for arg in container.args or ())
                    where = f"{'https:' if tls else ''}{self.name}:{port.container_port}/proxy"
                    yield "metrics", f"{where}/metrics"
                    yield "debug", f"{where}/debug{'/plan' if self.remediates else ''}"


def chosen(pods: Iterable[OwnPod]) -> tuple[tuple[OwnPod, ...], int]:
    """Return the pods to look at, and the number of others: remediators, then what is not well."""
    order = sorted(pods, key=lambda pod: (not pod.remediates, pod.well, pod.name))
    return tuple(order[:MOST]), len(order[MOST:])
