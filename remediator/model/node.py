"""What is read of a Node, and the conditions that we may set on it.

Nodes are watched by their metadata alone (PartialObjectMetadata): ten thousand full Nodes, each
rewritten by its kubelet, would cost more than everything else that is watched. Fields in `spec`
cannot be seen that way: neither `spec.unschedulable` nor the taints that follow from it. A cordon
made by `kubectl cordon` alone is therefore invisible here; others' tools are seen by the labels and
annotations that they leave. Any user who may label a Node may write those, so they are shown and
never decide anything. Pure.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from kubeapi.types import ObjectMeta

REPAIR_NEEDED = "DraguardDeviceRepairNeeded"
"""Type of our condition; True is a problem, as node-problem-detector has it."""
HARDWARE_READY = "AcceleratedHardwareReady"
"""By option, what EKS' and Karpenter's node repair read; True is good."""
CONDITION_TYPES = (REPAIR_NEEDED, HARDWARE_READY)
"""All that Draguard ever writes."""
PROBLEM: Mapping[str, Literal["True", "False"]] = {REPAIR_NEEDED: "True", HARDWARE_READY: "False"}
"""Which status of a type means trouble."""
MARK = "draguard.dev/node-conditions"
"""Annotation: which condition types we have set on this Node, joined by commas. Written with the
condition in one patch, so that what was set is found again whatever became of its incident."""
SIGNATURE = "Draguard: "
"""How the message of each `HARDWARE_READY` of ours begins: other agents write that type as well,
also after we have set it, and the mark does not show which of them wrote last."""
VALUE_LIMIT = 64
"""Characters shown of a value that others wrote."""


class NodeCondition(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    """A CamelCase word that a machine may read."""
    message: str
    last_transition_time: datetime | None = None


MIG_CONFIG = "nvidia.com/mig.config"
"""Label: the MIG geometry that the node is to have, a name in the configuration of NVIDIA's MIG
manager."""
MIG_STATE = "nvidia.com/mig.config.state"
"""Label: the state that the MIG manager reports: pending, rebooting, success, failed."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One Node as its metadata shows it; a Node that is gone has none."""

    name: str
    uid: str = ""
    cordons: tuple[str, ...] = ()
    """Others' cordons and quarantines, in words."""
    marked: frozenset[str] = frozenset()
    """Types of conditions that we have set on it, whenever that was."""
    conditions: tuple[NodeCondition, ...] | None = None
    """Ours, as stored. None: not read, and then nothing is decided about them."""
    others: tuple[NodeCondition, ...] = ()
    """Of the types that we may write, those that another agent wrote last."""
    mig_config: str = ""
    """The MIG geometry that a label requests; "": none is requested."""
    mig_state: str = ""
    """The state that the MIG manager reports; "": nothing."""
    plugin_resources: tuple[str, ...] = ()
    """Extended resources of the Node that may be GPUs: a device plugin hands them out. () as well
    while the Node was not read."""


def is_ours(condition: NodeCondition, types: frozenset[str]) -> bool:
    """Return whether we wrote a condition last; `types` are those that the mark names."""
    if condition.type == HARDWARE_READY:
        return condition.type in types and condition.message.startswith(SIGNATURE)
    return condition.type in CONDITION_TYPES


class RawNode(msgspec.Struct, frozen=True):
    """A Node as PartialObjectMetadata, cut to what is read."""

    metadata: ObjectMeta


def facts(raw: RawNode) -> NodeFacts:
    """Return what a Node's metadata shows."""
    meta = raw.metadata
    signs = {**meta.annotations, **meta.labels}
    return NodeFacts(
        name=meta.name,
        uid=meta.uid,
        cordons=tuple(sorted(text for key, value in signs.items() if (text := _sign(key, value)))),
        marked=marked_types(meta.annotations),
        mig_config=meta.labels.get(MIG_CONFIG, ""),
        mig_state=meta.labels.get(MIG_STATE, ""),
    )


def marked_types(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the types of conditions that our mark names; words of others are left out."""
    named = {mark.strip() for mark in annotations.get(MARK, "").split(",")}
    return frozenset(named.intersection(CONDITION_TYPES))


def _any(value: str) -> bool:
    return bool(value)


def _filled(value: str) -> bool:
    """NVSentinel leaves an empty map or list behind when a quarantine ends (NVSentinel#753)."""
    return value.strip() not in ("", "[]", "{}")


def _true(value: str) -> bool:
    return value.lower() == "true"


_SIGNS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "k8saas.nvidia.com/cordon-by": (_any, "NVSentinel: cordoned by {value}"),
    "k8saas.nvidia.com/cordon-reason": (_any, "NVSentinel: cordoned because of {value}"),
    "dgxc.nvidia.com/nvsentinel-state": (_any, "NVSentinel: state {value}"),
    "quarantineHealthEvent": (_filled, "NVSentinel: a quarantine is recorded"),
    "quarantineHealthEventIsCordoned": (_true, "NVSentinel: its quarantine cordoned the node"),
    "remediation.medik8s.io/exclude-from-remediation": (
        _any,
        "medik8s: excluded from remediation ({value})",
    ),
    "remediation.medik8s.io/nhc-timed-out": (_any, "medik8s: remediation timed out at {value}"),
    "remediation.medik8s.io/manually-confirmed-healthy": (
        _any,
        "medik8s: a user confirmed it healthy ({value})",
    ),
}
"""Label or annotation: when it means something, and what. NVSentinel v1.14, NHC of July 2026."""
_OTHER_MEDIK8S = "remediation.medik8s.io/"


def _sign(key: str, value: str) -> str:
    shown = _shown(value)
    if key in _SIGNS:
        means, text = _SIGNS[key]
        return text.format(value=shown) if means(value) else ""
    if key.startswith(_OTHER_MEDIK8S):
        return f"medik8s: {_shown(key.removeprefix(_OTHER_MEDIK8S))}={shown}"
    return ""


def _shown(value: str) -> str:
    plain = "".join(char if char.isprintable() else "?" for char in value[:VALUE_LIMIT])
    return plain + ("..." if len(value) > VALUE_LIMIT else "")
