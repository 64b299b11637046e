"""What the API server serves: versions of resource.k8s.io, feature gates, Draguard's objects."""

import re
from collections.abc import Iterator, Mapping
from typing import get_args

import msgspec

from draguard.cluster.reading import PLAIN_CRDS
from draguard.connection.errors import forbidden
from draguard.doctor.check import Check, bad, ok, unknown, warn
from exporter.model.node_health import NodeHealth
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound
from kubeapi.discovery import served
from kubeapi.versions import DRA_VERSIONS, GROUP, RULE_VERSIONS
from remediator.model.incident import IncidentSpec
from remediator.model.incident_status import IncidentStatus

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_INSTALL = f"install the chart (docs/install.md); {PLAIN_CRDS}"
_UPGRADE = f"upgrade the chart (docs/install.md, Upgrading); {PLAIN_CRDS}"
_GATE_FLAGS = "check --feature-gates of kube-apiserver, kube-scheduler, kube-controller-manager"
GATES: Mapping[str, str] = {
    "DynamicResourceAllocation": "pods can claim devices",
    "DRADeviceTaints": "device taints take effect",
    "DRADeviceTaintRules": "DeviceTaintRules taint devices",
    "DRAExtendedResource": "pods can request DRA devices as nvidia.com/gpu",
    "DRAPartitionableDevices": "dynamic MIG slices are supported",
}
NEEDED = frozenset({"DynamicResourceAllocation", "DRADeviceTaints", "DRADeviceTaintRules"})
_GATE = re.compile(
    r'^kubernetes_feature_enabled\{name="(\w+)",stage="[^"]*"\} ([01])$', re.MULTILINE
)
_SCHEMAS: Mapping[str, Mapping[str, type[msgspec.Struct]]] = {
    "nodedevicehealths": {"status": NodeHealth},
    "deviceincidents": {"spec": IncidentSpec, "status": IncidentStatus},
}


class _Schema(msgspec.Struct, frozen=True):
    properties: "dict[str, _Schema]" = {}
    items: "_Schema | None" = None


class _Validation(msgspec.Struct, frozen=True, rename={"schema": "openAPIV3Schema"}):
    schema: _Schema = _Schema()


class _Version(msgspec.Struct, frozen=True):
    name: str
    served: bool = False
    schema: _Validation = _Validation()


class _Spec(msgspec.Struct, frozen=True):
    versions: tuple[_Version, ...] = ()


class _Definition(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


def versions(client: Client) -> Iterator[Check]:
    """Say which versions of the kinds of DRA are served. Raises ApiError."""
    about = "Dynamic Resource Allocation"
    found = served(client, GROUP, "resourceslices", DRA_VERSIONS)
    if found is None:
        yield bad(
            about,
            "ResourceSlices are not served",
            "use Kubernetes 1.34; 1.32 and 1.33 need the feature gate DynamicResourceAllocation "
            "and --runtime-config=resource.k8s.io/v1beta1=true on the API server",
        )
    else:
        yield ok(about, f"{GROUP}/{found}")
    rules = served(client, GROUP, "devicetaintrules", RULE_VERSIONS)
    if rules is None:
        yield warn(
            "DeviceTaintRules",
            "not served: nothing is tainted or evicted, whatever the policy says; incidents and "
            "requests for node repair work",
            "use Kubernetes 1.37; 1.36 needs --runtime-config=resource.k8s.io/v1beta2=true "
            "and the feature gate DRADeviceTaintRules (docs/remediation.md, Kubernetes versions). "
            "Until then keep pods off a sick GPU with kubectl cordon",
        )
    else:
        yield ok("DeviceTaintRules", f"{GROUP}/{rules}")


def gates(client: Client) -> Iterator[Check]:
    """Check the gates of the API server; those of the other components are not published."""
    try:
        page = client.get("/metrics", accept="text/plain").decode(errors="replace")
    except ApiError as error:
        yield unknown(
            "feature gates",
            f"they are read from the API server's metrics: {forbidden(error.message)}",
            _GATE_FLAGS,
        )
        return
    yield from gate_checks({name: value == "1" for name, value in _GATE.findall(page)})


def gate_checks(found: Mapping[str, bool]) -> Iterator[Check]:
    """Judge the gates of an API server, by name; one that is missing is not known there. Pure."""
    for name, means in GATES.items():
        about = f"gate {name}"
        if name not in found:
            yield unknown(about, f"not reported by this API server ({means})", _GATE_FLAGS)
        elif found[name]:
            yield ok(about, f"on in the API server: {means}")
        else:
            remedy = (
                f"set --feature-gates={name}=true on API server, scheduler and controller manager"
            )
            off = f"off in the API server; when on, {means}"
            yield warn(about, off, remedy) if name in NEEDED else ok(about, off)


def objects(client: Client) -> Iterator[Check]:
    """Check whether Draguard's CRDs are installed and have all fields that this version writes.

    Raises ApiError.
    """
    for plural, parts in _SCHEMAS.items():
        about = f"CRD {plural}"
        try:
            raw = client.get(f"{_CRDS}/{plural}.draguard.dev")
            found = msgspec.json.decode(raw, type=_Definition)
        except NotFound:
            yield bad(about, "not installed", _INSTALL)
            continue
        except UNREADABLE as error:
            yield unknown(about, f"cannot be read ({error})", _UPGRADE)
            continue
        yield _fits(about, found, parts)


def _fits(about: str, found: _Definition, parts: Mapping[str, type[msgspec.Struct]]) -> Check:
    current = [version for version in found.spec.versions if version.served]
    if not current:
        return bad(about, "no version is served", _UPGRADE)
    schema = current[-1].schema.schema
    lacking = [
        path
        for part, kind in parts.items()
        for path in _lacking(part, kind, schema.properties.get(part, _Schema()))
    ]
    names = ", ".join(version.name for version in current)
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        older = f"{names}, from an older release: it lacks {', '.join(lacking[:3])}{more}"
        return warn(about, f"{older}, so these fields are not stored", _UPGRADE)
    return ok(about, f"{names}, with every field of this release")


def _lacking(path: str, kind: type[msgspec.Struct], schema: _Schema) -> Iterator[str]:
    """Yield each field that a schema does not have; of one that is missing, nothing below it."""
    for field in msgspec.structs.fields(kind):
        spelled, found = f"{path}.{field.encode_name}", schema.properties.get(field.encode_name)
        if found is None:
            yield spelled
        elif (below := _struct_in(field.type)) is not None:
            yield from _lacking(spelled, below, found.items or found)


def _struct_in(annotation: object) -> type[msgspec.Struct] | None:
    """Return the struct that a field has, or that each of its entries is; None for a value."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    inner = (_struct_in(each) for each in get_args(annotation))
    return next((found for found in inner if found is not None), None)
