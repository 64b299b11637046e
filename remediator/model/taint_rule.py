"""The DeviceTaintRules of incidents: one builder and one parser.

A rule always names driver, pool and device, and cannot be built without them: an empty selector
matches every device of the cluster. It has no owner reference, since Kubernetes' garbage collector
would delete it with its owner: a Node that is deleted and registered again must not untaint a sick
GPU.
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
"""Label of incidents and Events, where a name of the cluster is configured."""
NODE = f"{DOMAIN}/node"
CLASSES = f"{DOMAIN}/device-classes"
"""DeviceClasses of the GPU's claims when its incident was opened. They restore an incident that has
lost its status."""
MAINTENANCE = f"{DOMAIN}/maintenance"
"""Key of the taint that `draguard cordon` sets for a user. A rule with it is never ours."""

EVICT = f"{DOMAIN}/evict"
"""Annotation of our NoSchedule rules: `true` where the Eviction API is to evict the pods."""

Effect = Literal["None", "NoSchedule", "Evict", "NoExecute"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
"""From the mildest to the strongest. Kubernetes has no effect `Evict`: it is stored as NoSchedule
with the annotation `EVICT`."""
TAINT_EFFECTS = ("None", "NoSchedule", "NoExecute")
"""Effects of a device taint in Kubernetes. `None` neither keeps pods away nor evicts them."""
EVICTING: frozenset[str] = frozenset({"Evict", "NoExecute"})
"""Effects under which pods are evicted."""

RESTRICTION: Effect = "NoSchedule"
"""The mildest effect that keeps new work away, and the most that a rule may record because of what
was stored once."""

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LOST = "unknown"
"""Incident or cause of a rule that has lost its own. The next decision writes the right one."""


class IncompleteSelectorError(ValueError):
    """A rule lacks its driver, pool or device, so it would match other devices as well."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A DeviceTaintRule of Draguard, desired or stored."""

    device: Device
    effect: Effect
    fault: str
    """Fault class. The taint's key is `draguard.dev/<class>`."""
    cause: str
    """The taint's value."""
    incident: str
    uuid: str
    """UUID of the hardware behind the device name: a GPU or a MIG slice."""
    gpu: str
    """UUID of the physical GPU."""
    node: str
    uid: str = ""
    resource_version: str = ""
    time_added: datetime | None = None
    classes: tuple[str, ...] | None = None
    """Value of the annotation `CLASSES`; None: not set."""
    stored_as: str = ""
    """Name of the stored object, if it is not the one that we give a rule (`rule_name`)."""
    stripped: bool = False
    """Whether labels of ours or the taint's value were changed in the stored object. The next
    decision restores them."""

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
        """Effect of the taint in the stored object."""
        return "NoSchedule" if self.effect == "Evict" else self.effect

    @property
    def name(self) -> str:
        """Name of the object. A device always has the same one, so a crash makes no second rule."""
        return self.stored_as or rule_name(self.device)


class EditedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of ours whose selector or key was changed: its taint is one that we never meant.

    It has the name of its own device, which has no taint of ours until the name is free.
    """

    name: str
    uid: str
    resource_version: str
    node: str
    """Node of the device that it was made for."""
    gpu: str
    """UUID of its GPU; "": nothing names it any more."""


class ForeignRule(msgspec.Struct, frozen=True):
    """A DeviceTaintRule that is not ours. It is displayed and taken into account, never changed."""

    name: str
    driver: str
    """"": any driver. `pool` and `device` likewise."""
    pool: str
    device: str
    key: str
    effect: str
    narrowed: bool = False
    """Whether it also selects by DeviceClass or CEL, which v1alpha3 had until Kubernetes 1.34.
    Draguard does not evaluate these, so the rule may match fewer devices."""

    def selects(self, device: Device) -> bool:
        return (
            self.driver in {"", device.driver}
            and self.pool in {"", device.pool}
            and self.device in {"", device.device}
        )


def is_label_value(text: str) -> bool:
    """Whether a text is a valid label value. A UUID that a DRA driver publishes may not be one."""
    return _LABEL_VALUE.fullmatch(text) is not None


OUR_NAME = re.compile(r"draguard-[0-9a-f]{20}")
"""Names that we give rules, one for each device."""


def rule_name(device: Device) -> str:
    # A NUL is in no name, so no two devices are joined to the same text.
    digest = hashlib.sha256("\0".join(msgspec.structs.astuple(device)).encode()).hexdigest()
    return f"draguard-{digest[:20]}"


def labels_of_cluster(name: str) -> dict[str, str]:
    """Return the labels of incidents and Events for the cluster's name, which may be empty."""
    return {CLUSTER: name} if name else {}


