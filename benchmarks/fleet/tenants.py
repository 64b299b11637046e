"""Bodies of Nodes and of tenants' pods, as the API server is sent them, at a usual size. Pure."""

from datetime import datetime

from benchmarks.fleet_objects import Json, node_name

TENANTS, TEAMS, COUNTS, KINDS = 100, 50, 8, 40
"""Pods that wait are of KINDS: they request 1 to COUNTS GPUs, on any node or on those of a team."""
_CAPACITY = {"cpu": "192", "memory": "2Ti", "pods": "250", "ephemeral-storage": "7Ti"}
_REFUSED = "0/{} nodes are available: {} cannot allocate all claims. still not schedulable."


def namespace(number: int) -> str:
    return f"tenant-{number % TENANTS:02d}"


def waiting_name(number: int) -> str:
    return f"waits-{number:06d}"


def waiting_count(number: int) -> int:
    """Return how many GPUs a pod that waits requests."""
    return 1 + number % COUNTS


def node_selector(number: int) -> dict[str, str]:
    """Return on which nodes a pod that waits may run."""
    team = number % KINDS // COUNTS
    return {"team": f"team-{team}"} if team else {}


def node(number: int) -> Json:
    name = node_name(number)
    features = (f"cpu-{feature}" for feature in ("AVX512F", "AMXBF16", "SHA", "VMX", "SSE42"))
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "gpu-h100-8",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": f"region-1-{'abc'[number % 3]}",
        "team": f"team-{number % TEAMS}",
        **{f"feature.node.kubernetes.io/{feature}": "true" for feature in features},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def node_status(at: datetime) -> Json:
    """Return the status of a node that is Ready."""
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    conditions = [_condition(kind, "False", at, "KubeletHasSufficient") for kind in pressures]
    images = (f"registry.example.com/team/image-{number}" for number in range(20))
    return {
        "capacity": _CAPACITY,
        "allocatable": _CAPACITY,
        "conditions": [*conditions, _condition("Ready", "True", at, "KubeletReady")],
        "images": [{"names": [f"{image}@sha256:{'0a' * 32}"], "sizeBytes": 9} for image in images],
        "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.4", "osImage": "Linux 6.12"},
    }


def pod(name: str, place: str, *, node: str = "", selector: dict[str, str] | None = None) -> Json:
    """Return a pod of the namespace `place` that uses the claim of its own name."""
    container: Json = {
        "name": "main",
        "image": "registry.example.com/team/train:1",
        "args": ["train", "--epochs=10", "--checkpoints=/data"],
        "env": [{"name": f"SETTING_{number}", "value": "a value"} for number in range(10)],
        "resources": {"requests": {"cpu": "8", "memory": "64Gi"}, "claims": [{"name": "gpus"}]},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec: Json = {
        "containers": [container],
        "resourceClaims": [{"name": "gpus", "resourceClaimName": name}],
        "nodeSelector": selector or {},
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    meta = {"name": name, "namespace": place, "labels": {"app": "train", "job": name}}
    placed = {"nodeName": node} if node else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec | placed}


def pod_that_runs(at: datetime) -> Json:
    """Return the status of a pod that runs and is Ready."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    state = {"running": {"startedAt": _stamp(at)}}
    image = "registry.example.com/team/train"
    container = {"name": "main", "ready": True, "started": True, "restartCount": 0, "state": state}
    return {
        "phase": "Running",
        "conditions": [_condition(kind, "True", at, "") for kind in kinds],
        "containerStatuses": [container | {"image": image, "imageID": f"{image}@sha256:0a"}],
        "startTime": _stamp(at),
    }


def pod_that_waits(at: datetime, nodes: int) -> Json:
    """Return the status of a pod that the scheduler finds no devices for."""
    refused = _condition("PodScheduled", "False", at, "Unschedulable")
    message = _REFUSED.format(nodes, nodes)
    return {"phase": "Pending", "conditions": [refused | {"message": message}]}


def _condition(kind: str, status: str, at: datetime, reason: str) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": _stamp(at), "reason": reason}


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
