"""Incidents as the API server stores them, every field of them, for `-o json|yaml|jsonpath`."""

from collections.abc import Iterable
from typing import Any

import msgspec

from draguard.cluster.listing import raw_items
from kubeapi.client import Client
from kubeapi.resources import INCIDENTS
from remediator.model.incident import Incident

API, KIND = "draguard.dev/v1alpha1", "DeviceIncident"
RESOURCE = "deviceincident.draguard.dev"
RULE_RESOURCE = "devicetaintrule.resource.k8s.io"
Document = dict[str, Any]


def incident_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names as `-o name` prints them."""
    return tuple(f"{RESOURCE}/{name}" for name in names)


def rule_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{RULE_RESOURCE}/{name}" for name in names)


def stored_incidents(client: Client, names: Iterable[str]) -> tuple[Document, ...]:
    """Return the objects of these names, in this order; those that are gone are left out.

    As kubectl, without `managedFields`. Raises ApiError.
    """
    desired = tuple(names)
    params = {"fieldSelector": f"metadata.name={desired[0]}"} if len(desired) == 1 else None
    found: dict[str, Document] = {}
    for raw in raw_items(client, INCIDENTS, params) if desired else ():
        content: Document = msgspec.json.decode(raw)
        content["metadata"].pop("managedFields", None)
        found[content["metadata"]["name"]] = {"apiVersion": API, "kind": KIND, **content}
    return tuple(found[name] for name in desired if name in found)


def listed_as(items: tuple[Document, ...]) -> Document:
    """Return several objects as the API server lists them."""
    return {"apiVersion": API, "kind": f"{KIND}List", "items": list(items)}


def version_of(incident: Incident) -> tuple[str, str | None]:
    """Return what changes with every write to an incident."""
    return incident.name, incident.metadata.resource_version
