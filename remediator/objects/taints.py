"""What a DeviceTaintRule of ours looks like: the one constructor and the one parser.

A rule always names driver, pool and device. An empty selector would match every
device of the cluster, so a rule without all three cannot be built. Rules have
no owner: a Node that is deleted and registered again must not set a sick GPU
free. Pure.
"""

import hashlib
import re
from datetime import datetime
from typing import Literal, get_args

import msgspec

from exporter.device import Device
from exporter.report import ObjectMeta, kubernetes_case

DOMAIN = "draguard.dev"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "draguard"
INCIDENT = f"{DOMAIN}/incident"
UUID = f"{DOMAIN}/uuid"
GPU = f"{DOMAIN}/gpu"
NODE = f"{DOMAIN}/node"

Effect = Literal["None", "NoSchedule", "NoExecute"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
"""From the mildest to the strongest."""

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class IncompleteSelectorError(ValueError):
    """A rule without driver, pool or device was asked for. It would match other devices."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One DeviceTaintRule of ours, wanted or existing."""

    device: Device
    effect: Effect
    fault: str
    """Fault class; becomes the taint's key `draguard.dev/<class>`."""
    cause: str
    """Becomes the taint's value."""
    incident: str
    uuid: str
    """Hardware that the device name stands for: a GPU, or a MIG slice."""
    gpu: str
    """UUID of the physical GPU."""
    node: str
    uid: str = ""
    resource_version: str = ""
    time_added: datetime | None = None

    def __post_init__(self) -> None:
        missing = [
            name for name in ("driver", "pool", "device") if not getattr(self.device, name).strip()
        ]
        if missing:
            raise IncompleteSelectorError(
                f"a DeviceTaintRule for {self.device!r} lacks {', '.join(missing)}: an empty "
                "selector matches every device; give driver, pool and device"
            )
        for value in (self.cause, self.incident, self.uuid, self.gpu):
            if not _LABEL_VALUE.fullmatch(value):
                raise ValueError(f"{value!r} is no label value, so a rule cannot carry it")

    @property
    def name(self) -> str:
        """Deterministic: the same device always gets the same rule, so a crash doubles nothing."""
        return rule_name(self.device)


class ForeignRule(msgspec.Struct, frozen=True):
    """Somebody else's DeviceTaintRule: read, shown, taken into account, never changed."""

    name: str
    driver: str
    """"" where the rule does not say, which means any; so with `pool` and `device`."""
    pool: str
    device: str
    key: str
    effect: str


def rule_name(device: Device) -> str:
    digest = hashlib.sha256("\0".join(msgspec.structs.astuple(device)).encode()).hexdigest()
    return f"draguard-{digest[:20]}"


def manifest(rule: Rule, api_version: str) -> dict[str, object]:
    """Return the object to create; `api_version` is a served version of resource.k8s.io."""
    return {
        "apiVersion": f"resource.k8s.io/{api_version}",
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": rule.name,
            "labels": {
                MANAGED_BY: MANAGER,
                INCIDENT: rule.incident,
                UUID: rule.uuid,
                GPU: rule.gpu,
            },
            "annotations": {NODE: rule.node},
        },
        "spec": {
            "deviceSelector": {
                "driver": rule.device.driver,
                "pool": rule.device.pool,
                "device": rule.device.device,
            },
            "taint": {
                "key": f"{DOMAIN}/{rule.fault}",
                "value": rule.cause,
                "effect": rule.effect,
            },
        },
    }


class Selector(msgspec.Struct, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""


class RawTaint(msgspec.Struct, frozen=True, rename=kubernetes_case):
    key: str
    effect: str
    value: str = ""
    time_added: datetime | None = None


class RawRuleSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    taint: RawTaint
    device_selector: Selector | None = None


class RawRule(msgspec.Struct, frozen=True):
    """A DeviceTaintRule as the API server stores it: anybody's."""

    metadata: ObjectMeta
    spec: RawRuleSpec


def parse(raw: RawRule) -> Rule | None:
    """Return a rule of ours, or None when it is somebody else's and never to be touched."""
    labels, selector = raw.metadata.labels, raw.spec.device_selector
    key_domain, _, fault = raw.spec.taint.key.partition("/")
    if labels.get(MANAGED_BY) != MANAGER or key_domain != DOMAIN or selector is None:
        return None
    device = Device(selector.driver, selector.pool, selector.device)
    if raw.metadata.name != rule_name(device):
        return None
    effect = raw.spec.taint.effect
    try:
        return Rule(
            device=device,
            effect=effect if effect in EFFECTS else "None",
            fault=fault,
            cause=raw.spec.taint.value,
            incident=labels.get(INCIDENT, ""),
            uuid=labels.get(UUID, ""),
            gpu=labels.get(GPU, ""),
            node=raw.metadata.annotations.get(NODE, ""),
            uid=raw.metadata.uid,
            resource_version=raw.metadata.resource_version,
            time_added=raw.spec.taint.time_added,
        )
    except ValueError:
        return None
