"""The API server's collections into `Objects`. Reads only."""

import signal
from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from draguard.cluster.leader import drivers_of
from draguard.cluster.listing import OnPage, ignored, listed
from draguard.cluster.objects import Objects
from draguard.connection.errors import NotInstalledError, forbidden
from draguard.connection.whoami import ahead, now
from draguard.phrases import some
from exporter.model.device import GPU_DRIVER, NVIDIAS, GpuDrivers
from exporter.model.node_health import NodeDeviceHealth
from exporter.model.resource_slices import ResourceSlice
from kubeapi.client import JSON, METADATA_LIST, UNREADABLE, ApiError, Client, NotFound
from kubeapi.discovery import served
from kubeapi.lease import Lease, leases
from kubeapi.resources import INCIDENTS, NODES, REPORTS
from kubeapi.versions import DRA_VERSIONS, GROUP, RULE_VERSIONS
from remediator.controller.agents import LEASE_NAME
from remediator.controller.emergency import FORBIDDEN, NAMESPACES, Namespace, stop_of
from remediator.controller.feature_gates import StatedRule
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.node import RawNode

T = TypeVar("T")
OPTIONAL = frozenset({"nodes", "stop"})
"""Collections that may be missing if the caller may not read them; verdicts need the others."""
WATCHED = ("reports", "slices", "claims", "rules", "incidents", "leases", "nodes", "stop")
"""What the remediator looks at."""
SIDE_BY_SIDE = 6
"""Lists at a time; a client keeps eight connections."""
_LOOK = 0.1
"""Seconds between two checks for Ctrl-C, and between two aborts: one misses a connection that is
being made."""
KINDS = (NodeDeviceHealth, Incident, ResourceSlice, Claim, StatedRule, Lease, RawNode, Namespace)
_MADE = tuple(map(msgspec.json.Decoder, KINDS))
"""msgspec learns a struct at its first use, and crashes where several threads do so at once."""
Part = Mapping[str, object] | ApiError
"""Fields of `Objects`, or the refusal of a right."""
PLAIN_CRDS = "with plain manifests: kubectl apply --server-side -f deploy/manifests/crds.yaml"
"""Not for the chart: Helm refuses to install where CRDs are that belong to no release."""
NOT_INSTALLED = (
    "{resource} are not served by this cluster: Draguard is not installed here. Install it "
    f"(docs/install.md); {PLAIN_CRDS}"
)


class Reader:
    """Reads one cluster. Every method raises ApiError, or NotInstalledError without the CRDs."""

    def __init__(self, client: Client, namespace: str, on_page: OnPage = ignored) -> None:
        self.client = client
        self.namespace = namespace
        self._on_page = on_page
        self._unreadable: dict[str, tuple[str, ...]] = {}
        self._ahead = timedelta()

    def objects(self, *desired: str, spared: Collection[str] = OPTIONAL) -> Objects:
        """Return the collections of these names (fields of `Objects`, and `_READ`).

        They are read in parallel. Those in `spared` may be missing if the caller may not
        read them, unless all requested ones outside of OPTIONAL are missing.
        """
        reads = {name: partial(self._read, name) for name in desired}
        parts, self._ahead = side_by_side(self.client, reads)
        missing = [name for name in desired if isinstance(parts[name], ApiError)]
        blind = {*desired} - OPTIONAL <= {*missing}
        for name in missing:
            if blind or name not in spared:
                raise cast("ApiError", parts[name])
        found: dict[str, Any] = {}
        for part in parts.values():
            found |= {} if isinstance(part, ApiError) else part
        nowhere = f"there is no namespace {self.namespace}: give the namespace of Draguard with -n"
        return Objects(
            server=self.client.endpoint.server,
            at=now(self._ahead),
            unreadable=tuple(
                f"{len(names)} {collection} ({some(names)})"
                for collection, names in sorted(self._unreadable.items())
            ),
            unseen=(
                *(forbidden(str(parts[name])) for name in missing),
                *((nowhere,) if "no_namespace" in found else ()),
                *filter(None, (found.get("assumed", ""),)),
            ),
            missing=frozenset(missing),
            **found,
        )

    def _read(self, name: str) -> Part:
        try:
            return _READ[name](self)
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            return error

    def reports(self) -> Mapping[str, object]:
        return {"reports": self._ours(REPORTS, NodeDeviceHealth)}

    def any_reports(self) -> Mapping[str, object]:
        """Return the reports, none if only metrics are installed: slices name the devices, too."""
        try:
            return self.reports()
        except NotInstalledError:
            return {}

    def incidents(self) -> Mapping[str, object]:
        return {"incidents": self._ours(INCIDENTS, Incident)}

    def slices(self) -> Mapping[str, object]:
        version = self.version("resourceslices")
        slices = self._dra(version, "resourceslices")
        drivers, unknown = self._gpu_drivers()
        others = sorted({each.spec.driver for each in slices} - NVIDIAS)
        return {
            "dra_version": version,
            "slices": slices,
            "gpu_drivers": drivers or NVIDIAS,
            "assumed": f"the list of gpuDrivers ({unknown}): {GPU_DRIVER} is assumed, and "
            f"{some(others)} counts as foreign"
            if others and not drivers
            else "",
        }

    def _gpu_drivers(self) -> tuple[GpuDrivers, str]:
        """Return those that the leader has recorded; or none, and why they are not known."""
        try:
            # A list, although of one: whoever reads the status may list Leases.
            only = {"fieldSelector": f"metadata.name={LEASE_NAME}"}
            found, unreadable = listed(self.client, leases(self.namespace), Lease, only)
        except ApiError as error:
            return frozenset(), forbidden(str(error))
        unknown = (
            f"Lease {LEASE_NAME} cannot be read" if unreadable else "no leader has recorded it"
        )
        return drivers_of(next(iter(found), None)), unknown

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
            return {"no_namespace": True}
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
        found, unreadable = listed(self.client, path, kind, accept=accept, on_page=self._on_page)
        if unreadable:
            self._unreadable[path.rpartition("/")[2]] = unreadable
        return tuple(found)


def left_out(objects: Objects) -> str:
    """Return the end of a sentence: what is assumed, and what was skipped; "" for nothing."""
    unreadable = ", ".join(objects.unreadable)
    skipped = f"skipped because this version cannot read them: {unreadable}" if unreadable else ""
    assumed = f"not read: {objects.assumed}" if objects.assumed else ""
    return "".join(f"; {text}" for text in (assumed, skipped) if text)


def side_by_side(
    client: Client, reads: Mapping[str, Callable[[], T]]
) -> tuple[dict[str, T], timedelta]:
    """Read in parallel, and how far the server's clock is ahead of this machine's.

    Of several failures, the first in the order given is raised.
    """
    with _interrupt_deferred(), ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        time = pool.submit(ahead, client)
        begun = {name: pool.submit(read) for name, read in reads.items()}
        every: list[Future[Any]] = [time, *begun.values()]
        while wait(every, _LOOK).not_done:
            if signal.SIGINT in signal.sigpending():
                client.abort()  # else it would wait for the slowest list
    return {name: read.result() for name, read in begun.items()}, time.result()


@contextmanager
def _interrupt_deferred() -> Generator[None]:
    """Defer Ctrl-C to the end of the block; threads that are started inside never get it.

    Python raises KeyboardInterrupt anywhere in its main thread. Between taking a lock and the
    block that releases it, the lock stays taken (bugs.python.org/issue29988); a pool of threads
    has several such locks.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
