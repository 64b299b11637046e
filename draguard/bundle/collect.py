"""A cluster into an archive, part by part. A part that fails is a line of the manifest, no more."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, cast

import msgspec

from draguard.bundle.archive import LARGEST, Archive
from draguard.bundle.pseudonyms import Pseudonyms
from draguard.bundle.stripped_objects import HIDDEN, Document, stripped, without_ends, without_texts
from draguard.cluster.installation import find_installation
from draguard.cluster.listing import listed, raw_items
from draguard.cluster.own_pods import OwnPod, chosen
from draguard.connection.errors import NotInstalledError, sentence
from kubeapi.client import ApiError, Client
from kubeapi.discovery import served
from kubeapi.lease import leases
from kubeapi.resources import INCIDENTS, REPORTS
from kubeapi.versions import DRA_VERSIONS, GROUP, RULE_VERSIONS
from remediator.model.claim import Claim
from remediator.model.incident import Incident

OURS: Mapping[str, str] = {"labelSelector": "app.kubernetes.io/name=draguard"}
_DOCTOR = ("doctor",)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("version",),
    ("status", "-o", "wide"),
    _DOCTOR,
    ("plan",),
    ("incidents", "--all", "-o", "wide"),
)
"""What a reader looks at first, as a user sees it."""
LOG_LINES, LOG_BYTES = 2000, 1 << 20
"""Of each container, the youngest."""
QUICK = 10.0
"""Seconds for a log or a page at most: behind the API server stands a node that may be dead."""
PATIENCE: Mapping[str, int] = {"objects": 2, "logs": 3, "pages": 3}
"""How many parts of a kind may get no answer, one after the other, before the rest is left. Of logs
and pages it is pods that count: the others may be on a node that lives.
"""
UNTRIED = "not tried: no answer to the {kind} before it"
_OF_USERS = frozenset({INCIDENTS, REPORTS})
"""Collections whose texts may name users' pods."""
_TEXT = "*/*"
_SPELLED = 4
"""How many times as long a stored object may be when it is laid out for readers."""
_UNSAFE = re.compile(r"[^\w.-]|^\.+")


