"""Nodes and pods as the doctor reads them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from draguard.doctor.nodes import Node
from draguard.doctor.pod_status import Pod
from tests.lab.cluster import Json

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
WEEKS = timedelta(weeks=3)


def stored_node(
    name: str = "node-a",
    *,
    runtime: str = "",
    os_image: str = "",
    labels: Mapping[str, str] | None = None,
) -> Node:
    info = {"containerRuntimeVersion": runtime, "osImage": os_image}
    body = {"metadata": {"name": name, "labels": labels or {}}, "status": {"nodeInfo": info}}
    return msgspec.convert(body, Node)


def stored_pod(
    status: Json,
    phase: str = "Running",
    *,
    name: str = "p",
    namespace: str = "n",
    container: str = "agent",
    initial: bool = False,
    age: timedelta = WEEKS,
    deleted: timedelta | None = None,
    node: str = "node-a",
    account: str = "draguard-remediator",
    **more: Any,
) -> Pod:
    """Return a pod of one container that has this status; `deleted` is how long ago."""
    meta: Json = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "creationTimestamp": NOW - age,
    }
    containers = "initContainerStatuses" if initial else "containerStatuses"
    body: Json = {
        "metadata": meta | ({} if deleted is None else {"deletionTimestamp": NOW - deleted}),
        "spec": {"nodeName": node, "serviceAccountName": account},
        "status": {"phase": phase, containers: [{"name": container, **status}], **more},
    }
    return msgspec.convert(body, Pod)
