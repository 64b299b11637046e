"""Pods as they are read for the doctor: what their containers and their conditions say. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from draguard.doctor.start_failures import Started
from draguard.redaction import redacted
from kubeapi.types import kubernetes_case

OUT_OF_MEMORY = "OOMKilled"
EXEC_FORMAT = "exec format error"
"""Of Linux: what an image of another architecture ends with, whatever the runtime."""
BACK_OFF = "CrashLoopBackOff"
JUST_CREATED = timedelta(minutes=10)
"""Time for a pod to be scheduled and its images to be pulled: a driver's is large."""
FAILED, PENDING = "Failed", "Pending"
_RECENT = timedelta(days=1)
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons for which a container waits before it starts; every other one is a failure."""
_NO_FAILURE = frozenset({"", "Completed", "Unknown"})
"""Reasons for which one has ended: Unknown, with another exit status than 0, after a reboot."""
_MESSAGE = 200
"""Characters of a message that are shown."""
_BEGINS = frozenset({"PodScheduled", "Initialized"})
"""Conditions that change when a pod begins, also once more after its node has restarted."""


def within(time: timedelta, at: datetime | None, now: datetime | None) -> bool:
    """Whether something was less than a time ago; what has no time is recent."""
    return at is None or now is None or now - at < time


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Terminated(msgspec.Struct, frozen=True, rename=kubernetes_case):
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    finished_at: datetime | None = None

    @property
    def failure(self) -> str:
        """Return the reason if it failed, else ""."""
        if self.reason not in _NO_FAILURE:
            return self.reason
        return "Error" if self.exit_code and not self.reason else ""


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()

    def failing(self, now: datetime | None) -> str:
        """Return why it does not work, "" if it does or still starts for the first time."""
        waiting, ended = self.state.waiting, self.state.terminated
        if waiting and waiting.reason not in _STARTING:
            return waiting.reason
        if ended:
            return ended.failure
        before = self.last_state.terminated
        if before and before.failure and self.restart_count and not self.ready:
            recent = within(_RECENT, before.finished_at, now)
            return f"not ready after {before.failure}" if recent else ""
        return ""

    def out_of_memory(self, now: datetime | None) -> bool:
        """Whether it was killed within a day because it reached its memory limit."""
        return any(
            ended.reason == OUT_OF_MEMORY and within(_RECENT, ended.finished_at, now)
            for ended in (self.state.terminated, self.last_state.terminated)
            if ended
        )

    def message(self, *, ended: bool) -> str:
        """Return why it does not start or how it ended; of a long message what is most telling.

        How it ended may be the end of its log: without `ended` that is left out.
        """
        waiting = _line(self.state.waiting.message)[:_MESSAGE] if self.state.waiting else ""
        if self.waits_for:
            return waiting
        return (_line(self._ended)[-_MESSAGE:] if ended else "") or waiting

    @property
    def waits_for(self) -> str:
        """Return the reason for which it cannot even be started, "" for none."""
        waiting = self.state.waiting
        return waiting.reason if waiting and waiting.reason not in {*_STARTING, BACK_OFF} else ""

    @property
    def cause(self) -> str:
        """Return where causes are searched. How it ended may be its log, with any word in it."""
        if self.waits_for and self.state.waiting:
            return f"{self.waits_for} {self.state.waiting.message}"
        return EXEC_FORMAT if EXEC_FORMAT in self._ended else ""

    @property
    def _ended(self) -> str:
        both = (self.state.terminated, self.last_state.terminated)
        return next((ended.message for ended in both if ended and ended.message), "")


def _line(text: str) -> str:
    """Return a text on one line, masked first: a cut may remove the word before a secret."""
    return " ".join(redacted(text).split())


class _Condition(msgspec.Struct, frozen=True, rename=kubernetes_case):
    type: str = ""
    last_transition_time: datetime | None = None


class _PodStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    phase: str = ""
    reason: str = ""
    container_statuses: tuple[ContainerStatus, ...] | None = ()
    init_container_statuses: tuple[ContainerStatus, ...] | None = ()
    conditions: tuple[_Condition, ...] | None = ()


class _PodSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    node_name: str = ""
    service_account_name: str = ""


class _Owner(msgspec.Struct, frozen=True):
    uid: str = ""
    controller: bool = False


class _PodMeta(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    owner_references: tuple[_Owner, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    metadata: _PodMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def every(self) -> Iterator[ContainerStatus]:
        yield from self.status.init_container_statuses or ()
        yield from self.status.container_statuses or ()

    @property
    def begun(self) -> datetime | None:
        """Return when it began to start, for the last time."""
        changed = (
            each.last_transition_time
            for each in self.status.conditions or ()
            if each.type in _BEGINS and each.last_transition_time
        )
        return max(changed, default=self.metadata.creation_timestamp)

    def started(self, now: datetime | None = None) -> Started:
        meta = self.metadata
        owner = next((ref.uid for ref in meta.owner_references if ref.controller), "")
        # What a container waits for is a line of its own, and Events say the same once more.
        fails = any(each.failing(now) for each in self.every)
        pending = self.status.phase == PENDING and not fails
        return Started(meta.uid, owner, meta.creation_timestamp, pending)
