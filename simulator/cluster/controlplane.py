"""A real Kubernetes control plane on loopback, for as long as its owner lives.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler as built by `build`, in a folder
of its own that goes with it. Nothing survives the owner, not even when it is killed.
"""

import functools
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Endpoint, EndpointError
from simulator.cluster import flags, objects
from simulator.cluster.build import RELEASE, Release, build, to_stderr
from simulator.cluster.credentials import (
    ADMIN,
    write_kubeconfig,
    write_signing_key,
    write_tokens,
)
from simulator.cluster.ports import free_port
from simulator.cluster.supervise import Supervisor
from simulator.cluster.toolchain import Say

START_SECONDS = 120.0
_ATTEMPTS = 3
_AGAIN = 0.1
_USERS: Mapping[str, Sequence[str]] = {
    ADMIN: ("system:masters",),
    "remediator": ("draguard:remediators",),
}


class ControlPlaneError(Exception):
    """The control plane does not run; the message says which part and shows its last words."""


class Component:
    """One process of the control plane, which tests may stop, freeze and start again."""

    def __init__(self, name: str, argv: Sequence[str], log: Path, supervisor: Supervisor) -> None:
        self.name = name
        self.argv = tuple(argv)
        self.log = log
        self._supervisor = supervisor
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The process id. Raises ControlPlaneError when it was not started."""
        if self._pid is None:
            raise ControlPlaneError(f"{self.name} is not running")
        return self._pid

    @property
    def running(self) -> bool:
        return self._pid is not None and self._supervisor.exit_code(self._pid) is None

    def start(self) -> None:
        if not self.running:
            self._pid = self._supervisor.start(self.argv, self.log)

    def stop(self) -> None:
        """Kill the process and wait for its end; its port is free afterwards."""
        if self._pid is not None:
            self._supervisor.kill(self._pid)
            self._pid = None

    def pause(self) -> None:
        """Freeze the process: connections stay open and nothing answers any more."""
        self._supervisor.signal(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        self._supervisor.signal(self.pid, signal.SIGCONT)

    def last_words(self, lines: int = 15) -> str:
        if not self.log.exists():
            return "(it wrote nothing)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class ControlPlane:
    """Use as a context manager, or `start()` and `stop()`.

    `users` maps more user names to their groups; `admin` may do everything and is always there.
    With `fsync` etcd writes to disk as in production; figures of latency need it.
    `apiserver_flags` are added to kube-apiserver's own, `gates` (`Name=true`) to those of all
    Kubernetes components. `release` is what runs.
    """

    def __init__(
        self,
        *,
        users: Mapping[str, Sequence[str]] | None = None,
        fsync: bool = False,
        apiserver_flags: Sequence[str] = (),
        gates: Sequence[str] = (),
        release: Release = RELEASE,
        say: Say = to_stderr,
    ) -> None:
        self._users = {**_USERS, **(users or {})}
        self._fsync = fsync
        self._apiserver_flags = tuple(apiserver_flags)
        self._gates = (f"--feature-gates={','.join(gates)}",) if gates else ()
        self._release = release
        self._say = say
        self._supervisor: Supervisor | None = None
        self._tokens: dict[str, str] = {}

    etcd: Component
    apiserver: Component
    controller_manager: Component
    scheduler: Component
    layout: flags.Layout

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything; returns when the API answers. Builds first where that is needed.

        Raises BuildError or ControlPlaneError.
        """
        programs = build(self._say, self._release.control_plane)
        for attempt in range(1, _ATTEMPTS + 1):
            self._prepare(programs)
            try:
                self.etcd.start()
                self.apiserver.start()
                self.wait_ready()
                self.controller_manager.start()
                self.scheduler.start()
            except ControlPlaneError:
                self.stop()
                # Another process may have taken a port between its choice and its use.
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def stop(self) -> None:
        """Kill all processes, wait for their end and remove the folder."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.close()

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    @property
    def logs(self) -> Path:
        """The folder of the processes' logs."""
        return self.layout.folder / "logs"

    @property
    def components(self) -> tuple[Component, ...]:
        return self.etcd, self.apiserver, self.controller_manager, self.scheduler

    def endpoint(self, user: str = ADMIN) -> Endpoint:
        """Return how `user` reaches the API."""
        if user not in self._tokens:
            raise EndpointError(f"no user {user!r} here, there are {', '.join(self._tokens)}")
        at = self.layout
        return Endpoint(server=at.server, token=self._tokens[user], ca_file=str(at.ca_file))

    @functools.cached_property
    def kubectl_program(self) -> Path:
        """The real kubectl, which is built when it is first needed. Raises BuildError."""
        return build(self._say, self._release.kubectl) / "kubectl"

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """Run the real kubectl as admin; returns its output.

        Raises ControlPlaneError or BuildError.
        """
        at = self.layout
        # A cache of its own: another API server may have used the same port before.
        memory = f"--cache-dir={at.folder / 'kubectl'}"
        done = subprocess.run(
            [self.kubectl_program, "--kubeconfig", at.kubeconfig, memory, *arguments],
            check=False,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=timeout,
        )
        if done.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def await_established(self, seconds: float = 60.0) -> None:
        """Return when the API server has accepted all its CRDs. Raises ControlPlaneError."""
        client = Client(self.endpoint(), timeout=seconds)
        deadline = time.monotonic() + seconds
        try:
            while waiting := objects.not_established(client.get(objects.CRDS)):
                if time.monotonic() > deadline:
                    raise ControlPlaneError(f"not accepted within {seconds:.0f} s: {waiting}")
                time.sleep(_AGAIN)
        finally:
            client.close()

    def versions(self) -> str:
        """Say in one line which real programs run here."""
        etcd = self._version_of("etcd", "--version").splitlines()[0].removeprefix("etcd Version: ")
        kubernetes = (
            self._version_of("kube-apiserver", "--version").strip().removeprefix("Kubernetes ")
        )
        names = ", ".join(component.name for component in self.components[1:])
        return f"{names} {kubernetes}; etcd {etcd}"

    def _version_of(self, program: str, *arguments: str) -> str:
        command = [self.layout.programs / program, *arguments]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=120
        ).stdout

    def wait_ready(self, timeout: float = START_SECONDS) -> None:
        """Wait until the API answers. Raises ControlPlaneError with a log's end."""
        deadline = time.monotonic() + timeout
        while not self._ready():
            for component in (self.etcd, self.apiserver):
                if not component.running:
                    raise ControlPlaneError(
                        f"{component.name} ended at once:\n{component.last_words()}"
                    )
            if time.monotonic() > deadline:
                raise ControlPlaneError(
                    f"no API after {timeout:.0f} s:\n{self.apiserver.last_words()}"
                )
            time.sleep(0.05)

    def _prepare(self, programs: Path) -> None:
        folder = Path(tempfile.mkdtemp(prefix="draguard-lab-"))
        at = self.layout = self._lay_out(programs, folder)
        supervisor = self._supervisor = self._supervise(at)
        self._tokens = write_tokens(at.tokens, self._users)
        write_signing_key(at.signing_key)
        write_kubeconfig(at.kubeconfig, at.server, at.ca_file, self._tokens)
        self.logs.mkdir()

        def component(name: str, argv: Sequence[str]) -> Component:
            return Component(name, argv, self.logs / f"{name}.log", supervisor)

        self.etcd = component("etcd", flags.etcd(at, fsync=self._fsync))
        self.apiserver = component(
            "kube-apiserver", [*self._apiserver(at), *self._gates, *self._apiserver_flags]
        )
        self.controller_manager = component(
            "kube-controller-manager", [*self._controller_manager(at), *self._gates]
        )
        self.scheduler = component("kube-scheduler", [*self._scheduler(at), *self._gates])

    def _lay_out(self, programs: Path, folder: Path) -> flags.Layout:
        etcd_port, peer_port, api_port = (free_port() for _ in range(3))
        return flags.Layout(
            programs=programs,
            folder=folder,
            etcd_port=etcd_port,
            peer_port=peer_port,
            api_port=api_port,
        )

    def _supervise(self, at: flags.Layout) -> Supervisor:
        """Start what starts the components, perhaps in namespaces of its own."""
        return Supervisor(at.folder)

    def _apiserver(self, at: flags.Layout) -> list[str]:
        return flags.apiserver(at)

    def _controller_manager(self, at: flags.Layout) -> list[str]:
        return flags.controller_manager(at)

    def _scheduler(self, at: flags.Layout) -> list[str]:
        return flags.scheduler(at)

    def _ready(self) -> bool:
        """Whether the API answers; the certificate to verify it exists only once it has started."""
        try:
            client = Client(self.endpoint(), timeout=2.0)
        except EndpointError:
            return False
        try:
            return client.get("/readyz") == b"ok"
        except ApiError:
            return False
        finally:
            client.close()
