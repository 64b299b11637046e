"""What the API server has of a pod or a claim that waits. Reads only.

What the caller may not read is left out and named: with the rights of one namespace no slices and
no nodes are seen.
"""

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

import msgspec

from allocation.layers.explanation import TO_ALLOCATE, Inventory, Known
from allocation.model.claims import Claim, DeviceClass
from allocation.model.device_use import DeviceUse
from allocation.model.events import Event
from allocation.model.nodes import StoredNode
from allocation.model.pods import Pod
from allocation.model.slices import ResourceSlice, TaintRule, with_rules
from allocation.plugin import requests_by_node
from draguard.cluster.listing import OnPage, listed
from draguard.cluster.node_page import read_uses
from draguard.cluster.reading import side_by_side
from draguard.connection.errors import forbidden
from draguard.connection.whoami import now
from draguard.phrases import did_you_mean, some
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound
from kubeapi.decoding import Decoder
from kubeapi.discovery import served
from kubeapi.resources import INCIDENTS, NODES
from kubeapi.versions import GROUP, RULE_VERSIONS
from remediator.controller.emergency import FORBIDDEN
from remediator.model.incident import Incident

T = TypeVar("T")
_VERSIONS = ("v1", "v1beta2")
"""Of slices, claims and classes: they have one shape since Kubernetes 1.33."""
KINDS = (Claim, DeviceClass, Event, Incident, Pod, ResourceSlice, StoredNode, TaintRule)
_MADE = tuple(map(msgspec.json.Decoder, KINDS))
"""See `cluster.reading`: several threads must not be the first to use a struct."""
_FAILED_CREATE = "FailedCreate"
"""Reason of the event of a ReplicaSet, a Job and others that cannot create a pod."""
_ENDED = frozenset({"Succeeded", "Failed"})
_NAME = re.compile(r"[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?")
"""What Kubernetes accepts. Others change the path that is read: `?` ends it, `..` goes up."""


