"""Events of core/v1: what controllers, the scheduler and kubelets say of a pod or a claim. Pure."""

from datetime import datetime

import msgspec

from kubeapi.types import NamespacedMeta


class Regarding(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    name: str = ""
    uid: str = ""


class Event(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """Which of the times is set depends on who wrote it."""

    metadata: NamespacedMeta
    involved_object: Regarding = Regarding()
    type: str = ""
    reason: str = ""
    message: str = ""
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def last_seen(self) -> datetime | None:
        """As far as is known."""
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp
