"""What a DeviceTaintRule of an incident looks like: its builder and its parser.

A rule always names driver, pool and device. An empty selector would match every
device of the cluster, so a rule without all three cannot be built. Rules have
no owner: a Node that is deleted and registered again must not set a sick GPU
free. Pure.
"""

import hashlib
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Literal, get_args

import msgspec

from exporter.model.device import Device
from exporter.model.resource_slices import SliceDevice
from kubeapi.types import ObjectMeta, kubernetes_case

DOMAIN = "draguard.dev"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "draguard"
INCIDENT = f"{DOMAIN}/incident"
UUID = f"{DOMAIN}/uuid"
GPU = f"{DOMAIN}/gpu"
CLUSTER = f"{DOMAIN}/cluster"
"""On incidents and Events, where the cluster has a name."""
NODE = f"{DOMAIN}/node"
CLASSES = f"{DOMAIN}/device-classes"
"""DeviceClasses through which the GPU was claimed when its incident was opened, in case the
incident must be filled again."""
MAINTENANCE = f"{DOMAIN}/maintenance"
"""Taint key of a user's taint (`draguard cordon`): never of a rule of ours."""

EVICT = f"{DOMAIN}/evict"
"""Annotation of a rule of ours with effect NoSchedule: its pods are evicted by the Eviction API."""

Effect = Literal["None", "NoSchedule", "Evict", "NoExecute"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
"""From the mildest to the strongest. `Evict` is stored as NoSchedule with a mark."""
TAINT_EFFECTS = ("None", "NoSchedule", "NoExecute")
"""Effect of a stored taint."""
EVICTING: frozenset[str] = frozenset({"Evict", "NoExecute"})
"""Effects under which pods are evicted."""

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LOST = "unknown"
"""Incident, or cause, of a rule that no longer names it; a decision names the right one."""


class IncompleteSelectorError(ValueError):
    """A rule without driver, pool or device was to be built. It would match other devices."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One DeviceTaintRule of ours, desired or existing."""

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
    classes: tuple[str, ...] | None = None
    """As `CLASSES`; None where the rule has none."""
    stored_as: str = ""
    """Name of the object, where it is not the name that we give; "" where it is."""
    stripped: bool = False
    """Our marks were removed from the stored object: they are to be written anew."""

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
            if not is_label_value(value):
                raise ValueError(f"{value!r} is not a label value, so a rule cannot carry it")

    @property
    def key(self) -> str:
        """The taint's key."""
        return f"{DOMAIN}/{self.fault}"

    @property
    def taint_effect(self) -> str:
        """Effect of the stored taint."""
        return "NoSchedule" if self.effect == "Evict" else self.effect

    @property
    def name(self) -> str:
        """Deterministic: the same device always gets the same rule, so a crash doubles nothing."""
        return self.stored_as or rule_name(self.device)


class ForeignRule(msgspec.Struct, frozen=True):
    """A DeviceTaintRule that is not ours: read, shown, taken into account, never changed."""

    name: str
    driver: str
    """"" where the rule has none, which means any; so with `pool` and `device`."""
    pool: str
    device: str
    key: str
    effect: str
    narrowed: bool = False
    """Whether a DeviceClass or CEL, which are not evaluated here, choose among what it selects."""

    def selects(self, device: Device) -> bool:
        return (
            self.driver in {"", device.driver}
            and self.pool in {"", device.pool}
            and self.device in {"", device.device}
        )


def is_label_value(text: str) -> bool:
    """Whether a label may carry a text; what a driver publishes as a UUID need not be one."""
    return _LABEL_VALUE.fullmatch(text) is not None


def rule_name(device: Device) -> str:
    digest = hashlib.sha256("\0".join(msgspec.structs.astuple(device)).encode()).hexdigest()
    return f"draguard-{digest[:20]}"


def labels_of_cluster(name: str) -> dict[str, str]:
    """Return what incidents and Events of a cluster of this name are labelled with."""
    return {CLUSTER: name} if name else {}


def manifest(rule: Rule, api_version: str) -> dict[str, object]:
    """Return the object to create; `api_version` is a served version of resource.k8s.io."""
    return {
        "apiVersion": f"resource.k8s.io/{api_version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": rule.name, **marks(rule)},
        "spec": {
            "deviceSelector": {
                "driver": rule.device.driver,
                "pool": rule.device.pool,
                "device": rule.device.device,
            },
            "taint": {
                "key": rule.key,
                "value": rule.cause,
                "effect": rule.taint_effect,
            },
        },
    }


def marks(rule: Rule) -> dict[str, dict[str, str]]:
    """Return the labels and annotations by which a rule is known as ours and for which hardware.

    Both have it, so that one may be removed.
    """
    labels = {INCIDENT: rule.incident, UUID: rule.uuid, GPU: rule.gpu}
    evicts = {EVICT: "true"} if rule.effect == "Evict" else {}
    classes = {} if rule.classes is None else {CLASSES: ",".join(rule.classes)}
    notes = {NODE: rule.node, **labels, **evicts, **classes}
    return {"labels": {MANAGED_BY: MANAGER, **labels}, "annotations": notes}


