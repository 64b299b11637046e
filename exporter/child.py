"""Keeps one NVML child at work: asks it for samples, kills it when it hangs, starts it again.

Whatever happens to the child becomes a `SourceHealth`; a call that does not come
back is named, and its GPU is left out for a while so that the others stay
visible. There is never a second child before the first is reaped.
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
from collections.abc import Callable
from enum import Enum

import msgspec

from exporter import callnotes, wire
from exporter.quarantine import Quarantine
from exporter.readings import STARTING, CallNote, Hang, NvmlReading
from exporter.report import SourceHealth
from exporter.settings import Settings
from exporter.signals import Signal

_log = logging.getLogger(__name__)

_BACK_OFF = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_REAP_SECONDS = 5.0
_CHECK_SECONDS = 0.5
"""How often the running call is looked at."""
_MIN_GAP = 1.0
"""Seconds between two samples asked for by signals."""
_WAIT_SECONDS = 1.0
"""What an event wait may take by itself (`nvml_child.WAIT_MS`)."""
_WHOLE_SAMPLE = 6
"""A sample may take this many times the deadline of one call, as long as calls come back."""


class NvmlState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known through NVML now; `reading` is None while it cannot be asked."""

    source: SourceHealth
    reading: NvmlReading | None = None
    hang: Hang | None = None
    restarts: int = 0


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


class NvmlChild:
    """Supervises the child from one thread, which must live as long as the child.

    (The kernel sends the parent-death signal when that thread ends, not the process.)
    """

    def __init__(
        self,
        settings: Settings,
        on_state: Callable[[NvmlState], None],
        on_signal: Callable[[Signal], None],
    ) -> None:
        self._settings = settings
        self._on_state = on_state
        self._on_signal = on_signal
        self._inbox: queue.SimpleQueue[wire.FromChild | _Mark] = queue.SimpleQueue()
        self._asked = threading.Event()
        self._stopping = threading.Event()
        self._quarantine = Quarantine(settings.hang_retry)
        self._notes_fd, self._notes = callnotes.create()
        self._state = NvmlState(source=SourceHealth(name="nvml", up=False, reason=STARTING))
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)

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
            process = self._spawn()
            try:
                self._work(process)
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
                    "exporter.nvml_child",
                    *map(str, (*descriptors, os.getpid())),
                ],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # vendor libraries print there
                env=self._environment(),
            )
        process = _Process(popen, wire.Channel(ours))
        threading.Thread(
            target=self._hear, args=(process.channel,), name="nvml child", daemon=True
        ).start()
        _log.info("NVML child %d started", popen.pid)
        return process

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        if self._settings.nvml_library_dir is not None:
            before = environment.get("LD_LIBRARY_PATH")
            folder = str(self._settings.nvml_library_dir)
            environment["LD_LIBRARY_PATH"] = f"{folder}:{before}" if before else folder
        return environment

    def _hear(self, channel: wire.Channel) -> None:
        inbox = self._inbox
        try:
            while True:
                inbox.put(channel.receive(wire.from_child))
        except wire.WireError:
            inbox.put(_Mark.CLOSED)

    def _work(self, process: _Process) -> None:
        """Ask for samples until the child ends or must be ended; raises _Ended."""
        first = True
        while True:
            skip = self._quarantine.left_out(time.monotonic())
            self._asked.clear()
            self._request(process, skip)
            reading = self._await_sample(process, first=first)
            first = False
            self._failures = 0
            self._up(reading, skip)
            self._rest(process, time.monotonic())

    def _request(self, process: _Process, skip: frozenset[int]) -> None:
        try:
            process.channel.send(wire.SampleRequest(tuple(sorted(skip))))
        except wire.WireError:
            raise self._death(process) from None

    def _await_sample(self, process: _Process, *, first: bool) -> NvmlReading:
        begun = time.monotonic()
        while True:
            heard = self._next(process, _CHECK_SECONDS)
            if isinstance(heard, wire.Sampled):
                return heard.reading
            self._check_calls(time.monotonic() - begun, first=first)

    def _rest(self, process: _Process, sampled: float) -> None:
        """Wait for the next sample's time, or for somebody to ask."""
        while True:
            wait = _MIN_GAP if self._asked.is_set() else self._settings.interval
            left = sampled + min(wait, self._settings.interval) - time.monotonic()
            if left <= 0:
                return
            self._next(process, min(left, _CHECK_SECONDS))
            self._check_calls(0.0, first=False)

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
            raise _Ended("Slow", f"NVML needs more than {sample_seconds:.0f} s for one sample")

    def _hang(self, note: CallNote) -> _Ended:
        uuid = self._quarantine.put(note, time.monotonic())
        where = "NVML" if note.gpu is None else f"GPU {note.gpu}" + (f" ({uuid})" if uuid else "")
        return _Ended(
            "Hung",
            f"{where} hangs in {note.call} for {note.seconds:.0f} s; the NVML process is killed "
            "and started again. If this goes on, drain the node and reset the GPU",
            Hang(note.call, note.gpu, uuid),
        )

    def _death(self, process: _Process) -> _Ended:
        """Say how a child that closed its socket came to its end."""
        try:
            code = process.popen.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            return _Ended("Crashed", "the NVML process closed its socket and did not end")
        if code < 0:
            name = signal.Signals(-code).name
            return _Ended("Crashed", f"the NVML process was ended by {name}; it is started again")
        return _Ended(
            "Crashed", f"the NVML process ended by itself with code {code}; see its output"
        )

    def _up(self, reading: NvmlReading, skip: frozenset[int]) -> None:
        whole = self._quarantine.complete(reading, skip)
        message = self._quarantine.sentence()
        self._tell(
            source=SourceHealth(name="nvml", up=True, message=message, last_success=reading.at),
            reading=whole,
            hang=self._quarantine.nameless(),
        )

    def _down(self, ended: _Ended) -> None:
        self._failures += 1
        last = self._state.source.last_success
        source = SourceHealth(
            name="nvml", up=False, reason=ended.reason, message=ended.message, last_success=last
        )
        if source.message != self._state.source.message and not self._stopping.is_set():
            _log.warning("NVML is down: %s", ended.message)
        self._tell(source=source, reading=None, hang=ended.hang)

    def _tell(
        self, *, source: SourceHealth, reading: NvmlReading | None, hang: Hang | None
    ) -> None:
        self._state = NvmlState(
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
