"""The real control plane inside a node's namespaces, and reachable from outside.

As `simulator.cluster.controlplane`, with what a real kubelet needs: authorization of nodes, service
accounts, the certificate for pods, the controllers of DaemonSets and of a node's life.
"""

import contextlib
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from simulator.cluster import flags
from simulator.cluster.build import to_stderr
from simulator.cluster.controlplane import ControlPlane, ControlPlaneError
from simulator.cluster.credentials import write_kubeconfig
from simulator.cluster.supervise import Supervisor
from simulator.cluster.toolchain import Say
from tests.lab.node import holder, network

DRIVER_USER = "dra-driver"
_CONTROLLERS = (
    *flags.CONTROLLERS,
    "daemonset-controller",
    "endpointslice-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "root-ca-certificate-publisher-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)
_HOLDER_SECONDS = 60.0


class NodeLayout(flags.Layout, frozen=True, kw_only=True):
    """Its certificate is for `localhost`, since the API server listens on every address."""

    @property
    def server(self) -> str:
        return f"https://localhost:{self.api_port}"

    @property
    def inner_kubeconfig(self) -> Path:
        """How processes of the node reach the API server."""
        return self.folder / "inner.kubeconfig"


class NodePlane(ControlPlane):
    """A control plane that lives in the namespaces of the node `name`, and ends with them."""

    def __init__(
        self, name: str, *, apiserver_flags: Sequence[str] = (), say: Say = to_stderr
    ) -> None:
        users: Mapping[str, Sequence[str]] = {
            f"system:node:{name}": ("system:nodes",),
            # A driver's own rights are not what is tested here.
            DRIVER_USER: ("system:masters",),
        }
        super().__init__(users=users, apiserver_flags=apiserver_flags, say=say)
        self.name = name
        self._listening: socket.socket | None = None

    layout: NodeLayout  # pyright: ignore[reportIncompatibleVariableOverride] - set once, below

    @property
    def supervisor(self) -> Supervisor:
        """What starts processes inside the node. Raises ControlPlaneError."""
        if self._supervisor is None:
            raise ControlPlaneError("the node is not up")
        return self._supervisor

    @property
    def first_process(self) -> int:
        """Process 1 of the node, as the machine numbers it. Raises ControlPlaneError."""
        file = self.layout.folder / holder.PID_FILE
        deadline = time.monotonic() + _HOLDER_SECONDS
        while not file.exists():
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"no node after {_HOLDER_SECONDS:.0f} s: no {file}")
            time.sleep(0.02)
        return int(file.read_text())

    def inside(self, *command: str | Path, timeout: float = 120.0, stdin: str = "") -> str:
        """Run a command in the node and return its output. Raises ControlPlaneError."""
        enter = ("nsenter", f"--target={self.first_process}")
        spaces = ("--mount", "--net", "--uts", "--ipc", "--pid")
        done = subprocess.run(
            [*enter, *spaces, "--", *command],
            check=False,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=timeout,
        )
        if done.returncode != 0:
            words = " ".join(map(str, command))
            raise ControlPlaneError(f"{words}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def stop(self) -> None:
        super().stop()
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def _lay_out(self, programs: Path, folder: Path) -> NodeLayout:
        outer = super()._lay_out(programs, folder)
        return NodeLayout(
            programs=outer.programs,
            folder=outer.folder,
            etcd_port=outer.etcd_port,
            peer_port=outer.peer_port,
            api_port=outer.api_port,
        )

    def _supervise(self, at: flags.Layout) -> Supervisor:
        self._listening = socket.create_server(("127.0.0.1", at.api_port))
        number = self._listening.fileno()
        within = holder.command(at.folder, number, self.name)
        return Supervisor(at.folder, within=within, pass_fds=(number,))

    def _apiserver(self, at: flags.Layout) -> list[str]:
        own = {
            "--bind-address": "0.0.0.0",  # noqa: S104 - of a network namespace of its own
            "--secure-port": str(network.SERVICE_PORT),
            "--advertise-address": network.NODE,
            "--authorization-mode": "Node,RBAC",
            "--enable-admission-plugins": "NodeRestriction",
            "--service-cluster-ip-range": network.SERVICE_RANGE,
            "--allow-privileged": "true",
            "--kubelet-preferred-address-types": "InternalIP",
        }
        return _changed(flags.apiserver(at), own, without=("--disable-admission-plugins",))

    def _controller_manager(self, at: flags.Layout) -> list[str]:
        # The certificate is there: the API server is ready before this starts.
        own = {
            "--kubeconfig": str(self._inner_kubeconfig()),
            "--controllers": ",".join(_CONTROLLERS),
            "--root-ca-file": str(at.ca_file),
            "--use-service-account-credentials": "false",
        }
        return _changed(flags.controller_manager(at), own)

    def _scheduler(self, at: flags.Layout) -> list[str]:
        return _changed(flags.scheduler(at), {"--kubeconfig": str(self._inner_kubeconfig())})

    def _inner_kubeconfig(self) -> Path:
        at = self.layout
        with contextlib.suppress(FileNotFoundError):
            at.inner_kubeconfig.unlink()
        server = f"https://localhost:{network.SERVICE_PORT}"
        write_kubeconfig(at.inner_kubeconfig, server, at.ca_file, self._tokens)
        return at.inner_kubeconfig

    def kubeconfig_of(self, user: str) -> Path:
        """Write a kubeconfig for a process of the node that has one user; returns its path."""
        at = self.layout
        file = at.folder / f"{user.replace(':', '-')}.kubeconfig"
        server = f"https://localhost:{network.SERVICE_PORT}"
        write_kubeconfig(file, server, at.ca_file, {user: self._tokens[user]}, current=user)
        return file


def _changed(
    arguments: Sequence[str], own: Mapping[str, str], *, without: Sequence[str] = ()
) -> list[str]:
    """Return a command line with flags of its own in place of those of the same name."""
    left = [word for word in arguments if word.partition("=")[0] not in (*own, *without)]
    return [*left, *(f"{name}={value}" for name, value in own.items())]
