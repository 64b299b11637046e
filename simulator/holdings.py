"""Pods that hold devices, in the words of PodResources: claims, shares, device plugins.

Ids of device plugins in every grammar that one finds on clusters: NVIDIA's plugin
(UUIDs, the MIG form before driver R470, replicas of shared devices) and GKE's
(nvidiaN, giM, vgpuK). What they return is for `Kubelet.set_pods`. Pure.
"""

from collections.abc import Iterable
from typing import Any

from exporter.model.device import GPU_DRIVER
from simulator.gpu import Gpu, Instance

Json = dict[str, Any]


def pod(name: str, *containers: Json, namespace: str = "ml") -> Json:
    return {"name": name, "namespace": namespace, "containers": list(containers)}


def container(
    name: str = "main", *, claims: Iterable[Json] = (), plugins: Iterable[Json] = ()
) -> Json:
    """Return a container that holds claims and plugins' devices."""
    return {"name": name, "dynamic_resources": list(claims), "devices": list(plugins)}


def claim(name: str, *resources: Json, namespace: str = "ml") -> Json:
    """Return a claim with one device or several."""
    return {"claim_name": name, "claim_namespace": namespace, "claim_resources": list(resources)}


def resource(
    device: str,
    pool: str,
    *,
    driver: str = GPU_DRIVER,
    share: str | None = None,
    claim_uid: str = "",
) -> Json:
    """Return one device of a claim; `claim_uid` shows in the CDI name, as with NVIDIA's driver."""
    found: Json = {"driver_name": driver, "pool_name": pool, "device_name": device}
    if share is not None:
        found["share_id"] = share
    if claim_uid:
        found["cdi_devices"] = [{"name": f"k8s.{driver}/claim={claim_uid}-{device}"}]
    return found


def plugin(resource_name: str, *ids: str) -> Json:
    """Return what a container got from a device plugin, such as `nvidia.com/gpu`."""
    return {"resource_name": resource_name, "device_ids": list(ids)}


def plugin_ids(gpu: Gpu, instance: Instance | None = None, replica: int = 0) -> dict[str, str]:
    """Return all ids that plugins have for a GPU or one of its slices, by their grammar."""
    if instance is None:
        node = f"nvidia{gpu.minor}"
        return {
            "uuid": gpu.uuid,
            "replica": f"{gpu.uuid}::{replica}",
            "gke": node,
            "gke shared": f"{node}/vgpu{replica}",
            "gke shared, short": f"{gpu.minor}/vgpu{replica}",
        }
    node = f"nvidia{gpu.minor}/gi{instance.gi}"
    old = f"MIG-{gpu.uuid}/{instance.gi}/{instance.ci}"
    return {
        "uuid": instance.uuid,
        "replica": f"{instance.uuid}::{replica}",
        "before R470": old,
        "before R470, replica": f"{old}::{replica}",
        "gke": node,
        "gke shared": f"{node}/vgpu{replica}",
    }
