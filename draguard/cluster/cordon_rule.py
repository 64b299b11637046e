"""A user's cordon into its DeviceTaintRule, and back. Pure.

Its key and name differ from those of the remediator's rules, and it has no `managed-by` label. So
the remediator shows it, never changes it, and does not remove it when it untaints a GPU.
"""

import hashlib
import re
from datetime import datetime

import msgspec

from exporter.model.device import Device
from remediator.model.incident_status import Target
from remediator.model.taint_rule import (
    DOMAIN,
    GPU,
    MAINTENANCE,
    UUID,
    Effect,
    RawRule,
    is_label_value,
)

KEY = MAINTENANCE
CORDONED_BY = f"{DOMAIN}/cordoned-by"
"""The user's name: in full as an annotation, in the characters of a label as a label."""
REASON = f"{DOMAIN}/reason"
SINCE = f"{DOMAIN}/since"
_NOBODY = "unnamed"
_LABEL_LIMIT = 63


class Cordon(msgspec.Struct, frozen=True, kw_only=True):
    """A cordon for maintenance, desired or stored."""

    target: Target
    gpu: str
    """UUID of the physical GPU."""
    effect: Effect
    by: str
    reason: str

    @property
    def name(self) -> str:
        """Return the same name for the same device, so that one device has one such cordon."""
        return cordon_name(self.target.name)


def cordon_name(device: Device) -> str:
    words = "\0".join(msgspec.structs.astuple(device))
    return f"draguard-maintenance-{hashlib.sha256(words.encode()).hexdigest()[:20]}"


def is_maintenance(raw: RawRule) -> bool:
    """Whether a stored rule is a cordon of this kind: by its label, or by name if that was lost."""
    if raw.spec.taint.key != KEY:
        return False
    device = device_of(raw)
    named = device is not None and raw.metadata.name == cordon_name(device)
    return named or CORDONED_BY in raw.metadata.labels


def device_of(raw: RawRule) -> Device | None:
    """Return the device of a stored cordon; None where it does not name one fully."""
    selector = raw.spec.device_selector
    if selector is None or not all((selector.driver, selector.pool, selector.device)):
        return None
    return Device(selector.driver, selector.pool, selector.device)


def manifest(cordon: Cordon, api_version: str, now: datetime) -> dict[str, object]:
    """Return the object to create. It always names driver, pool and device."""
    device = cordon.target.name
    if not all(part.strip() for part in msgspec.structs.astuple(device)):
        raise ValueError(f"{device!r} lacks a part: such a rule would match other devices too")
    marks = {UUID: cordon.target.uuid, GPU: cordon.gpu}
    labels = {key: value for key, value in marks.items() if is_label_value(value)}
    labels |= {CORDONED_BY: label_value(cordon.by)}
    return {
        "apiVersion": f"resource.k8s.io/{api_version}",
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": cordon.name,
            "labels": labels,
            "annotations": {
                CORDONED_BY: cordon.by,
                REASON: cordon.reason,
                SINCE: f"{now:%Y-%m-%dT%H:%M:%SZ}",
            },
        },
        "spec": {
            "deviceSelector": msgspec.to_builtins(device),
            "taint": {"key": KEY, "value": label_value(cordon.by), "effect": cordon.effect},
        },
    }


def label_value(who: str) -> str:
    """Return a name in the characters and the length that a label or a taint value allows."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", who)[:_LABEL_LIMIT].strip("-._")
    return plain or _NOBODY
