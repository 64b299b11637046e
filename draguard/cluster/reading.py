"""The API server's collections into `Objects`. Reads only."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from draguard.cluster.listing import Heard, listed, unheard
from draguard.cluster.objects import Objects
from draguard.connection.refusal import NotInstalledError, forbidden
from exporter.report import NodeDeviceHealth
from exporter.slices import ResourceSlice
from kubeapi import clock
from kubeapi.client import JSON, METADATA_LIST, UNREADABLE, ApiError, Client, NotFound
from kubeapi.discovery import served
from kubeapi.lease import Lease, leases
from remediator.hands.cluster import NODES, REPORTS
from remediator.hands.emergency import FORBIDDEN, NAMESPACES, Namespace, stop_of
from remediator.hands.gates import StatedRule
from remediator.hands.versions import DRA_VERSIONS, GROUP, RULE_VERSIONS
from remediator.hands.writes import INCIDENTS
from remediator.objects.claims import Claim
from remediator.objects.incident import Incident
from remediator.objects.nodes import RawNode

T = TypeVar("T")
OPTIONAL = frozenset({"nodes", "stop"})
"""What is gone on without where the caller may not read it; the other things are judged by."""
WATCHED = ("reports", "slices", "claims", "rules", "incidents", "leases", "nodes", "stop")
"""What the remediator looks at."""
NOT_INSTALLED = (
    "{resource} are not served in this cluster: Draguard is not installed here. Install it "
    "(docs/install.md), or give this cluster its objects: kubectl apply -f deploy/crds"
)


class Reader:
    """Reads one cluster. Every method raises ApiError, or NotInstalledError without the CRDs."""

    def __init__(self, client: Client, namespace: str, heard: Heard = unheard) -> None:
        self.client = client
        self.namespace = namespace
        self._heard = heard
        self._unreadable: dict[str, int] = {}

    def objects(self, *wanted: str) -> Objects:
        """Return the collections of these names (fields of `Objects`, and `_READ`)."""
        found: dict[str, Any] = {}
        unseen: list[str] = []
        for name in wanted:
            try:
                found |= _READ[name](self)
            except ApiError as error:
                if error.status != FORBIDDEN or name not in OPTIONAL:
                    raise
                unseen.append(forbidden(error.message))
        told = tuple(f"{count} {name}" for name, count in self._unreadable.items())
        server = self.client.endpoint.server
        return Objects(
            server=server, at=clock.now(), unreadable=told, unseen=tuple(unseen), **found
        )

    def reports(self) -> Mapping[str, object]:
        return {"reports": self._ours(REPORTS, NodeDeviceHealth)}

    def any_reports(self) -> Mapping[str, object]:
        """Return none where only metrics are installed: slices name devices as well."""
        try:
            return self.reports()
        except NotInstalledError:
            return {}

    def incidents(self) -> Mapping[str, object]:
        return {"incidents": self._ours(INCIDENTS, Incident)}

    def slices(self) -> Mapping[str, object]:
        version = self.version("resourceslices")
        return {"dra_version": version, "slices": self._dra(version, "resourceslices")}

    def claims(self) -> Mapping[str, object]:
        version = self.version("resourceclaims")
        return {"claims": self._dra(version, "resourceclaims", Claim)}

    def rules(self) -> Mapping[str, object]:
        version = self.version("devicetaintrules")
        return {
            "rule_version": version,
            "rules": self._dra(version, "devicetaintrules", StatedRule),
        }

    def leases(self) -> Mapping[str, object]:
        return {"leases": self._listed(leases(self.namespace), Lease)}

    def nodes(self) -> Mapping[str, object]:
        return {"nodes": self._listed(NODES, RawNode, accept=METADATA_LIST)}

    def stop(self) -> Mapping[str, object]:
        try:
            raw = self.client.get(f"{NAMESPACES}/{self.namespace}")
            return {"stopped": stop_of(msgspec.json.decode(raw, type=Namespace))}
        except NotFound:
            return {}
        except UNREADABLE as error:
            raise ApiError(f"namespace {self.namespace} cannot be read ({error})") from error

    def version(self, resource: str) -> str | None:
        """Return the newest version of resource.k8s.io that has a kind, None when none has."""
        versions = RULE_VERSIONS if resource == "devicetaintrules" else DRA_VERSIONS
        return served(self.client, GROUP, resource, versions)

    def _ours(self, path: str, kind: type[T]) -> tuple[T, ...]:
        try:
            return self._listed(path, kind)
        except NotFound as error:
            resource = path.rpartition("/")[2]
            raise NotInstalledError(NOT_INSTALLED.format(resource=resource)) from error

    def _dra(
        self, version: str | None, resource: str, kind: type[Any] = ResourceSlice
    ) -> tuple[Any, ...]:
        path = f"/apis/{GROUP}/{version}/{resource}"
        return self._listed(path, kind) if version else ()

    def _listed(self, path: str, kind: type[T], *, accept: str = JSON) -> tuple[T, ...]:
        found, unreadable = listed(self.client, path, kind, accept=accept, heard=self._heard)
        if unreadable:
            self._unreadable[path.rpartition("/")[2]] = unreadable
        return tuple(found)


_READ = {
    "reports": Reader.reports,
    "any_reports": Reader.any_reports,
    "incidents": Reader.incidents,
    "slices": Reader.slices,
    "claims": Reader.claims,
    "rules": Reader.rules,
    "leases": Reader.leases,
    "nodes": Reader.nodes,
    "stop": Reader.stop,
}
