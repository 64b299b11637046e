"""The Lease by which a node agent says that it is alive, as kubelets do.

The structs are pure; `renew` is the one write.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from kubeapi.client import Client, Conflict, NotFound


class LeaseMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None
    """The holder's clock. Measure age from when a change was seen, not from this."""


class Lease(msgspec.Struct, frozen=True):
    """coordination.k8s.io/v1 Lease, the parts that Draguard reads."""

    metadata: LeaseMeta
    spec: LeaseSpec = LeaseSpec()


def leases(namespace: str) -> str:
    """Return the path of the namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def renew(  # noqa: PLR0917 - reads as a sentence: who, where, how long, when
    client: Client,
    namespace: str,
    name: str,
    holder: str,
    duration_seconds: int,
    now: datetime,
    labels: Mapping[str, str] | None = None,
) -> None:
    """Say "alive at `now`" in one write; the first time creates the Lease. Raises ApiError."""
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration_seconds,
        "renewTime": _micro_time(now),
    }
    try:
        client.merge_patch(f"{leases(namespace)}/{name}", {"spec": spec})
    except NotFound:
        try:
            client.create(
                leases(namespace),
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": name, "labels": dict(labels or {})},
                    "spec": {**spec, "acquireTime": spec["renewTime"]},
                },
            )
        except Conflict:
            client.merge_patch(f"{leases(namespace)}/{name}", {"spec": spec})


def _micro_time(when: datetime) -> str:
    # MicroTime takes exactly six digits.
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
