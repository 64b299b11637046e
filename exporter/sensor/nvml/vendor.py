"""What the supervisor of the NVML child must know of NVML: who is left out, when to let go.

A GPU that hung is left out for a while so that the others stay visible. A GPU
that the release file names is let go, because a reset and an unbind need a GPU
that nobody holds; the others are watched meanwhile.
"""

import logging
import time
from collections.abc import Callable, Mapping

from exporter import protocol
from exporter.model.readings import CallNote, Hang, NvmlReading
from exporter.sensor.nvml import preload
from exporter.sensor.supervisor.deadlines import Deadlines
from exporter.sensor.supervisor.quarantine import TOO_LONG, Quarantine
from exporter.sensor.supervisor.release_file import UNREADABLE, ReleaseFile
from exporter.settings import Settings

_log = logging.getLogger(__name__)
NO_EVENTS = "NoEvents"
"""Reason of a source that answers, and tells no XIDs by itself."""


class NvmlVendor:
    """Implements `child.Vendor`."""

    name = "nvml"
    title = "NVML"
    module = "exporter.sensor.nvml.child"

    def __init__(self, settings: Settings, requested: Callable[[], tuple[int, ...]]) -> None:
        self._library_dirs = settings.nvml_library_dirs
        self._release = ReleaseFile(settings.release_file)
        self._processes = settings.processes
        self._gpu_seconds = Deadlines(settings.sample_deadline, settings.start_deadline).gpu
        self._requested = requested
        self._quarantine = Quarantine(settings.hang_retry)
        self._held: frozenset[int] = frozenset()
        """GPUs that the running child reads."""
        self._without_events = ""
        """Which GPUs tell no events, as a sentence."""
        self._unreadable = ""
        """Why the release file cannot be read, as it was logged."""

    def environment(self) -> Mapping[str, str]:
        return preload.variables(self._library_dirs)

    def withheld(self) -> tuple[str, str] | None:
        if self._release.named() != ():
            return None
        return (
            "Released",
            f"{self._release.path} is there and names no GPU, so no GPU is kept open; remove it "
            "when the reset or driver change is done",
        )

    def request(self, now: float) -> protocol.SampleRequest:
        skip = self._quarantine.left_out(now) | self._let_go()
        left_out = tuple(sorted(skip))
        return protocol.SampleRequest(
            left_out, self._requested(), self._processes, self._gpu_seconds
        )

    def reading(
        self, message: protocol.FromChild, request: protocol.SampleRequest
    ) -> NvmlReading | None:
        if not isinstance(message, protocol.Sampled):
            return None
        self._held = frozenset(gpu.index for gpu in message.reading.gpus)
        self._log_without_events(message.reading)
        reading = self._quarantine.complete(message.reading, frozenset(request.skip))
        for note in message.overdue:
            self._quarantine.put(note, time.monotonic(), how=TOO_LONG)
            _log.warning("GPU %s took %.1f s, the last in %s", note.gpu, note.seconds, note.call)
        return reading

    def _log_without_events(self, reading: NvmlReading) -> None:
        numbers = ", ".join(str(gpu.index) for gpu in reading.gpus if gpu.without_events)
        sentence = numbers and (
            f"NVML refuses events of GPU {numbers} (nvmlDeviceRegisterEvents), so its "
            "XIDs are known from the kernel log and from DCGM alone"
        )
        if sentence and sentence != self._without_events:
            _log.warning("%s", sentence)
        self._without_events = sentence

    def hung(self, note: CallNote, now: float) -> Hang:
        return Hang(note.call, note.gpu, self._quarantine.put(note, now))

    def remark(self) -> tuple[str, str, Hang | None]:
        trouble = self._release.trouble
        if trouble and trouble != self._unreadable:
            _log.warning("%s", trouble)
        self._unreadable = trouble
        sentences = (self._quarantine.sentence(), self._without_events, trouble)
        sentence = "; ".join(sentence for sentence in sentences if sentence)
        reason = UNREADABLE if trouble else NO_EVENTS if self._without_events else ""
        return reason, sentence, self._quarantine.nameless()

    def must_reopen(self) -> bool:
        return bool(self._let_go() & self._held)

    def _let_go(self) -> frozenset[int]:
        return self._quarantine.named(frozenset(self._release.named() or ()))
