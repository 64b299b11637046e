"""Keeps one vendor child at work: asks it for samples, kills it when it hangs, starts it again.

Whatever happens to the child becomes a `SourceHealth`; a call that does not come
back is named. There is never a second child before the first is reaped. What is
particular to a library is its `Vendor`'s.
"""

import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Generic, Protocol, TypeVar

import msgspec

from exporter import wire
from exporter.readings import STARTING, CallNote, DcgmReading, Hang, NvmlReading
from exporter.report import SourceHealth
from exporter.setup.settings import Settings
from exporter.signals import Signal
from exporter.vendor import callnotes

_log = logging.getLogger(__name__)

_BACK_OFF = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_REAP_SECONDS = 5.0
_WITHHELD_SECONDS = 0.5
_CHECK_SECONDS = 0.5
"""How often the running call is looked at."""
_MIN_GAP = 1.0
"""Seconds between two samples asked for by signals."""
_WAIT_SECONDS = 1.0
"""What an event wait may take by itself (`nvml_child.WAIT_MS`)."""
_WHOLE_SAMPLE = 6
"""A sample may take this many times the deadline of one call, as long as calls come back."""


R = TypeVar("R", NvmlReading, DcgmReading)
R_co = TypeVar("R_co", NvmlReading, DcgmReading, covariant=True)


