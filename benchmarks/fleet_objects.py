"""Bodies of the objects of a large fleet, as the API server is sent them. Pure.

Each node has its eight GPUs' NodeDeviceHealth at about the size of a real
healthy report, one ResourceSlice and a Lease; claims are allocated and reserved.
"""

from datetime import datetime
from typing import Any

import msgspec

from exporter.model.node_health import (
    FabricHealth,
    GpuHealth,
    Inventory,
    MemoryHealth,
    NodeHealth,
    NvlinkHealth,
    RecoveryAction,
    SourceHealth,
    Summary,
    XidRecord,
)

Json = dict[str, Any]
DRIVER = "gpu.nvidia.com"
NAMESPACE = "draguard-system"
JOBS = "default"


def node_name(number: int) -> str:
    return f"node-{number:05d}"


def gpu_uuid(node: int, gpu: int) -> str:
    return f"GPU-{node:08x}-{gpu:04x}-4a11-8c22-{node:012x}"


def health(node: int, gpus: int, at: datetime, failed: int | None = None) -> Json:
    """Return the status of a node's report; `failed` names a GPU after an uncontained error."""
    entries = tuple(_gpu(node, number, at, failed=number == failed) for number in range(gpus))
    sources = ("nvml", "kmsg", "podresources", "dcgm")
    report = NodeHealth(
        boot_id=f"5d6f0c1e-0000-4000-8000-{node:012x}",
        agent_version="bench",
        driver_version="580.82.07",
        observed_at=at,
        sources=tuple(SourceHealth(name=name, state="Up", last_success=at) for name in sources),
        gpus=entries,
        inventory=Inventory(seen=gpus, on_bus=gpus, set_aside=0, published=gpus),
        summary=Summary(gpus=gpus, present=gpus),
    )
    return msgspec.to_builtins(report)


def _gpu(node: int, number: int, at: datetime, *, failed: bool) -> GpuHealth:
    xids = (_application_error(at),) if number == 0 else ()
    action = RecoveryAction(support="Supported", value=0, since=at, observed_at=at)
    if failed:
        xids += (
            XidRecord(
                code=95,
                count=3,
                first_seen=at,
                last_seen=at,
                reset_request="Immediate",
                message="Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No",
                sources=("kmsg", "nvml"),
            ),
        )
        action = msgspec.structs.replace(action, value=1)
    return GpuHealth(
        uuid=gpu_uuid(node, number),
        presence="Present",
        presence_since=at,
        pci_bus_id=_bus(number),
        serial=f"16542{node:06d}{number}",
        minor=number,
        product="NVIDIA H100 80GB HBM3",
        mig_mode="Disabled",
        recovery_action=action,
        epoch_started=at,
        xids=xids,
        memory=MemoryHealth(
            dbe_volatile=0,
            dbe_aggregate=0,
            row_remap_pending="False",
            row_remap_failed="False",
            remap_observed_at=at,
            sram_threshold_exceeded="False",
        ),
        fabric=FabricHealth(state=3, status=0, health_mask=0, health_summary=1),
        nvlink=NvlinkHealth(up=tuple(range(18))),
    )


def _application_error(at: datetime) -> XidRecord:
    return XidRecord(
        code=31,
        count=2,
        first_seen=at,
        last_seen=at,
        pid=4711,
        process="python",
        message="Ch 00000007, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_6",
        sources=("kmsg", "nvml"),
    )


def report(node: int) -> Json:
    return {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "NodeDeviceHealth",
        "metadata": {"name": node_name(node)},
    }


def resource_slice(node: int, gpus: int) -> Json:
    name = node_name(node)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-gpu"},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(node, number) for number in range(gpus)],
        },
    }


def _device(node: int, number: int) -> Json:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": gpu_uuid(node, number)},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "580.82.7"},
            "resource.kubernetes.io/pciBusID": {"string": _bus(number)},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def job(number: int) -> str:
    """Return the name of a claim and of the pod that has it."""
    return f"train-{number:06d}"


def claim(name: str, namespace: str, *, count: int = 1, device_class: str = DRIVER) -> Json:
    exactly = {"deviceClassName": device_class, "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def pod_uid(number: int) -> str:
    return f"7d0c2f6e-0000-4000-8000-{number:012x}"


def allocation(node: int, gpu: int, pod: str, uid: str) -> Json:
    """Return the status of a claim that holds one GPU for a pod."""
    result = {"request": "gpu", "driver": DRIVER, "pool": node_name(node), "device": f"gpu-{gpu}"}
    consumer = {"resource": "pods", "name": pod, "uid": uid}
    return {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}


def lease(node: int, at: datetime) -> Json:
    name = node_name(node)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"draguard-agent-{name}", "namespace": NAMESPACE},
        "spec": renewal(at) | {"holderIdentity": name, "leaseDurationSeconds": 60},
    }


def renewal(at: datetime) -> Json:
    return {"renewTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}


def _bus(number: int) -> str:
    return f"0000:{0x10 + number:02x}:00.0"
