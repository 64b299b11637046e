"""Keeps one vendor child at work: asks it for samples, kills it when it hangs, starts it again.

Whatever happens to the child becomes a `SourceHealth`; a call that does not come
back is named. There is never a second child before the first is reaped. What is
particular to a library is its `Vendor`'s.
"""

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Generic, Protocol, TypeVar

import msgspec

from exporter import protocol
from exporter.model.node_health import SourceHealth
from exporter.model.readings import STARTING, CallNote, DcgmReading, Hang, NvmlReading
from exporter.model.signals import Signal
from exporter.sensor.supervisor import process as ends
from exporter.sensor.supervisor.calls import Calls
from exporter.sensor.supervisor.deadlines import Deadlines
from exporter.sensor.supervisor.folder_watch import FolderWatch
from exporter.sensor.supervisor.process import REAP_SECONDS, Ended, Process
from exporter.sensor.supervisor.resource_limits import ResourceLimits
from exporter.settings import Settings

_log = logging.getLogger(__name__)

_BACK_OFF = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_STEADY_SECONDS = 60.0
"""A process that answered and lived so long is no repeated failure."""
_RECURRING = frozenset({"Crashed", "Leaking", "Spinning", "Slow"})
"""Ends that come again in the next process; a GPU that hung is left out of it."""
_LIMIT_SECONDS = 10.0
"""Between two looks at what the process takes."""
_MIN_GAP = 1.0
"""Seconds between two samples requested by signals."""


R = TypeVar("R", NvmlReading, DcgmReading)
R_co = TypeVar("R_co", NvmlReading, DcgmReading, covariant=True)


