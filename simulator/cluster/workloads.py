"""Objects that a cluster with NVIDIA's DRA driver has and its users write: classes, claims, pods.

Pure builders of plain JSON. The device classes select as those of NVIDIA's chart do.
"""

from typing import Any

Json = dict[str, Any]
DRIVER = "gpu.nvidia.com"
GPU_CLASS = "gpu.nvidia.com"
MIG_CLASS = "mig.nvidia.com"
_RESOURCE = "resource.k8s.io/v1"


def device_class(name: str, kind: str, extended_resource: str = "") -> Json:
    """Build the class of all devices of the driver whose attribute `type` is `kind`."""
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
    spec: Json = {"selectors": [{"cel": {"expression": expression}}]}
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    return {
        "apiVersion": _RESOURCE,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def device_classes() -> list[Json]:
    """Build the two classes that matter here; pods may also ask for `nvidia.com/gpu: 1`."""
    return [
        device_class(GPU_CLASS, "gpu", extended_resource="nvidia.com/gpu"),
        device_class(MIG_CLASS, "mig"),
    ]


def gpu_request(name: str = "gpu", count: int = 1) -> Json:
    return {"name": name, "exactly": {"deviceClassName": GPU_CLASS, "count": count}}


def mig_request(profile: str, name: str = "mig") -> Json:
    """Ask for one slice of a profile such as `1g.5gb`."""
    expression = f"device.attributes['{DRIVER}'].profile == '{profile}'"
    selectors = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": {"deviceClassName": MIG_CLASS, "selectors": selectors}}


def claim_template(name: str, *requests: Json) -> Json:
    return {
        "apiVersion": _RESOURCE,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def claim(name: str, *requests: Json) -> Json:
    """Build a claim that pods share by its name."""
    return {
        "apiVersion": _RESOURCE,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests)}},
    }


def pod_spec(
    *, template: str = "", shared_claim: str = "", extended_gpus: int = 0, node: str = ""
) -> Json:
    """Build the spec of a pod with one container that holds what is named."""
    container: Json = {"name": "main", "image": "example.com/workload:1", "resources": {}}
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 30}
    if template or shared_claim:
        source = (
            {"resourceClaimTemplateName": template}
            if template
            else {"resourceClaimName": shared_claim}
        )
        spec["resourceClaims"] = [{"name": "devices", **source}]
        container["resources"]["claims"] = [{"name": "devices"}]
    if extended_gpus:
        container["resources"]["limits"] = {"nvidia.com/gpu": str(extended_gpus)}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return spec


def pod(name: str, spec: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def deployment(name: str, replicas: int, spec: Json) -> Json:
    """Build a Deployment; with a claim template each replica gets devices of its own."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
