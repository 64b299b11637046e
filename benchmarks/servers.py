"""A control plane and the programs beside it for one benchmark; all of them end with its block."""

import contextlib
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.waiting import Say, await_true
from kubeapi.client import ApiError, Client
from simulator.cluster import workloads
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.supervise import Supervisor

CRDS = Path(__file__).parents[1] / "deploy" / "crds"
REPORTS = "/apis/draguard.dev/v1alpha1/nodedevicehealths"
INCIDENTS = "/apis/draguard.dev/v1alpha1/deviceincidents"


class Opening(ABC):
    """Base of `with` blocks: the end, or an error in `_open`, closes all that is in `_closing`."""

    def __init__(self) -> None:
        self._closing = contextlib.ExitStack()

    @abstractmethod
    def _open(self) -> None:
        """Start what the block needs; what is to be closed is in `_closing` by then."""

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.close()


class Servers(Opening):
    """A folder, a supervisor of programs, a control plane and a client of it."""

    plane: ControlPlane
    client: Client

    def __init__(self, say: Say) -> None:
        super().__init__()
        self.say = say
        self.folder = Path(tempfile.mkdtemp(prefix="dg-bench-"))
        self.supervisor = Supervisor(self.folder)
        self._closing.callback(self.supervisor.close)

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def server_flags(self) -> list[str]:
        """Return the flags that point a program of ours at this server."""
        endpoint = self.plane.endpoint()
        token = self.folder / "token"
        # Written once: a program that runs may read it at any time.
        if not token.exists():
            token.touch(mode=0o600)
            token.write_text(endpoint.token or "", encoding="ascii")
        return [
            f"--kube-server={endpoint.server}",
            f"--kube-token-file={token}",
            f"--kube-ca-file={endpoint.ca_file}",
        ]

    def start_plane(
        self, *flags: str, audited: str = "", fsync: bool = False, timeout: float = 10.0
    ) -> None:
        """`flags` are the apiserver's, `audited` is an audit policy, `timeout` is the client's."""
        if audited:
            policy = self.folder / "audit-policy.yaml"
            policy.write_text(audited, encoding="utf-8")
            log = f"--audit-log-path={self.audit_log}"
            flags = (f"--audit-policy-file={policy}", log, *flags)
        self.plane = ControlPlane(fsync=fsync, apiserver_flags=flags)
        self._closing.callback(self.plane.stop)
        self.plane.start()
        self.client = Client(self.plane.endpoint(), timeout=timeout)
        self._closing.callback(self.client.close)

    def install(self, *namespaces: str) -> None:
        """Create our CRDs, namespaces and the device classes."""
        self.plane.kubectl("apply", "-f", str(CRDS))
        for path in (REPORTS, INCIDENTS):
            await_true(f"{path} is served", lambda path=path: self._is_served(path))
        for name in namespaces:
            self.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for device_class in workloads.device_classes():
            self.client.create("/apis/resource.k8s.io/v1/deviceclasses", device_class)

    def _is_served(self, path: str) -> bool:
        try:
            self.client.get(path)
        except ApiError:
            return False
        return True
