"""The CRD's limits for an incident's status, and the functions that cut a status to them.

If one text is too long, the API server refuses the whole status. So a status is cut before it is
written: texts at their end, and lists too, because their most important entries come first.
`model.incident` has the limits that other modules use as well; a test compares all of them with
the CRD. A value that an enum of an older CRD lacks cannot be cut: when the API server refuses a
status for it, `controller.apply` writes the status without those fields (`without`).
"""

import re
from collections.abc import Mapping
from typing import cast

import msgspec

from exporter.model.node_health import MOST_SET_BACK
from remediator.model.incident import (
    FOREIGN_LIMIT,
    HARDWARE_LIMIT,
    INFORMED_LIMIT,
    PLACED_LIMIT,
    PODS_LIMIT,
    SEEN_LIMIT,
    SIBLINGS_LIMIT,
    TIMELINE_LIMIT,
    IncidentStatus,
)

_DEVICES = 256
_WORD, _NAME, _PATH, _SENTENCE = 63, 253, 384, 2048
"""Characters of a label value, an object's name, `driver/pool/device`, a text for users."""

ITEMS: Mapping[str, int] = {
    "evidence": 128,
    "sources": 16,
    "scope.devices": _DEVICES,
    "conditions": 32,
    "timeline": TIMELINE_LIMIT,
    "deviceRounds": _DEVICES,
    "rules": _DEVICES,
    "hardware": HARDWARE_LIMIT,
    "plannedTaints": _DEVICES,
    "affectedPods": PODS_LIMIT,
    "evictedPods": PODS_LIMIT,
    "neighbors": INFORMED_LIMIT,
    "foreignTaints": FOREIGN_LIMIT,
    "deviceClasses": 64,
    "siblings": SIBLINGS_LIMIT,
    "placed": PLACED_LIMIT,
    "intents": 16,
    "seenSignals": SEEN_LIMIT,
}
"""By path of a list: its maximum number of entries (`maxItems`)."""
KEYS: Mapping[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "rules": ("name",),
    "plannedTaints": ("device",),
    "deviceRounds": ("device",),
    "sources": (),
    "deviceClasses": (),
    "siblings": (),
    "intents": ("kind",),
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
    "node": _NAME,
    "cause": _WORD,
    "evidence": 512,
    "sources": 32,
    "scope.summary": 256,
    **_of("scope.devices", _DEVICE),
    "message": _SENTENCE,
    **_of("conditions", {"type": _WORD, "reason": _WORD, "message": _SENTENCE}),
    **_of("timeline", {"phase": _WORD, "text": _SENTENCE}),
    **_of("rules", {"name": _NAME, "uid": _WORD, "device": _PATH}),
    **_of("hardware", {"uuid": _WORD, "fault": _WORD, "cause": _WORD}),
    "plannedTaints.device": _PATH,
    "deviceRounds.device": _PATH,
    **_of("affectedPods", _POD),
    **_of("evictedPods", _POD),
    "neighbors": _PATH,
    "foreignTaints": 1024,
    "deviceClasses": _NAME,
    **_of("repairRequest", {"node": _NAME, "nodeUID": _WORD, "bootID": 128}),
    "openedNodeUID": _WORD,
    "openedBootID": 128,
    "pciBusID": 64,
    "siblings": 64,
    **_of("placed", _DEVICE),
    "intents.by": 512,
    "intents.reason": 512,
    "intents.seenFault": _WORD,
    "duplicateOf": _NAME,
}
"""By path of a text: its maximum number of characters (`maxLength`)."""
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
NUMBERS: Mapping[str, tuple[int, int]] = {
    "schemaVersion": (0, _INT32),
    # One more than the rounds that are evicted: beyond that nothing depends on the number.
    "deviceRounds.rounds": (1, 4),
    "observedGeneration": (0, _INT64),
    "conditions.observedGeneration": (0, _INT64),
    "hardware.placement.start": (0, _INT32),
    "hardware.placement.size": (1, _INT32),
    "affectedPodsOmitted": (0, _INT64),
    "evictedPodsOmitted": (0, _INT64),
    "recurrence": (0, _INT32),
    "openedEpoch": (0, _INT64),
    "clockSetBackMilliseconds": (0, MOST_SET_BACK),
    "seenSignals.code": (0, _INT32),
    "seenSignals.gpuInstance": (-1, _INT32),
    "seenSignals.computeInstance": (-1, _INT32),
    "seenSignals.placementStart": (-1, _INT32),
    "seenSignals.count": (0, _INT64),
    "soakEpoch": (0, _INT64),
    "soakVolatileErrors": (0, _INT64),
    "soakAggregateErrors": (0, _INT64),
}
"""By path of a number: its minimum and maximum."""


def cut_to_limits(status: IncidentStatus) -> IncidentStatus:
    """Return a status within the CRD's limits; the same object where nothing exceeds them."""
    return cast("IncidentStatus", _cut(status, ""))


_NAMED = re.compile(r"\bstatus\.(\w+)")
"""A field's path in the API server's message about an invalid status."""
_BULK = frozenset(
    {"message", "affectedPods", "evictedPods", "plannedTaints", "neighbors", "foreignTaints"}
)
"""Long fields that each decision computes anew."""


def without(status: IncidentStatus, refusal: str, *, bulk: bool = False) -> IncidentStatus:
    """Return a status without the fields that the API server's refusal names.

    With `bulk` the long fields are left out, too.
    """
    left_out = frozenset(_NAMED.findall(refusal)) | (_BULK if bulk else frozenset[str]())
    if left_out & {"affectedPods", "evictedPods"}:
        # Without its list of pods, a later decision cannot know that all of them are gone.
        left_out |= {"emptySinceTime"}
    names = zip(status.__struct_fields__, status.__struct_encode_fields__, strict=True)
    empty = IncidentStatus()
    absent = {field: getattr(empty, field) for field, name in names if name in left_out}
    return msgspec.structs.replace(status, **absent)


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
