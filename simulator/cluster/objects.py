"""Objects from YAML for an API server, without kubectl, which takes minutes to build."""

import msgspec
import yaml

from kubeapi.client import ApiError, Client

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class _Resource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...]


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = "default"


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    metadata: _Metadata


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class _Crd(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _Status = _Status()


class _Crds(msgspec.Struct, frozen=True):
    items: tuple[_Crd, ...]


def create(client: Client, text: str) -> None:
    """Create the objects of a YAML text, in their order. Raises ApiError."""
    for body in filter(None, yaml.safe_load_all(text)):
        one = msgspec.convert(body, _Object)
        group = f"/apis/{one.api_version}" if "/" in one.api_version else f"/api/{one.api_version}"
        served = msgspec.json.decode(client.get(group), type=_Resources).resources
        # A subresource may have the same kind.
        kinds = {resource.kind: resource for resource in served if "/" not in resource.name}
        if (resource := kinds.get(one.kind)) is None:
            raise ApiError(f"the API server has no {one.kind} in {one.api_version}")
        place = f"/namespaces/{one.metadata.namespace}" if resource.namespaced else ""
        client.create(f"{group}{place}/{resource.name}", body)


def not_established(crds: bytes) -> str:
    """Return the names of the CRDs in a list that the API server has not accepted yet."""
    return ", ".join(
        crd.metadata.name
        for crd in msgspec.json.decode(crds, type=_Crds).items
        if _Condition("Established", "True") not in (crd.status.conditions or ())
    )
