"""How the remediator is installed here: the flags and the policy that it was given.

It is found by the ServiceAccount, which every installation needs for its rights, and not by names
that a chart may change. The policy is found as the kubelet finds it: a flag names a file, and the
file is in a mounted ConfigMap.
"""

from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path, PurePosixPath

import msgspec

from allocation.model.nodes import Node, NodeSelectorError
from allocation.model.pods import Affinity
from draguard.cluster.listing import listed
from draguard.connection.errors import forbidden
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound
from kubeapi.types import ObjectMeta, kubernetes_case
from remediator.controller.emergency import FORBIDDEN
from remediator.policy.error import PolicyError
from remediator.policy.table import Policy
from remediator.settings import Settings, parse

ACCOUNT = "draguard-remediator"
AGENT_ACCOUNT = "draguard-agent"
EXPLAINER_ACCOUNT = "draguard-explainer"
"""Its Lease has this name too."""


class _Mount(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str
    mount_path: str


class _Container(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str
    image: str = ""
    command: tuple[str, ...] | None = ()
    args: tuple[str, ...] | None = ()
    volume_mounts: tuple[_Mount, ...] | None = ()


class _Item(msgspec.Struct, frozen=True):
    key: str
    path: str


class _ConfigMapSource(msgspec.Struct, frozen=True):
    name: str = ""
    items: tuple[_Item, ...] | None = ()


class _Volume(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str
    config_map: _ConfigMapSource | None = None


class _SecurityContext(msgspec.Struct, frozen=True, rename=kubernetes_case):
    se_linux_options: dict[str, str] = {}


class _PodSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    service_account_name: str = ""
    containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] | None = ()
    host_pid: bool = msgspec.field(default=False, name="hostPID")
    runtime_class_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    security_context: _SecurityContext = _SecurityContext()


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _WorkloadSpec(msgspec.Struct, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class _WorkloadStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    desired_number_scheduled: int = 0
    number_ready: int = 0
    replicas: int = 0
    ready_replicas: int = 0


class Workload(msgspec.Struct, frozen=True):
    """A Deployment, ReplicaSet or DaemonSet, cut to what is read."""

    metadata: ObjectMeta
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()
    """Of a DaemonSet: on how many nodes it should run, and where it is ready. Of the others: how
    many pods there are, and how many are ready.
    """

    @property
    def images(self) -> tuple[str, ...]:
        return tuple(container.image for container in self.spec.template.spec.containers)

    @property
    def words(self) -> list[str]:
        """Its containers' commands and arguments."""
        return [
            word
            for container in self.spec.template.spec.containers
            for word in (*(container.command or ()), *(container.args or ()))
        ]

    @property
    def host_pid(self) -> bool:
        """Whether its pods see the processes of their nodes."""
        return self.spec.template.spec.host_pid

    def selects(self, node: ObjectMeta) -> bool:
        """Whether its pods may run on a node, taints apart."""
        spec, labels = self.spec.template.spec, node.labels
        required = spec.affinity.node_affinity.required
        try:
            chosen = required is None or Node(node.name, labels).meets(required)
        except NodeSelectorError:
            return False
        return chosen and spec.node_selector.items() <= labels.items()


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class PolicyInForce(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that decides, and its source."""

    policy: Policy = Policy()
    source: str
    problems: tuple[str, ...] = ()
    """Why the text that was found is invalid; then `policy` is the shipped one."""
    written: frozenset[str] = frozenset()
    """Keys at the top of its file."""
    text: str = ""
    """Its file as it is stored; "" where it was not found in a ConfigMap."""
    seen: bool = True
    """Whether it could be read, and a remediator was found that has one."""

    @property
    def known(self) -> bool:
        """Whether `policy` is the one that a remediator would use if it started now."""
        return self.seen and not self.problems


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the remediator's Deployment; `name` "" when there is none."""

    name: str = ""
    settings: Settings = Settings()
    images: tuple[str, ...] = ()
    policy: PolicyInForce


SHIPPED = "the shipped policy (every class incident-only)"


def find_installation(client: Client, namespace: str) -> Installation:
    """Return the remediator of a namespace; without the right to read it, its policy is unknown.

    Raises ApiError.
    """
    try:
        return _found(client, namespace)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        source = f"unknown, assuming {SHIPPED}: {forbidden(error.message)}"
        return Installation(policy=PolicyInForce(source=source, seen=False))


def _found(client: Client, namespace: str) -> Installation:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    mine = next(_of_account(listed(client, path, Workload)[0], ACCOUNT), None)
    if mine is None:
        source = f"{SHIPPED}: no Deployment in namespace {namespace} uses account {ACCOUNT}"
        return Installation(policy=PolicyInForce(source=source, seen=False))
    settings = _settings(mine)
    return Installation(
        name=mine.metadata.name,
        settings=settings,
        images=mine.images,
        policy=_policy(client, namespace, mine, settings),
    )


def find_agents(client: Client, namespace: str) -> tuple[Workload, ...]:
    """Return the DaemonSets of the node agents: one, or one for each pool. Raises ApiError."""
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
    return tuple(_of_account(listed(client, path, Workload)[0], AGENT_ACCOUNT))


def find_replica_sets(client: Client, namespace: str) -> tuple[Workload, ...]:
    """Return the ReplicaSets of our Deployments, of former revisions too. Raises ApiError."""
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    return tuple(_of_account(listed(client, path, Workload)[0], ACCOUNT, EXPLAINER_ACCOUNT))


def find_explainer(client: Client, namespace: str) -> Workload | None:
    """Return the Deployment of the explainer, None where there is none. Raises ApiError."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    return next(_of_account(listed(client, path, Workload)[0], EXPLAINER_ACCOUNT), None)


def _of_account(workloads: Iterable[Workload], *accounts: str) -> Iterator[Workload]:
    return (
        workload
        for workload in workloads
        if workload.spec.template.spec.service_account_name in accounts
    )


def _settings(workload: Workload) -> Settings:
    """Return its flags as it reads them; those of another version leave the defaults."""
    words = workload.words
    flags = words[words.index("remediator") + 1 :] if "remediator" in words else words
    try:
        with redirect_stderr(StringIO()):
            return parse(flags)
    except SystemExit:
        return Settings()


def _policy(
    client: Client, namespace: str, workload: Workload, settings: Settings
) -> PolicyInForce:
    if settings.policy is None:
        return PolicyInForce(source=f"{SHIPPED}: Deployment {workload.metadata.name} sets no file")
    place = _in_config_map(workload, PurePosixPath(settings.policy))
    if place is None:
        source = f"{SHIPPED}: {settings.policy} of {workload.metadata.name} is not in a ConfigMap"
        return PolicyInForce(source=source, problems=("it cannot be read from here",))
    name, key = place
    where = f"ConfigMap {namespace}/{name}, key {key}"
    from remediator.policy.load import read, written_keys  # loads pydantic, for few commands

    text = ""
    try:
        raw = client.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        text = msgspec.json.decode(raw, type=_ConfigMap).data[key]
        written = written_keys(text)
        return PolicyInForce(policy=read(text), source=where, written=written, text=text)
    except NotFound:
        problems: tuple[str, ...] = ("the ConfigMap does not exist",)
    except KeyError:
        problems = ("the ConfigMap does not have this key",)
    except PolicyError as error:
        problems = error.problems
    except UNREADABLE as error:
        raise ApiError(f"{where} cannot be read ({error})") from error
    return PolicyInForce(source=where, problems=problems, text=text)


def _in_config_map(workload: Workload, file: PurePosixPath) -> tuple[str, str] | None:
    """Return (name, key) of the ConfigMap that is mounted as a file's folder."""
    spec = workload.spec.template.spec
    sources = {volume.name: volume.config_map for volume in spec.volumes or () if volume.config_map}
    for container in spec.containers:
        for mount in container.volume_mounts or ():
            folder, source = PurePosixPath(mount.mount_path), sources.get(mount.name)
            if source is not None and file.is_relative_to(folder):
                path = str(file.relative_to(folder))
                keys = {item.path: item.key for item in source.items or ()}
                return source.name, keys.get(path, path)
    return None


def policy_of_file(path: Path) -> PolicyInForce:
    """Return the policy of a file. Raises PolicyError, also if the file cannot be read."""
    from remediator.policy.load import LARGEST, read, written_keys  # loads pydantic

    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
        return PolicyInForce(policy=read(text), source=str(path), written=written_keys(text))
    except OSError as error:
        raise PolicyError(f"it cannot be read: {error.strerror or error}") from error