def manifest(rule: Rule, api_version: str) -> dict[str, object]:
    """Return the object to create. `api_version` is a served version of resource.k8s.io."""
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
    """Return the labels and annotations that mark a rule as ours and name its hardware.

    The annotations repeat the labels: a rule is still recognized after a user has removed either.
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
    """Only v1alpha3 had this and `selectors`, until Kubernetes 1.34."""
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
    """A DeviceTaintRule, ours or not, as the API server stores it."""

    metadata: ObjectMeta
    spec: RawRuleSpec


def is_ours(raw: RawRule) -> bool:
    """Whether a rule is ours: our taint key, a full selector, and our name or our label."""
    selector = raw.spec.device_selector or Selector()
    device = Device(selector.driver, selector.pool, selector.device)
    key = raw.spec.taint.key
    # `draguard cordon` is a user's decision: only a user may end it, whatever labels it has.
    if key == MAINTENANCE or not key.startswith(f"{DOMAIN}/"):
        return False
    if not all(msgspec.structs.astuple(device)):
        return False
    # Either of them: a user may have taken off the label, and a copy has another name.
    labelled = raw.metadata.labels.get(MANAGED_BY) == MANAGER
    return labelled or raw.metadata.name == rule_name(device)


def parse_edited(raw: RawRule) -> EditedRule | None:
    """Return a rule of ours whose selector or key was changed, also to none of ours; else None.

    It must have a name of our form, and a label or an annotation of ours.
    """
    meta, key = raw.metadata, raw.spec.taint.key
    selector = raw.spec.device_selector or Selector()
    device = Device(selector.driver, selector.pool, selector.device)
    marked = meta.labels.get(MANAGED_BY) == MANAGER or bool(_label_values(raw, INCIDENT))
    node = meta.annotations.get(NODE) or selector.pool
    changed = meta.name != rule_name(device) or not key.startswith(f"{DOMAIN}/")
    ours = OUR_NAME.fullmatch(meta.name) and marked and key != MAINTENANCE
    if not (ours and changed and node):
        return None
    return EditedRule(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        node=node,
        gpu=_gpu_meant(raw),
    )


def parse(raw: RawRule, published: SliceDevice | None = None) -> Rule | None:
    """Return a rule of ours; None if it is not, was edited, or nothing names its hardware.

    `published` is the device that has the rule's device name now. It supplies only what neither a
    label nor an annotation says: such a rule ends when the GPU with that name now recovers.
    """
    if not is_ours(raw) or parse_edited(raw):
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
            # NVIDIA's driver names a pool after its node.
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
    """Return the effect of a rule of ours. Kubernetes treats an unknown effect as None."""
    evicts = raw.metadata.annotations.get(EVICT) == "true"
    match raw.spec.taint.effect:
        case "NoSchedule":
            return "Evict" if evicts else "NoSchedule"
        case "NoExecute":
            return "NoExecute"
        case _:
            return "None"


def foreign_rule(raw: RawRule) -> ForeignRule:
    """Return a rule that is not ours.

    A rule without a selector counts for every device: the API says it matches none, but the
    scheduler applies it to all of them.
    """
    selector, taint = raw.spec.device_selector or Selector(), raw.spec.taint
    where = (selector.driver, selector.pool, selector.device)
    return ForeignRule(raw.metadata.name, *where, taint.key, taint.effect, selector.narrowed)


def split_duplicates(rules: Iterable[Rule]) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return one rule for each device; and the leftovers, its duplicates.

    The rule with the name that we give it is kept, not a copy under another name.
    """
    # A rule with our own name has an empty `stored_as`, which sorts first.
    ordered = sorted(rules, key=lambda rule: (rule.device, rule.stored_as))
    kept: dict[Device, Rule] = {}
    for rule in ordered:
        kept.setdefault(rule.device, rule)
    leftovers = tuple(rule for rule in ordered if kept.get(rule.device) is not rule)
    return tuple(kept.values()), leftovers


def _gpu_of(published: SliceDevice | None) -> str:
    # The UUID of a VFIO device is that of its PCI address.
    if published is None or published.kind == "vfio":
        return ""
    return published.parent_uuid or published.uuid or ""


def _label_values(raw: RawRule, key: str) -> list[str]:
    """Return the label and then the annotation of a key, without empty or invalid values."""
    found = (raw.metadata.labels.get(key, ""), raw.metadata.annotations.get(key, ""))
    return [value for value in found if is_label_value(value)]


def _gpu_meant(raw: RawRule) -> str:
    """Return the UUID of the GPU that a rule was made for, "" when nothing names it.

    If label and annotation differ, the one that matches the incident's name is right: an incident
    is named after its GPU. The device that has the rule's device name now proves nothing: it may be
    another board, which the rule must not taint.
    """
    incidents = _label_values(raw, INCIDENT)

    def borne_out(gpu: str) -> int:
        return sum(incident.rpartition("-")[0] == gpu.lower() for incident in incidents)

    return max(_label_values(raw, GPU), key=borne_out, default="")


def _is_stripped(raw: RawRule, rule: Rule) -> bool:
    """Whether a label or the taint's value is missing or was changed.

    Annotations do not count: rules of earlier versions have fewer of them.
    """
    return raw.spec.taint.value != rule.cause or any(
        raw.metadata.labels.get(key) != value for key, value in marks(rule)["labels"].items()
    )


def restricts(effect: str) -> bool:
    """Whether an effect keeps new work away."""
    return effect in EFFECTS[EFFECTS.index(RESTRICTION) :]


def milder(effect: Effect, other: Effect) -> Effect:
    return EFFECTS[min(EFFECTS.index(effect), EFFECTS.index(other))]


def stronger(effect: Effect, other: Effect) -> Effect:
    return EFFECTS[max(EFFECTS.index(effect), EFFECTS.index(other))]
