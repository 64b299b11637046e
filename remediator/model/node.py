"""The metadata of a Node, and the Node conditions that Draguard may set.

The remediator watches Nodes as PartialObjectMetadata. Each kubelet updates the status of its Node
every few minutes, so a watch of 10,000 full Nodes would cost more than all other watches together.
The price: `kubectl cordon` alone cannot be seen, because it changes only `spec`. Other health tools
are recognized by their labels and annotations. Anyone who may label a Node can write those, so they
are displayed and change no decision.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from kubeapi.types import ObjectMeta

REPAIR_NEEDED = "DraguardDeviceRepairNeeded"
"""Type of our own condition. True means a problem, as for node-problem-detector's conditions."""
HARDWARE_READY = "AcceleratedHardwareReady"
"""Optional: the condition type that node repair of EKS and Karpenter reads. True means healthy."""
CONDITION_TYPES = (REPAIR_NEEDED, HARDWARE_READY)
"""All condition types that Draguard writes."""
PROBLEM: Mapping[str, Literal["True", "False"]] = {REPAIR_NEEDED: "True", HARDWARE_READY: "False"}
"""By condition type: the status that means a problem."""
MARK = "draguard.dev/node-conditions"
"""Annotation: the condition types that we have set on this Node, separated by commas. One patch
writes it with the condition, so that the condition is found even if its incident is lost."""
SIGNATURE = "Draguard: "
"""Start of the message of our `HARDWARE_READY` conditions. Other agents write this type as well,
even after us, and the annotation `MARK` does not show who wrote it last."""
VALUE_LIMIT = 64
"""Maximum length of a value of another tool in our texts."""


class NodeCondition(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    """A CamelCase word for programs."""
    message: str
    last_transition_time: datetime | None = None


_BOOT = re.compile(r"^[^;]*; in boot (\S+);")
"""In the message of a call, after the GPUs that it names."""


def is_call(condition: NodeCondition, boot_id: str | None) -> bool:
    """Whether a condition calls for a repair in a boot, as far as both are known.

    One of another boot was answered by that boot.
    """
    if (condition.type, condition.status) != (REPAIR_NEEDED, PROBLEM[REPAIR_NEEDED]):
        return False
    boot = _BOOT.match(condition.message)
    return boot is None or not boot_id or boot[1] == short_boot(boot_id)


def short_boot(boot_id: str) -> str:
    """Return how a message names a boot."""
    return boot_id[:8]


MIG_CONFIG = "nvidia.com/mig.config"
"""Label: the requested MIG layout, by its name in the configuration of NVIDIA's MIG manager."""
MIG_STATE = "nvidia.com/mig.config.state"
"""Label: the state that the MIG manager reports: pending, rebooting, success, failed."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One existing Node, as far as the remediator reads it."""

    name: str
    uid: str = ""
    cordons: tuple[str, ...] = ()
    """Cordons and quarantines by other tools, as text."""
    marked: frozenset[str] = frozenset()
    """Condition types that we have set on it at any time."""
    conditions: tuple[NodeCondition, ...] | None = None
    """Our conditions, as stored. None: they were not read, and nothing is decided about them."""
    others: tuple[NodeCondition, ...] = ()
    """Conditions of types that we may write, but that another agent wrote last."""
    mig_config: str = ""
    """Requested MIG layout (`MIG_CONFIG`); "": none."""
    mig_state: str = ""
    """State that the MIG manager reports (`MIG_STATE`); "": none."""
    plugin_resources: tuple[str, ...] = ()
    """Extended resources in the Node's status that a device plugin offers and that may be GPUs.
    (): none, or the Node's status was not read."""


def is_ours(condition: NodeCondition, types: frozenset[str]) -> bool:
    """Return whether we wrote a condition last. `types` are those in the annotation `MARK`."""
    if condition.type == HARDWARE_READY:
        return condition.type in types and condition.message.startswith(SIGNATURE)
    return condition.type in CONDITION_TYPES


class RawNode(msgspec.Struct, frozen=True):
    """A Node as PartialObjectMetadata."""

    metadata: ObjectMeta


def facts(raw: RawNode) -> NodeFacts:
    """Return the facts in a Node's metadata. Its conditions and resources are read elsewhere."""
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
    """Return the condition types in the annotation `MARK`. Unknown words are ignored."""
    named = {mark.strip() for mark in annotations.get(MARK, "").split(",")}
    return frozenset(named.intersection(CONDITION_TYPES))


def _is_set(value: str) -> bool:
    return bool(value)


def _is_filled(value: str) -> bool:
    """Whether a value says anything: NVSentinel leaves `{}` or `[]` at the end (NVSentinel#753)."""
    return value.strip() not in ("", "[]", "{}")


def _is_true(value: str) -> bool:
    return value.lower() == "true"


_SIGNS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "k8saas.nvidia.com/cordon-by": (_is_set, "NVSentinel: cordoned by {value}"),
    "k8saas.nvidia.com/cordon-reason": (_is_set, "NVSentinel: cordoned because of {value}"),
    "dgxc.nvidia.com/nvsentinel-state": (_is_set, "NVSentinel: state {value}"),
    "quarantineHealthEvent": (_is_filled, "NVSentinel: a quarantine is recorded"),
    "quarantineHealthEventIsCordoned": (_is_true, "NVSentinel: its quarantine cordoned the node"),
    "remediation.medik8s.io/exclude-from-remediation": (
        _is_set,
        "medik8s: excluded from remediation ({value})",
    ),
    "remediation.medik8s.io/nhc-timed-out": (_is_set, "medik8s: remediation timed out at {value}"),
    "remediation.medik8s.io/manually-confirmed-healthy": (
        _is_set,
        "medik8s: a user confirmed it healthy ({value})",
    ),
}
"""By label or annotation: which values count, and our text. As of NVSentinel v1.14, and medik8s'
NodeHealthCheck of July 2026."""
_OTHER_MEDIK8S = "remediation.medik8s.io/"


def _sign(key: str, value: str) -> str:
    shown = _printable(value)
    if key in _SIGNS:
        means, text = _SIGNS[key]
        return text.format(value=shown) if means(value) else ""
    if key.startswith(_OTHER_MEDIK8S):
        return f"medik8s: {_printable(key.removeprefix(_OTHER_MEDIK8S))}={shown}"
    return ""


def _printable(value: str) -> str:
    # Anyone who may label Nodes writes these, and terminals show them.
    plain = "".join(char if char.isprintable() else "?" for char in value[:VALUE_LIMIT])
    return plain + ("..." if len(value) > VALUE_LIMIT else "")
