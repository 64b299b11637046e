"""The CRD's limits for an incident's status, and the functions that cut a status to them.

If one text is too long, the API server refuses the whole status. So a status is cut before it is
written: texts at their end, and lists too, because their most important entries come first.
`model.incident` has the limits that other modules use as well; a test compares all of them with
the CRD. A value that an enum of an older CRD lacks cannot be cut: when the API server refuses a
status for it, `controller.apply` writes the status without those fields (`without`).
"""

import re
from collections.abc import Mapping
from typing import TypeVar, cast

import msgspec

from exporter.model.node_health import MOST_SET_BACK
from remediator.model.incident_status import (
    FOREIGN_LIMIT,
    HARDWARE_LIMIT,
    INFORMED_LIMIT,
    PLACED_LIMIT,
    PODS_LIMIT,
    SEEN_LIMIT,
    SIBLINGS_LIMIT,
    TIMELINE_LIMIT,
    Group,
    IncidentStatus,
)

G = TypeVar("G", bound=Group)

_DEVICES = 256
_WORD, _NAME, _PATH, _SENTENCE = 63, 253, 384, 2048
"""Characters of a label value, an object's name, `driver/pool/device`, a text for users."""

ITEMS: Mapping[str, int] = {
    "fault.classes": 16,
    "fault.evidence": 128,
    "fault.sources": 16,
    "fault.awaitedEnds": 64,
    "scope.devices": _DEVICES,
    "conditions": 32,
    "timeline": TIMELINE_LIMIT,
    "eviction.byDevice": _DEVICES,
    "scope.rules": _DEVICES,
    "scope.hardware": HARDWARE_LIMIT,
    "scope.plannedTaints": _DEVICES,
    "scope.affectedPods": PODS_LIMIT,
    "eviction.evictedPods": PODS_LIMIT,
    "scope.neighbors": INFORMED_LIMIT,
    "scope.foreignTaints": FOREIGN_LIMIT,
    "policy.deviceClasses": 64,
    "stay.siblings": SIBLINGS_LIMIT,
    "fault.slices": PLACED_LIMIT,
    "policy.intents": 16,
    "fault.seenSignals": SEEN_LIMIT,
}
"""By path of a list: its maximum number of entries (`maxItems`)."""
KEYS: Mapping[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "scope.rules": ("name",),
    "scope.plannedTaints": ("device",),
    "eviction.byDevice": ("device",),
    "fault.classes": (),
    "fault.sources": (),
    "fault.awaitedEnds": (),
    "policy.deviceClasses": (),
    "stay.siblings": (),
    "policy.intents": ("kind",),
}
"""By path of a list without duplicates: the fields of an entry that must be unique, as in the CRD's
`x-kubernetes-list-map-keys`. (): the whole entry (`x-kubernetes-list-type: set`)."""
_DEVICE = {"driver": _WORD, "pool": _NAME, "device": _WORD, "uuid": _WORD}
_POD = {
    "namespace": _WORD,
    "pod": _NAME,
    "uid": _WORD,
    "claim": _NAME,
    "device": _PATH,
    "tolerates": 128,
}


def _of(path: str, lengths: Mapping[str, int]) -> dict[str, int]:
    return {f"{path}.{name}": length for name, length in lengths.items()}


