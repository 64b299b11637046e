"""Leases: an agent renews one to show that it is alive, as kubelets do; a leader holds one.

The structs are pure. `renew` writes whatever is there; `take` only what was read before.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from kubeapi.client import UNREADABLE, ApiError, Client, Conflict, NotFound


class LeaseMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    """The holder's clock. Measure age from when a change was seen, not from this."""
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True, gc=False):
    """coordination.k8s.io/v1 Lease, the parts that Draguard reads."""

    metadata: LeaseMeta
    spec: LeaseSpec = LeaseSpec()


def leases(namespace: str) -> str:
    """Return the path of the namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def renew(  # noqa: PLR0917 - reads as a sentence: holder, place, duration, time
    client: Client,
    namespace: str,
    name: str,
    holder: str,
    duration_seconds: int,
    now: datetime,
    annotations: Mapping[str, str] | None = None,
) -> None:
    """Renew the Lease at `now` in one write; the first time creates it. Raises ApiError."""
    metadata = {"annotations": dict(annotations)} if annotations else {}
    patch = {"metadata": metadata} if metadata else {}
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration_seconds,
        "renewTime": _micro_time(now),
    }
    try:
        client.merge_patch(f"{leases(namespace)}/{name}", {**patch, "spec": spec})
    except NotFound:
        try:
            client.create(
                leases(namespace),
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": name, **metadata},
                    "spec": {**spec, "acquireTime": spec["renewTime"]},
                },
            )
        except Conflict:
            client.merge_patch(f"{leases(namespace)}/{name}", {**patch, "spec": spec})


def read(client: Client, namespace: str, name: str) -> Lease | None:
    """Return a Lease as stored, None when there is none. Raises ApiError."""
    try:
        return _decode(client.get(f"{leases(namespace)}/{name}"))
    except NotFound:
        return None


def take(  # noqa: PLR0917 - reads as a sentence: what was read, holder, duration, time
    client: Client,
    namespace: str,
    name: str,
    found: Lease | None,
    holder: str,
    duration_seconds: int,
    now: datetime,
    annotations: Mapping[str, str] | None = None,
) -> Lease:
    """Make `holder` the holder, or stay it, if the Lease is still as `found`.

    `annotations` are written beside those that are there.

    Returns what is stored then. Raises Conflict when another client was first, else ApiError. An
    empty `holder` releases the Lease.
    """
    before = found.spec if found is not None else LeaseSpec()
    noted = dict(annotations or {})
    stays = before.holder_identity == holder
    since = before.acquire_time if stays and before.acquire_time else now
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration_seconds,
        "acquireTime": _micro_time(since),
        "renewTime": _micro_time(now),
        "leaseTransitions": (before.lease_transitions or 0) + (not stays and bool(holder)),
    }
    if found is None:
        metadata: dict[str, object] = {"name": name, "annotations": noted}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        return _decode(
            client.create(leases(namespace), {**body, "metadata": metadata, "spec": spec})
        )
    metadata = {"resourceVersion": found.metadata.resource_version, "annotations": noted}
    path = f"{leases(namespace)}/{name}"
    return _decode(client.merge_patch(path, {"metadata": metadata, "spec": spec}))


def _decode(raw: bytes) -> Lease:
    try:
        return msgspec.json.decode(raw, type=Lease)
    except UNREADABLE as error:
        raise ApiError(f"the answer is not a Lease ({error})") from error


def _micro_time(when: datetime) -> str:
    # MicroTime takes exactly six digits.
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