class Selector(msgspec.Struct, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    device_class_name: str = msgspec.field(default="", name="deviceClassName")
    """As `selectors`, only in v1alpha3."""
    selectors: tuple[object, ...] | None = None

    @property
    def narrowed(self) -> bool:
        return bool(self.device_class_name or self.selectors)


class RawTaint(msgspec.Struct, frozen=True, rename=kubernetes_case):
    key: str
    effect: str
    value: str = ""
    time_added: datetime | None = None


class RawRuleSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    taint: RawTaint
    device_selector: Selector | None = None


class RawRule(msgspec.Struct, frozen=True):
    """Any DeviceTaintRule as the API server stores it."""

    metadata: ObjectMeta
    spec: RawRuleSpec


def is_ours(raw: RawRule) -> bool:
    """Whether a rule is ours: our taint on one full selector, by our name or with our label."""
    selector = raw.spec.device_selector or Selector()
    device = Device(selector.driver, selector.pool, selector.device)
    key = raw.spec.taint.key
    # A user's cordon for maintenance is the user's to lift, whatever labels it gets.
    if key == MAINTENANCE or not key.startswith(f"{DOMAIN}/"):
        return False
    if not all(msgspec.structs.astuple(device)):
        return False
    labelled = raw.metadata.labels.get(MANAGED_BY) == MANAGER
    return labelled or raw.metadata.name == rule_name(device)


def parse(raw: RawRule, published: SliceDevice | None = None) -> Rule | None:
    """Return a rule of ours, or None when it is not, or no longer names its hardware.

    `published` is what stands under its device's name now. It counts for a rule only where labels
    and annotations are both missing: such a rule ends with the recovery of the GPU that is there.
    """
    if not is_ours(raw):
        return None
    selector = raw.spec.device_selector or Selector()
    device = Device(selector.driver, selector.pool, selector.device)
    gpu = _gpu_meant(raw) or _gpu_of(published)
    uuid = published.uuid if published and is_label_value(published.uuid or "") else ""
    node = raw.metadata.annotations.get(NODE) or (published.node if published else "")
    name, effect = raw.metadata.name, _effect(raw)
    classes = raw.metadata.annotations.get(CLASSES)
    try:
        rule = Rule(
            device=device,
            effect=effect,
            fault=raw.spec.taint.key.partition("/")[2],
            cause=raw.spec.taint.value or LOST,
            incident=next(iter(_label_values(raw, INCIDENT)), LOST),
            uuid=next(iter(_label_values(raw, UUID)), uuid or gpu),
            gpu=gpu,
            node=node or device.pool,
            classes=None if classes is None else tuple(part for part in classes.split(",") if part),
            uid=raw.metadata.uid,
            resource_version=raw.metadata.resource_version,
            time_added=raw.spec.taint.time_added,
            stored_as="" if name == rule_name(device) else name,
        )
    except ValueError:
        return None
    return msgspec.structs.replace(rule, stripped=_is_stripped(raw, rule))


def _effect(raw: RawRule) -> Effect:
    """Return the effect of a rule of ours; one that this version does not know has none."""
    evicts = raw.metadata.annotations.get(EVICT) == "true"
    match raw.spec.taint.effect:
        case "NoSchedule":
            return "Evict" if evicts else "NoSchedule"
        case "NoExecute":
            return "NoExecute"
        case _:
            return "None"


def foreign_rule(raw: RawRule) -> ForeignRule:
    """Return a rule of others as it is shown.

    The scheduler takes a rule without a selector for one on every device.
    """
    selector, taint = raw.spec.device_selector or Selector(), raw.spec.taint
    where = (selector.driver, selector.pool, selector.device)
    return ForeignRule(raw.metadata.name, *where, taint.key, taint.effect, selector.narrowed)


def settled(rules: Iterable[Rule]) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return one rule for each device, and the leftovers that double one of those.

    A rule by its proper name goes before a copy under another name.
    """
    ordered = sorted(rules, key=lambda rule: (rule.device, rule.stored_as))
    kept: dict[Device, Rule] = {}
    for rule in ordered:
        kept.setdefault(rule.device, rule)
    leftovers = tuple(rule for rule in ordered if kept[rule.device] is not rule)
    return tuple(kept.values()), leftovers


def _gpu_of(published: SliceDevice | None) -> str:
    if published is None or published.kind == "vfio":
        return ""
    return published.parent_uuid or published.uuid or ""


def _label_values(raw: RawRule, key: str) -> list[str]:
    """Return the label and then the annotation of a key, where it can be believed."""
    found = (raw.metadata.labels.get(key, ""), raw.metadata.annotations.get(key, ""))
    return [value for value in found if is_label_value(value)]


def _gpu_meant(raw: RawRule) -> str:
    """Return the GPU that a rule was made for, "" when nothing names it.

    Incidents are named after their GPUs, which decides where label and annotation differ. What
    stands under the device's name now does not: it may be another board, and a rule that followed
    it would taint that one.
    """
    incidents = _label_values(raw, INCIDENT)

    def borne_out(gpu: str) -> int:
        return sum(incident.rpartition("-")[0] == gpu.lower() for incident in incidents)

    return max(_label_values(raw, GPU), key=borne_out, default="")


def _is_stripped(raw: RawRule, rule: Rule) -> bool:
    """Whether a label is not as it was, or the cause is gone.

    Rules of earlier versions have less in their annotations.
    """
    return raw.spec.taint.value != rule.cause or any(
        raw.metadata.labels.get(key) != value for key, value in marks(rule)["labels"].items()
    )