class VendorState(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """What is known through a library now; `reading` is None while it cannot be asked."""

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

    def request(self, now: float) -> wire.SampleRequest: ...

    def reading(self, heard: wire.FromChild, asked: wire.SampleRequest) -> R_co | None:
        """Return the reading that a message carries, None when it is no sample."""
        ...

    def hung(self, note: CallNote, now: float) -> Hang:
        """Take note of a call that does not come back, and name it."""
        ...

    def remark(self) -> tuple[str, Hang | None]:
        """Return a sentence about what is left out of samples, and a hang without reading."""
        ...

    def must_reopen(self) -> bool:
        """Say whether the running child holds something that it must not hold any more."""
        ...


class _Mark(Enum):
    CLOSED = "closed"
    ASKED = "asked"
    STOP = "stop"


class _Process(msgspec.Struct, frozen=True):
    popen: "subprocess.Popen[bytes]"
    channel: wire.Channel


class _Ended(Exception):  # noqa: N818 - how a child's life ended
    def __init__(self, reason: str, message: str, hang: Hang | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hang = hang


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
        self._inbox: queue.SimpleQueue[wire.FromChild | _Mark] = queue.SimpleQueue()
        self._asked = threading.Event()
        self._stopping = threading.Event()
        self._notes_fd, self._notes = callnotes.create()
        self._state: VendorState[R] = VendorState(source=self._source(up=False, reason=STARTING))
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=vendor.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._inbox.put(_Mark.STOP)
        self._thread.join(_REAP_SECONDS + 1)
        self._notes.close()
        os.close(self._notes_fd)

    def ask(self) -> None:
        """Have a sample taken soon; many calls make one sample."""
        if not self._asked.is_set():
            self._asked.set()
            self._inbox.put(_Mark.ASKED)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if (withheld := self._vendor.withheld()) is not None:
                self._down(_Ended(*withheld))
                self._failures = 0
                self._stopping.wait(_WITHHELD_SECONDS)
                continue
            process = self._spawn()
            try:
                self._work(process)
                continue
            except _Ended as ended:
                self._down(ended)
            finally:
                self._end(process)
            wait = _BACK_OFF[min(self._failures, len(_BACK_OFF)) - 1]
            self._stopping.wait(wait)
            self._state = msgspec.structs.replace(self._state, restarts=self._state.restarts + 1)

    def _spawn(self) -> _Process:
        ours, theirs = socket.socketpair()
        descriptors = (theirs.fileno(), self._notes_fd)
        callnotes.Slot(self._notes, callnotes.SAMPLING).end()
        callnotes.Slot(self._notes, callnotes.EVENTS).end()
        with theirs:
            popen = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    self._vendor.module,
                    *map(str, (*descriptors, os.getpid())),
                ],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # vendor libraries print there
                env={**os.environ, **self._vendor.environment()},
            )
        process = _Process(popen, wire.Channel(ours))
        threading.Thread(
            target=self._hear,
            args=(process.channel,),
            name=f"{self._vendor.name} child",
            daemon=True,
        ).start()
        _log.info("%s child %d started", self._vendor.title, popen.pid)
        return process

    def _hear(self, channel: wire.Channel) -> None:
        inbox = self._inbox
        try:
            while True:
                inbox.put(channel.receive(wire.from_child))
        except wire.WireError:
            inbox.put(_Mark.CLOSED)

    def _work(self, process: _Process) -> None:
        """Ask for samples until the library must be opened anew; raises _Ended for other ends."""
        first = True
        while True:
            asked = self._vendor.request(time.monotonic())
            self._asked.clear()
            self._request(process, asked)
            reading = self._await_sample(process, asked, first=first)
            first = False
            self._failures = 0
            self._up(reading)
            self._rest(process, time.monotonic())
            if self._vendor.must_reopen():
                return

    def _request(self, process: _Process, asked: wire.SampleRequest) -> None:
        try:
            process.channel.send(asked)
        except wire.WireError:
            raise self._death(process) from None

    def _await_sample(self, process: _Process, asked: wire.SampleRequest, *, first: bool) -> R:
        begun = time.monotonic()
        while True:
            heard = self._next(process, _CHECK_SECONDS)
            if heard is not None and not isinstance(heard, _Mark):
                reading = self._vendor.reading(heard, asked)
                if reading is not None:
                    return reading
            self._check_calls(time.monotonic() - begun, first=first)

    def _rest(self, process: _Process, sampled: float) -> None:
        """Wait for the next sample's time, or for somebody to ask."""
        while True:
            wait = _MIN_GAP if self._asked.is_set() else self._settings.interval
            left = sampled + min(wait, self._settings.interval) - time.monotonic()
            if left <= 0 or self._vendor.must_reopen():
                return
            self._next(process, min(left, _CHECK_SECONDS))
            self._check_calls(0.0, first=False)
            if (withheld := self._vendor.withheld()) is not None:
                raise _Ended(*withheld)

    def _next(self, process: _Process, seconds: float) -> wire.FromChild | _Mark | None:
        try:
            heard = self._inbox.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(heard, wire.Happened):
            self._on_signal(heard.signal)
        elif isinstance(heard, wire.Failed):
            raise _Ended(heard.reason, heard.message)
        elif heard is _Mark.CLOSED:
            raise self._death(process)
        elif heard is _Mark.STOP:
            raise _Ended("Stopped", "the sensor is stopping")
        return heard

    def _check_calls(self, sample_seconds: float, *, first: bool) -> None:
        deadline = self._settings.sample_deadline
        sampling = callnotes.read(self._notes, callnotes.SAMPLING)
        if sampling is not None:
            # Without a GPU it is nvmlInit or alike, which may wake all of them.
            slow = first and sampling.gpu is None
            allowed = self._settings.start_deadline if slow else deadline
            if sampling.seconds > allowed:
                raise self._hang(sampling)
        waiting = callnotes.read(self._notes, callnotes.EVENTS)
        if waiting is not None and waiting.seconds > deadline + _WAIT_SECONDS:
            raise self._hang(waiting)
        if sample_seconds > _WHOLE_SAMPLE * deadline + self._settings.start_deadline:
            raise _Ended(
                "Slow",
                f"{self._vendor.title} needs more than {sample_seconds:.0f} s for one sample",
            )

    def _hang(self, note: CallNote) -> _Ended:
        hang = self._vendor.hung(note, time.monotonic())
        title = self._vendor.title
        known = f" ({hang.uuid})" if hang.uuid else ""
        where = title if hang.gpu is None else f"GPU {hang.gpu}{known}"
        return _Ended(
            "Hung",
            f"{where} hangs in {note.call} for {note.seconds:.0f} s; the {title} process is killed "
            "and started again. If this goes on, drain the node and reset the GPU",
            hang,
        )

    def _death(self, process: _Process) -> _Ended:
        """Say how a child that closed its socket came to its end."""
        title = self._vendor.title
        try:
            code = process.popen.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            return _Ended("Crashed", f"the {title} process closed its socket and did not end")
        if code < 0:
            name = signal.Signals(-code).name
            return _Ended(
                "Crashed", f"the {title} process was ended by {name}; it is started again"
            )
        return _Ended(
            "Crashed", f"the {title} process ended by itself with code {code}; see its output"
        )

    def _up(self, reading: R) -> None:
        message, hang = self._vendor.remark()
        source = self._source(up=True, message=message, last_success=reading.at)
        self._tell(source=source, reading=reading, hang=hang)

    def _down(self, ended: _Ended) -> None:
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
            up=up,
            reason=reason,
            message=message,
            last_success=last_success,
        )

    def _tell(self, *, source: SourceHealth, reading: R | None, hang: Hang | None) -> None:
        self._state = VendorState(
            source=source, reading=reading, hang=hang, restarts=self._state.restarts
        )
        self._on_state(self._state)

    def _end(self, process: _Process) -> None:
        """Kill and reap; a child in uninterruptible sleep is waited for, however long."""
        process.popen.kill()
        process.channel.close()
        try:
            process.popen.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            self._stuck(process)
        self._drain()

    def _stuck(self, process: _Process) -> None:
        source = msgspec.structs.replace(
            self._state.source,
            reason="Stuck",
            message=f"{self._state.source.message}; process {process.popen.pid} cannot be killed "
            "(it sleeps in the kernel): reboot the node",
        )
        _log.error("%s", source.message)
        self._tell(source=source, reading=None, hang=self._state.hang)
        while not self._stopping.is_set():
            try:
                process.popen.wait(1.0)
            except subprocess.TimeoutExpired:
                continue
            return

    def _drain(self) -> None:
        """Drop what the old child still said, but not that somebody asked or stops."""
        self._inbox = queue.SimpleQueue()
        if self._stopping.is_set():
            self._inbox.put(_Mark.STOP)
