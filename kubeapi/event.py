"""An Event of events.k8s.io/v1 as an object. Pure.

The same Event has the same name, so that it is posted once, also by another replica.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

NOTE_LIMIT = 1024
"""Bytes of an Event's message."""


class Regarding(msgspec.Struct, frozen=True, kw_only=True):
    """What an Event is about: an ObjectReference."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""


class Source(msgspec.Struct, frozen=True):
    """Which controller reports an Event, and what it does."""

    controller: str
    instance: str
    action: str


def event_object(
    regarding: Regarding,
    source: Source,
    *,
    reason: str,
    note: str,
    kind: Literal["Normal", "Warning"],
    at: datetime,
    namespace: str,
    labels: Mapping[str, str] = {},
    key: str | None = None,
) -> dict[str, object]:
    """Return the object to create in a namespace.

    `key` is what else makes it the same Event, beside object and reason; None: the note.
    """
    about, same = regarding, note if key is None else key
    words = "\0".join((about.kind, about.name, about.uid, reason, same))
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    reference = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "name": about.name,
        "uid": about.uid,
    }
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"draguard.{digest}",
            "namespace": namespace,
            "labels": dict(labels),
        },
        "regarding": reference | ({"namespace": about.namespace} if about.namespace else {}),
        "reason": reason,
        "note": note.encode()[:NOTE_LIMIT].decode(errors="ignore"),
        "type": kind,
        "action": source.action,
        "reportingController": source.controller,
        "reportingInstance": source.instance,
        "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
