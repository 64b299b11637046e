"""Publishing ResourceSlices as a DRA driver does: the server gets the desired slices."""

import contextlib
import copy
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubeapi.client import ApiError, Client, NotFound

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
Json = dict[str, Any]


def read(client: Client, path: str, params: Mapping[str, str] | None = None) -> Json:
    """Get an object or a list as plain JSON."""
    return msgspec.json.decode(client.get(path, params), type=dict[str, Any])


def published(client: Client, node: str) -> list[Json]:
    """Return the node's slices as the server has them."""
    return read(client, SLICES, {"fieldSelector": f"spec.nodeName={node}"})["items"]


def publish(
    client: Client, node: str, slices: Iterable[Json], *, new_generation: bool = False
) -> list[Json]:
    """Make the server's slices of `node` equal to `slices` (whole ResourceSlice objects).

    Names and the owner (the Node) are filled in where they are missing. With `new_generation`
    every pool gets a generation above all that the server has, as when a driver starts again or
    its devices change. Returns what is now published. Raises ApiError.
    """
    existing = {item["metadata"]["name"]: item for item in published(client, node)}
    owner: Json | None = None
    with contextlib.suppress(NotFound):
        uid = read(client, f"/api/v1/nodes/{node}")["metadata"]["uid"]
        kind = {"apiVersion": "v1", "kind": "Node"}
        owner = {**kind, "name": node, "uid": uid, "controller": True}
    desired = _complete(node, slices, owner)
    if new_generation:
        highest: dict[tuple[str, str], int] = {}
        for item in existing.values():
            pool = _pool(item)
            highest[pool] = max(highest.get(pool, 0), item["spec"]["pool"]["generation"])
        for item in desired.values():
            item["spec"]["pool"]["generation"] = highest.get(_pool(item), 0) + 1
    for name, item in desired.items():
        _store(client, item, existing.get(name))
    for name in existing.keys() - desired.keys():
        withdraw(client, name)
    return published(client, node)


def withdraw(client: Client, name: str) -> None:
    """Delete one slice; fine when it is gone already."""
    with contextlib.suppress(NotFound):
        client.delete(f"{SLICES}/{name}")


def _complete(node: str, slices: Iterable[Json], owner: Json | None) -> dict[str, Json]:
    complete: dict[str, Json] = {}
    for index, given in enumerate(slices):
        item = copy.deepcopy(given)
        item.setdefault("apiVersion", "resource.k8s.io/v1")
        item.setdefault("kind", "ResourceSlice")
        metadata = item.setdefault("metadata", {})
        metadata.pop("generateName", None)
        name = metadata.setdefault("name", f"{index:05x}-{item['spec']['driver']}-{node}-sim")
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        complete[name] = item
    return complete


def _pool(item: Json) -> tuple[str, str]:
    return item["spec"]["driver"], item["spec"]["pool"]["name"]


def _store(client: Client, item: Json, existing: Json | None) -> None:
    if existing is None:
        client.create(SLICES, item)
    elif existing["spec"] != item["spec"]:
        item["metadata"]["resourceVersion"] = existing["metadata"]["resourceVersion"]
        try:
            client.replace(f"{SLICES}/{item['metadata']['name']}", item)
        except ApiError as error:
            if error.status != 422:
                raise
            # Driver, node and pool name of a slice cannot change: such a slice is another one.
            withdraw(client, item["metadata"]["name"])
            del item["metadata"]["resourceVersion"]
            client.create(SLICES, item)