_COLLECTIONS: dict[str, tuple[type[Any], str]] = {
    "slices": (ResourceSlice, "{dra}/resourceslices"),
    "rules": (TaintRule, "{rules}/devicetaintrules"),
    "classes": (DeviceClass, "{dra}/deviceclasses"),
    "claims": (Claim, "{dra}/resourceclaims"),
    "nodes": (StoredNode, NODES),
    "incidents": (Incident, INCIDENTS),
}
_ON_NODE = ("slices", "rules", "incidents")
"""What says how the devices are that a pod has."""
_ON_ANY_NODE = {"fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}


class NoSuchObjectError(Exception):
    """There is no namespace, pod or claim of that name; the message says what there is."""


class WaitingReader:
    """Reads what the answer for one pod or claim rests on. Methods raise ApiError."""

    def __init__(self, client: Client, namespace: str, on_page: OnPage) -> None:
        """Raises NoSuchObjectError, of a namespace that cannot exist."""
        if not _NAME.fullmatch(namespace):
            raise NoSuchObjectError(f"no namespace can be called {namespace!r}")
        self._client, self._namespace, self._on_page = client, namespace, on_page
        self._core = f"/api/v1/namespaces/{namespace}"
        self._version = served(client, GROUP, "resourceclaims", _VERSIONS)
        # Where none is served, its collections are not found, and so are empty.
        self._dra = f"/apis/{GROUP}/{self._version or _VERSIONS[0]}"
        self._claims = f"{self._dra}/namespaces/{namespace}/resourceclaims"
        self._unread: dict[str, str] = {}
        """By collection: the right that is missing."""
        self._unreadable: list[str] = []

    def pod(self, name: str) -> Known:
        """Read about a pod. Raises NoSuchObjectError."""
        pod = self._one(Pod, f"{self._core}/pods", name)
        if pod is None:
            raise NoSuchObjectError(self._no_pod(name))
        if pod.spec.resource_claims:
            self._require_dra()
        return self._about(pod, ())

    def claim(self, name: str) -> Known:
        """Read about a claim, and the pod that uses it, if any. Raises NoSuchObjectError."""
        self._require_dra()
        claim = self._one(Claim, self._claims, name)
        if claim is None:
            names = [each.metadata.name for each in self._some("claims", Claim, self._claims)]
            where = f"in namespace {self._namespace}"
            raise NoSuchObjectError(f"no claim {name!r} {where}{did_you_mean(name, names)}")
        reserved = {each.uid for each in claim.status.reserved_for}
        pods = [
            pod
            for pod in self._pods()
            if pod.status.phase not in _ENDED
            and (name in pod.claim_names().values() or pod.metadata.uid in reserved)
        ]
        # One that waits says more of the claim than one that runs.
        pods.sort(key=lambda pod: (pod.status.phase == "Running", pod.metadata.name))
        if not pods and "pods" in self._unread:
            # One that cannot be read may use it, and then it waits for what that one can have.
            self._unreadable.append(self._unread.pop("pods"))
        return self._about(pods[0] if pods else None, (claim,))

    def _require_dra(self) -> None:
        if self._version is None:
            served = " or ".join(f"{GROUP}/{version}" for version in _VERSIONS)
            raise ApiError(f"this cluster serves no ResourceClaims as {served}")

    def _about(self, pod: Pod | None, claims: tuple[Claim, ...]) -> Known:
        known = [claim.metadata.name for claim in claims]
        names = {*pod.claim_names().values()} - {"", *known} if pod else set[str]()
        found = [self._one(Claim, self._claims, name) for name in sorted(names)]
        every = (*claims, *(claim for claim in found if claim is not None))
        reads: dict[str, Callable[[], Any]] = {
            "templates": partial(self._templates, pod, {claim.key for claim in every})
        }
        about = sorted({*known, *names, *([pod.metadata.name] if pod else [])})
        for name in about:
            only = {"fieldSelector": f"involvedObject.name={name}"}
            reads[f"events of {name}"] = partial(
                self._some, "events", Event, f"{self._core}/events", only
            )
        node = pod.spec.node_name if pod else ""
        rules = served(self._client, GROUP, "devicetaintrules", RULE_VERSIONS)
        for part in _ON_NODE if node else TO_ALLOCATE:
            kind, path = _COLLECTIONS[part]
            if part == "rules" and rules is None:
                continue
            path = path.format(dra=self._dra, rules=f"/apis/{GROUP}/{rules}")
            only = None
            if part == "slices" and node:
                # Its own, and those of no single node.
                only = {"fieldSelector": f"spec.nodeName={node}"}
                shared = {"fieldSelector": "spec.nodeName="}
                reads["shared"] = partial(self._some, part, kind, path, shared)
            reads[part] = partial(self._some, part, kind, path, only)
        counts = bool(pod and not node and pod.extended_resources())
        if counts:
            reads["pods"] = partial(self._some, "every pod", Pod, "/api/v1/pods", _ON_ANY_NODE)
        if pod and node:
            reads["uses"] = partial(self._uses, pod)
        got, ahead = side_by_side(self._client, reads)
        uids = {each.metadata.uid for each in (*([pod] if pod else []), *every)}
        slices: list[ResourceSlice] = [*got["slices"], *got.get("shared", [])]
        incidents: list[Incident] = got.get("incidents", [])
        return Known(
            at=now(ahead),
            pod=pod,
            claims=every,
            templates=got["templates"],
            events=tuple(
                event
                for name in about
                for event in got[f"events of {name}"]
                # Not those of an earlier pod of this name.
                if event.involved_object.uid in uids
            ),
            inventory=Inventory(
                slices=tuple(with_rules(slices, got.get("rules", ()))),
                classes=tuple(got.get("classes", ())),
                claims=tuple(got.get("claims", ())),
                nodes=tuple(each.node for each in got.get("nodes", ())),
                used=requests_by_node(got["pods"])
                if counts and "every pod" not in self._unread
                else None,
            ),
            incidents={
                target.name: f"incident {each.name}, {each.status.phase}: {each.status.message}"
                for each in incidents
                if each.open
                for target in each.status.scope.devices
            },
            uses=got.get("uses"),
            unread=self._unread,
            unreadable="; ".join(dict.fromkeys(self._unreadable)),
        )

    def _pods(self) -> list[Pod]:
        """Return the pods of the namespace: without them nothing can be said of a claim."""
        path = f"{self._core}/pods"
        found, unreadable = listed(self._client, path, Pod, on_page=self._on_page)
        if unreadable:
            self._unread["pods"] = f"this version cannot read {some(unreadable)} of {path}"
        return found

    def _uses(self, pod: Pod) -> tuple[DeviceUse, ...] | None:
        try:
            return read_uses(self._client, pod)
        except ApiError as error:
            why = forbidden(str(error)) if error.status == FORBIDDEN else str(error)
            self._unread["uses"] = f"the exporter of {pod.spec.node_name}: {why}"
            return None

    def _templates(self, pod: Pod | None, claims: Collection[str]) -> dict[str, bool]:
        """Return whether each template exists that is due, of those that may be read."""
        due = pod.templates_due(claims).values() if pod else ()
        folder = f"{self._dra}/namespaces/{self._namespace}/resourceclaimtemplates"
        found: dict[str, bool] = {}
        for name in dict.fromkeys(due):
            try:
                found[name] = self._one(_Named, folder, name) is not None
            except ApiError as error:
                if error.status != FORBIDDEN:
                    raise
                self._unread["templates"] = forbidden(str(error))
        return found

    def _one(self, kind: type[T], folder: str, name: str) -> T | None:
        path = f"{folder}/{name}"
        if not _NAME.fullmatch(name):
            return None
        try:
            return Decoder(kind).decode(self._client.get(path))
        except NotFound:
            return None
        except UNREADABLE as error:
            raise ApiError(f"GET {path}: this version cannot read it ({error})") from error

    def _some(
        self, name: str, kind: type[T], path: str, params: dict[str, str] | None = None
    ) -> list[T]:
        """Return a collection; without the right to list it, none, and the right is noted.

        None as well where it is not served: taint rules, and Draguard's incidents.
        """
        try:
            found, unreadable = listed(self._client, path, kind, params, on_page=self._on_page)
        except NotFound:
            return []
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            self._unread[name] = forbidden(str(error))
            return []
        if unreadable:
            why = f"this version cannot read {some(unreadable)} of {path}"
            if name in TO_ALLOCATE:
                self._unreadable.append(why)
            else:
                self._unread[name] = why
        return found

    def _no_pod(self, name: str) -> str:
        """Say that there is no such pod, what is named alike, and who fails to create pods."""
        names = [each.metadata.name for each in self._pods()]
        only = {"fieldSelector": f"reason={_FAILED_CREATE}"}
        failed = [
            f"; {each.involved_object.kind} {each.involved_object.name} cannot create pods: "
            f"{each.message}"
            for each in self._some("events", Event, f"{self._core}/events", only)
            if each.involved_object.name and name.startswith(f"{each.involved_object.name}-")
        ]
        near = did_you_mean(name, names)
        return f"no pod {name!r} in namespace {self._namespace}{near}{''.join(failed[-1:])}"


class _Named(msgspec.Struct, frozen=True):
    """An object of which only the existence matters."""
