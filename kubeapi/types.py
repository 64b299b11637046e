"""What objects of Kubernetes have in common: how fields are spelled, dates, metadata."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""One without a time zone is refused when it is read: it could not be compared with others."""
EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""Outside of these a report is refused when it is read: nothing could be added to such a date, or
taken from it. A clock that is only wrong, such as one of 1970, is well within."""

_ACRONYMS = {"id": "ID", "uid": "UID", "uuid": "UUID"}


def kubernetes_case(name: str) -> str:
    """Spell a field as Kubernetes objects do: `boot_id` is `bootID`, `last_seen` is `lastSeen`."""
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


class Entry(msgspec.Struct, frozen=True, rename=kubernetes_case, omit_defaults=True, gc=False):
    """Part of a Kubernetes object that is written whole, so that defaults are left out.

    The garbage collector leaves it alone: what was decoded has no cycles, and there is much of it.
    """


class ObjectMeta(Entry, frozen=True):
    """The parts of Kubernetes metadata that Draguard reads."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Moment | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class NamespacedMeta(ObjectMeta, frozen=True):
    namespace: str = ""
    deletion_timestamp: Moment | None = None
    """Since when it is being deleted."""