class Ran(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


_DRA = {"devicetaintrules": RULE_VERSIONS, "resourceslices": DRA_VERSIONS}
Run = Callable[[Sequence[str]], Ran]
Says = Callable[[str], None]


class Collector:
    """Reads one cluster with the rights of the caller. `run` runs a command of this program."""

    def __init__(
        self, client: Client, namespace: str, archive: Archive, *, says: Says, run: Run
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._archive = archive
        self._says = says
        self._run = run
        self._unanswered = Counter[str]()
        self._silent: dict[str, str] = {}
        """By kind, the last pod of which a part got no answer."""
        self._names = True

    def collect(self, *, timeout: float, names: bool) -> None:
        """Add every part; without `names`, none that may hold names of users' pods in any text."""
        self._names = names
        pods: list[OwnPod] = []
        for name, path, params in self._collections():
            read = partial(self._objects, path, params, pods if name == "pods" else None)
            self._part("objects", f"objects/{name}.json", read)
        for name, versions in _DRA.items():
            self._part("objects", f"objects/{name}.json", partial(self._dra, name, versions))
        self._part("objects", "policy.yaml", self._policy)
        for words in COMMANDS:
            self._part("objects", f"{words[0]}.txt", partial(self._command, words))
        quick = self._client.sibling(min(timeout, QUICK))
        try:
            self._of_pods(quick, pods)
        finally:
            quick.close()

    def _collections(self) -> Iterator[tuple[str, str, Mapping[str, str]]]:
        core, apps = f"/api/v1/namespaces/{self._namespace}", "/apis/apps/v1"
        yield "deviceincidents", INCIDENTS, {}
        yield "nodedevicehealths", REPORTS, {}
        yield "leases", leases(self._namespace), {}
        for workloads in ("deployments", "daemonsets"):
            yield workloads, f"{apps}/namespaces/{self._namespace}/{workloads}", OURS
        yield "pods", f"{core}/pods", OURS
        yield "events", f"{core}/events", {}

    def _part(self, kind: str, file: str, make: Callable[[str], None], pod: str = "") -> None:
        """Add one part; the one place where a failure is caught."""
        blocked = next((each for each in (kind, "objects") if self._is_silent(each, pod)), "")
        if blocked:
            self._archive.lacks(file, UNTRIED.format(kind=blocked))
            return
        self._says(f"collecting {file}")
        unanswered = False
        try:
            make(file)
        except (ApiError, NotInstalledError) as error:
            unanswered = isinstance(error, ApiError) and error.status is None
            self._archive.lacks(file, sentence(error, self._client.endpoint.server))
        except OSError:
            raise  # of the archive: a client's are ApiErrors
        except Exception as error:  # noqa: BLE001 - a fault in one part must not cost the others
            self._archive.lacks(file, f"a fault of this program: {type(error).__name__}: {error}")
        self._unanswered[kind] = self._unanswered[kind] + 1 if unanswered else 0
        self._silent[kind] = pod if unanswered else ""

    def _is_silent(self, kind: str, pod: str) -> bool:
        """Whether no request is worth while: this pod has not answered, or several did not."""
        same = bool(pod) and self._silent.get(kind) == pod
        return same or self._unanswered[kind] >= PATIENCE[kind]

    def _objects(
        self, path: str, params: Mapping[str, str], pods: list[OwnPod] | None, file: str
    ) -> None:
        found, size, note = list[Document](), 0, ""
        for raw in raw_items(self._client, path, params):
            size += len(bytes(raw))
            if size > LARGEST // _SPELLED:
                note = f"the first {len(found)} objects; the collection has more"
                break
            each = stripped(msgspec.json.decode(raw))
            if not self._names and path in _OF_USERS:
                each = cast("Document", without_texts(each))
            elif not self._names and pods is not None:
                each = cast("Document", without_ends(each))
            found.append(each)
            if pods is not None:
                pods.append(msgspec.json.decode(raw, type=OwnPod))
        self._archive.object(file, {"kind": "List", "items": found}, note)

    def _dra(self, resource: str, versions: tuple[str, ...], file: str) -> None:
        version = served(self._client, GROUP, resource, versions)
        if version is None:
            self._archive.lacks(file, f"this cluster serves no {resource}")
        else:
            self._objects(f"/apis/{GROUP}/{version}/{resource}", {}, None, file)

    def _policy(self, file: str) -> None:
        found = find_installation(self._client, self._namespace).policy
        if found.text:
            self._archive.text(file, found.text, f"from {found.source}")
        else:
            self._archive.lacks(file, "; ".join((found.source, *found.problems)))

    def _command(self, words: tuple[str, ...], file: str) -> None:
        with_logs = self._names or words != _DOCTOR
        ran = self._run(words if with_logs else (*words, "--without-logs"))
        why = " ".join(ran.err.split())
        if ran.out:
            self._archive.text(file, ran.out, why)
        else:
            self._archive.lacks(file, why or f"nothing was printed, exit status {ran.status}")

    def _of_pods(self, quick: Client, pods: Iterable[OwnPod]) -> None:
        found, others = chosen(pods)
        pages = f"/api/v1/namespaces/{self._namespace}/pods"
        for pod in found:
            folder = _UNSAFE.sub("_", pod.name)
            for container in pod.containers if self._names else ():
                for previous in (False, True) if container in pod.restarted else (False,):
                    file = f"logs/{folder}/{_UNSAFE.sub('_', container)}"
                    file += ".previous.log" if previous else ".log"
                    path = f"{pages}/{pod.name}/log"
                    log = partial(self._log, quick, path, container, previous=previous)
                    self._part("logs", file, log, pod.name)
            for name, path in pod.pages if self._names else ():
                get = partial(self._page, quick, f"{pages}/{path}")
                self._part("pages", f"pages/{folder}/{name}.txt", get, pod.name)
        if not self._names:
            self._archive.lacks("logs and pages", HIDDEN)
        elif others:
            self._archive.lacks("logs and pages", f"of {others} more pods: too many")

    def _log(self, client: Client, path: str, container: str, file: str, *, previous: bool) -> None:
        params = {
            "container": container,
            "previous": str(previous).lower(),
            "timestamps": "true",
            "tailLines": str(LOG_LINES),
            "limitBytes": str(LOG_BYTES),
        }
        text = client.get(path, params, accept=_TEXT).decode(errors="replace")
        self._archive.text(file, text, f"the last {LOG_LINES:,} lines at most")

    def _page(self, client: Client, path: str, file: str) -> None:
        self._archive.text(file, client.get(path, accept=_TEXT).decode(errors="replace"))


def learned(client: Client, pseudonyms: Pseudonyms) -> None:
    """Learn the names that users gave, from claims and incidents. Raises ApiError."""
    version = served(client, GROUP, "resourceclaims", DRA_VERSIONS)
    path = f"/apis/{GROUP}/{version}/resourceclaims"
    claims = listed(client, path, Claim)[0] if version else []
    incidents = listed(client, INCIDENTS, Incident)[0]
    pods = [
        pod
        for each in incidents
        for pod in (*each.status.scope.affected, *each.status.eviction.evicted)
    ]
    spaces = {claim.metadata.namespace for claim in claims} | {pod.namespace for pod in pods}
    consumers = {each.name for claim in claims for each in claim.consumers}
    pseudonyms.learn("namespace", sorted(spaces))
    pseudonyms.learn("pod", sorted(consumers | {pod.pod for pod in pods}))
    named = {claim.metadata.name for claim in claims} | {pod.claim for pod in pods}
    pseudonyms.learn("claim", sorted(named))