class VendorState(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """What is known through a library now; `reading` is None while it cannot be queried."""

    source: SourceHealth
    reading: R | None = None
    hang: Hang | None = None
    restarts: int = 0


class Vendor(Protocol[R_co]):
    """What `VendorChild` must know of a library; used from the supervisor's thread alone."""

    name: str
    """Of the source, such as `nvml`."""
    title: str
    """For sentences, such as `NVML`."""
    module: str
    """The child's program, run with `python -m`."""

    def environment(self) -> Mapping[str, str]:
        """Return what the child's environment has beside the sensor's own."""
        ...

    def withheld(self) -> tuple[str, str] | None:
        """Return (reason, sentence) while the library must not be opened at all."""
        ...

    def request(self, now: float) -> protocol.SampleRequest: ...

    def reading(self, message: protocol.FromChild, request: protocol.SampleRequest) -> R_co | None:
        """Return the reading that a message carries, None when it is no sample."""
        ...

    def hung(self, note: CallNote, now: float) -> Hang:
        """Take note of a call that does not come back, and name it."""
        ...

    def remark(self) -> tuple[str, str, Hang | None]:
        """Return (reason, sentence) about what samples leave out, and a hang without reading."""
        ...

    def must_reopen(self) -> bool:
        """Say whether the running child holds something that it must not hold any more."""
        ...


class _Mark(Enum):
    CLOSED = "closed"
    REQUESTED = "requested"
    LOOK = "look"
    STOP = "stop"


class VendorChild(Generic[R]):
    """Supervises the child from one thread, which must live as long as the child.

    (The kernel sends the parent-death signal when that thread ends, not the process.)
    """

    def __init__(
        self,
        vendor: Vendor[R],
        settings: Settings,
        on_state: Callable[[VendorState[R]], None],
        on_signal: Callable[[Signal], None],
    ) -> None:
        self._vendor = vendor
        self._settings = settings
        self._on_state = on_state
        self._on_signal = on_signal
        self._inbox: queue.SimpleQueue[protocol.FromChild | _Mark] = queue.SimpleQueue()
        self._requested = threading.Event()
        self._stopping = threading.Event()
        self._deadlines = Deadlines(settings.sample_deadline, settings.start_deadline)
        self._calls = Calls(self._deadlines)
        self._limits = ResourceLimits(settings.child_memory_limit)
        self._state: VendorState[R] = VendorState(source=self._source(up=False, reason=STARTING))
        self._failures = 0
        self._began = 0.0
        self._answered = False
        self._read_at = 0.0
        """When the reading that is shown came (monotonic)."""
        self._sample_by = 0.0
        """When the sample that is waited for must be there (monotonic)."""
        self._releases = FolderWatch(
            settings.release_file.parent, lambda: self._inbox.put(_Mark.LOOK)
        )
        self._thread = threading.Thread(target=self._run, name=vendor.name, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._releases.start()

    def stop(self) -> None:
        self._stopping.set()
        self._inbox.put(_Mark.STOP)
        self._releases.stop()
        self._thread.join(REAP_SECONDS + 1)
        if not self._thread.is_alive():
            self._calls.close()

    def ask(self) -> None:
        """Have a sample taken soon; many calls make one sample."""
        if not self._requested.is_set():
            self._requested.set()
            self._inbox.put(_Mark.REQUESTED)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if (withheld := self._vendor.withheld()) is not None:
                self._down(Ended(*withheld))
                self._failures = 0
                self._await_look()
                continue
            try:
                process = self._spawn()
            except OSError as error:
                self._down(ends.not_started(self._vendor.title, error))
            else:
                if self._live(process):
                    continue
            self._stopping.wait(_BACK_OFF[min(self._failures, len(_BACK_OFF)) - 1])
            self._state = msgspec.structs.replace(self._state, restarts=self._state.restarts + 1)

    def _live(self, process: Process) -> bool:
        """Work with a process to its end; returns whether the next one may begin at once."""
        try:
            self._work(process)
        except Ended as ended:
            # After a process that worked failures are counted anew.
            steady = time.monotonic() - self._began >= _STEADY_SECONDS
            left_out = ended.hang is not None and ended.hang.gpu is not None
            if self._answered and (steady or left_out or ended.reason not in _RECURRING):
                self._failures = 0
            self._down(ended)
            return False
        else:
            return True
        finally:
            # A child in uninterruptible sleep is waited for, however long.
            if not process.end():
                self._stuck(process)
            self._drain()

    def _await_look(self) -> None:
        while not self._stopping.is_set():
            if self._inbox.get() in (_Mark.LOOK, _Mark.STOP):
                return

    def _spawn(self) -> Process:
        vendor = self._vendor
        self._calls.begin()
        process = Process(vendor.module, vendor.title, self._calls.descriptor, vendor.environment())
        self._limits = ResourceLimits(self._settings.child_memory_limit)
        self._began, self._answered = time.monotonic(), False
        inbox = self._inbox
        try:
            process.listen(lambda message: inbox.put(message or _Mark.CLOSED))
        except OSError:
            process.end()
            raise
        _log.info("%s child %d started", vendor.title, process.pid)
        return process

    def _work(self, process: Process) -> None:
        """Ask for samples until the library must be opened anew; raises Ended for other ends."""
        while True:
            # Cleared before the request is made: a sample requested later needs a new request.
            self._requested.clear()
            request = self._vendor.request(time.monotonic())
            self._limits.works()
            try:
                process.channel.send(request)
            except protocol.WireError:
                raise process.death() from None
            reading = self._await_sample(process, request)
            self._answered = True
            self._read_at = time.monotonic()
            reason, message, hang = self._vendor.remark()
            source = self._source(up=True, reason=reason, message=message, last_success=reading.at)
            self._tell(source=source, reading=reading, hang=hang)
            self._rest(process, time.monotonic())
            if self._must_let_go():
                # The process ends before the GPU is reported as released: it may be reset then.
                return

    def _await_sample(self, process: Process, request: protocol.SampleRequest) -> R:
        self._sample_by = time.monotonic() + self._deadlines.sample
        while True:
            left = self._sample_by - time.monotonic()
            looks = (self._next_look(), left, self._stale_in())
            message = self._next(process, min(looks))
            if message is not None and not isinstance(message, _Mark):
                reading = self._vendor.reading(message, request)
                if reading is not None:
                    return reading
            self._check(process, resting=False)
            if time.monotonic() >= self._sample_by:
                # The GPU that is queried just now is named: the next process does without it.
                note = self._calls.sampling()
                of_a_gpu = note is not None and note.gpu is not None
                hang = self._vendor.hung(note, time.monotonic()) if note and of_a_gpu else None
                raise ends.slow(self._vendor.title, self._deadlines.sample, hang)
            if self._stale_in() <= 0:
                self._withdraw()

    def _rest(self, process: Process, sampled: float) -> None:
        """Wait for the next sample's time, or for somebody to ask."""
        while True:
            self._check(process, resting=True)
            wait = _MIN_GAP if self._requested.is_set() else self._settings.interval
            left = sampled + min(wait, self._settings.interval) - time.monotonic()
            if left <= 0 or self._must_let_go():
                return
            self._next(process, min(left, self._next_look()))

    def _must_let_go(self) -> bool:
        return self._vendor.withheld() is not None or self._vendor.must_reopen()

    def _next_look(self) -> float:
        return min(self._calls.next_look(first=not self._answered), _LIMIT_SECONDS)

    def _next(self, process: Process, seconds: float) -> protocol.FromChild | _Mark | None:
        message = self._received_within(max(seconds, 0.0))
        if isinstance(message, protocol.Happened):
            self._limits.reported()
            self._on_signal(message.signal)
        elif isinstance(message, protocol.Failed):
            raise Ended(message.reason, message.message)
        elif message is _Mark.CLOSED:
            raise process.death()
        elif message is _Mark.STOP:
            raise Ended("Stopped", "the sensor is stopping")
        return message

    def _received_within(self, seconds: float) -> protocol.FromChild | _Mark | None:
        try:
            message = self._inbox.get(timeout=seconds)
        except queue.Empty:
            message = None
        still = self._calls.waited(seconds)
        self._read_at += still
        self._sample_by += still
        return message

    def _check(self, process: Process, *, resting: bool) -> None:
        """Raise Ended for a call that hangs, and for a process that takes too much."""
        note = self._calls.overdue(first=not self._answered)
        if note is not None:
            hang = self._vendor.hung(note, time.monotonic())
            raise ends.hung(self._vendor.title, note, hang)
        excess = self._limits.judge(process.taken(), time.monotonic(), resting=resting)
        if excess is not None:
            raise Ended(
                excess.reason,
                f"the {self._vendor.title} process {excess.sentence}; it is killed and started "
                "again. If this goes on, update the driver or the library",
            )

    def _stale_in(self) -> float:
        """Return in how many seconds what is shown must not be shown any more."""
        if self._state.reading is None:
            return math.inf
        allowed = self._settings.interval + self._deadlines.stale
        return self._read_at + allowed - time.monotonic()

    def _withdraw(self) -> None:
        last = self._state.source.last_success
        text = (
            f"{self._vendor.title} has not finished a sample within {self._deadlines.stale:.0f} s, "
            "so its last values are no longer exported"
        )
        _log.warning("%s", text)
        source = self._source(up=False, reason="Slow", message=text, last_success=last)
        self._tell(source=source, reading=None, hang=None)

    def _down(self, ended: Ended) -> None:
        self._failures += 1
        last = self._state.source.last_success
        source = self._source(
            up=False, reason=ended.reason, message=ended.message, last_success=last
        )
        if source.message != self._state.source.message and not self._stopping.is_set():
            _log.warning("%s is down: %s", self._vendor.title, ended.message)
        self._tell(source=source, reading=None, hang=ended.hang)

    def _source(
        self,
        *,
        up: bool,
        reason: str = "",
        message: str = "",
        last_success: datetime | None = None,
    ) -> SourceHealth:
        return SourceHealth(
            name=self._vendor.name,
            state="Up" if up else "Down",
            reason=reason,
            message=message,
            last_success=last_success,
        )

    def _tell(self, *, source: SourceHealth, reading: R | None, hang: Hang | None) -> None:
        self._state = VendorState(
            source=source, reading=reading, hang=hang, restarts=self._state.restarts
        )
        self._on_state(self._state)

    def _stuck(self, process: Process) -> None:
        stuck = f"process {process.pid} cannot be killed (it sleeps in the kernel): reboot the node"
        before = self._state.source.message
        source = msgspec.structs.replace(
            self._state.source,
            # The state before may be Up: of a process that worked and only had to release a GPU.
            state="Down",
            reason="Stuck",
            message=f"{before}; {stuck}" if before else stuck,
        )
        _log.error("%s", source.message)
        self._tell(source=source, reading=None, hang=self._state.hang)
        process.await_end(self._stopping.is_set)

    def _drain(self) -> None:
        """Drop the old child's remaining messages, but keep its events and a request to stop."""
        left, self._inbox = self._inbox, queue.SimpleQueue[protocol.FromChild | _Mark]()
        if self._stopping.is_set():
            self._inbox.put(_Mark.STOP)
        while not left.empty():
            message = left.get_nowait()
            if isinstance(message, protocol.Happened):
                # No library tells of an error twice.
                self._on_signal(message.signal)