LENGTHS: Mapping[str, int] = {
    "stay.node": _NAME,
    "fault.cause": _WORD,
    "fault.classes": 32,
    "fault.evidence": 512,
    "fault.sources": 32,
    "fault.awaitedEnds": 32,
    "scope.summary": 256,
    **_of("scope.devices", _DEVICE),
    "message": _SENTENCE,
    **_of("conditions", {"type": _WORD, "reason": _WORD, "message": _SENTENCE}),
    **_of("timeline", {"phase": _WORD, "text": _SENTENCE}),
    **_of("scope.rules", {"name": _NAME, "uid": _WORD, "device": _PATH}),
    **_of("scope.hardware", {"uuid": _WORD, "fault": _WORD, "cause": _WORD}),
    "scope.plannedTaints.device": _PATH,
    "eviction.byDevice.device": _PATH,
    **_of("scope.affectedPods", _POD),
    **_of("eviction.evictedPods", _POD),
    "scope.neighbors": _PATH,
    "scope.foreignTaints": 1024,
    "policy.deviceClasses": _NAME,
    **_of("repair.request", {"node": _NAME, "nodeUID": _WORD, "bootID": 128}),
    "stay.nodeUID": _WORD,
    "stay.bootID": 128,
    "stay.pciBusID": 64,
    "stay.siblings": 64,
    **_of("fault.slices", _DEVICE),
    "policy.intents.by": 512,
    "policy.intents.reason": 512,
    "policy.intents.seenFault": _WORD,
    "history.duplicateOf": _NAME,
}
"""By path of a text: its maximum number of characters (`maxLength`)."""
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
NUMBERS: Mapping[str, tuple[int, int]] = {
    "schemaVersion": (0, _INT32),
    # One more than the rounds that are evicted: beyond that nothing depends on the number.
    "eviction.byDevice.rounds": (1, 4),
    "observedGeneration": (0, _INT64),
    "conditions.observedGeneration": (0, _INT64),
    "scope.hardware.placement.start": (0, _INT32),
    "scope.hardware.placement.size": (1, _INT32),
    "scope.affectedPodsOmitted": (0, _INT64),
    "eviction.evictedPodsOmitted": (0, _INT64),
    "history.recurrence": (0, _INT32),
    "repair.answered": (0, _INT32),
    "stay.epoch": (0, _INT64),
    "stay.clockSetBackMilliseconds": (0, MOST_SET_BACK),
    "fault.seenSignals.code": (0, _INT32),
    "fault.seenSignals.gpuInstance": (-1, _INT32),
    "fault.seenSignals.computeInstance": (-1, _INT32),
    "fault.seenSignals.placementStart": (-1, _INT32),
    "fault.seenSignals.count": (0, _INT64),
    "recovery.epoch": (0, _INT64),
    "recovery.volatileErrors": (0, _INT64),
    "recovery.aggregateErrors": (0, _INT64),
}
"""By path of a number: its minimum and maximum."""


def cut_to_limits(status: IncidentStatus) -> IncidentStatus:
    """Return a status within the CRD's limits; the same object where nothing exceeds them."""
    return cast("IncidentStatus", _cut(status, ""))


_NAMED = re.compile(r"\bstatus\.(\w+(?:\.\w+)?)")
"""A field's path in the API server's message about an invalid status."""
_BULK = frozenset(
    {
        "message",
        "scope.affectedPods",
        "scope.plannedTaints",
        "scope.neighbors",
        "scope.foreignTaints",
        "eviction.evictedPods",
    }
)
"""Long fields that each decision computes anew."""


def without(status: IncidentStatus, refusal: str, *, bulk: bool = False) -> IncidentStatus:
    """Return a status without the fields that the API server's refusal names.

    With `bulk` the long fields are left out, too.
    """
    left_out = frozenset(_NAMED.findall(refusal)) | (_BULK if bulk else frozenset[str]())
    if left_out & {"scope", "scope.affectedPods", "eviction.evictedPods"}:
        # Without its list of pods, a later decision cannot know that all of them are gone.
        left_out |= {"eviction.emptySinceTime"}
    return _without(status, left_out, "")


def _without(group: G, left_out: frozenset[str], prefix: str) -> G:
    empty = type(group)()
    changed: dict[str, object] = {}
    for field, name in zip(group.__struct_fields__, group.__struct_encode_fields__, strict=True):
        value = getattr(group, field)
        if f"{prefix}{name}" in left_out:
            changed[field] = getattr(empty, field)
        elif isinstance(value, Group):
            changed[field] = _without(value, left_out, f"{prefix}{name}.")
    return msgspec.structs.replace(group, **changed)


def cut(text: str, length: int) -> str:
    """Return a text of at most `length` characters; one that was cut ends with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _cut(value: object, path: str) -> object:
    if isinstance(value, str):
        return cut(value, LENGTHS[path]) if path in LENGTHS else value
    if isinstance(value, int):
        least, most = NUMBERS.get(path, (value, value))
        return min(max(value, least), most)
    if isinstance(value, tuple):
        return _list(cast("tuple[object, ...]", value), path)
    if isinstance(value, msgspec.Struct):
        return _struct(value, path)
    return value


def _list(values: tuple[object, ...], path: str) -> tuple[object, ...]:
    found = tuple(_cut(item, path) for item in values)
    if path in KEYS:
        # The API server refuses a list with duplicates. The first of them is kept.
        names = KEYS[path]
        keyed = {tuple(getattr(item, name) for name in names) or item: item for item in found[::-1]}
        found = tuple(reversed(keyed.values()))
    most = ITEMS.get(path, len(found))
    if path == "timeline" and len(found) > most:
        # Users need to know how the incident began and what happened last.
        return (found[0], *found[1 - most :])
    return found[:most]


def _struct(value: msgspec.Struct, path: str) -> msgspec.Struct:
    changed: dict[str, object] = {}
    for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        old = getattr(value, field)
        new = _cut(old, f"{path}.{name}" if path else name)
        if new != old:
            changed[field] = new
    return msgspec.structs.replace(value, **changed) if changed else value
