"""How log lines look: text, or one JSON object a line; and how they leave, without anyone waiting.

A pipe whose reader stopped, or a full disk behind it, would hold every thread that
logs. So lines go through a queue with an end, and those that do not fit are counted.
"""

import contextlib
import logging
import os
import queue
import select
import threading

import msgspec

from exporter.settings import Settings

_WAITING = 1000
"""Lines that wait to be written."""
_END_SECONDS = 0.5
"""For the last lines, when the process ends."""
_STDERR = 2


def begin(settings: Settings) -> None:
    """Set logging up, once."""
    outlet = Outlet(_STDERR)
    text = logging.Formatter(f"%(asctime)s %(levelname)s {settings.role} %(message)s")
    outlet.setFormatter(_Json(settings.role) if settings.log_format == "json" else text)
    logging.basicConfig(level=settings.log_level, handlers=[outlet])


class Outlet(logging.Handler):
    """Writes lines to a descriptor from a thread of its own; nobody else waits for it."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes | threading.Event | None] = queue.Queue(_WAITING)
        self._left_out = 0
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        if self._left_out:
            line = f"{line} ({self._left_out} lines before this one were left out)"
        try:
            self._lines.put_nowait(line.encode("utf-8", "backslashreplace") + b"\n")
            self._left_out = 0
        except queue.Full:
            self._left_out += 1

    def flush(self) -> None:
        """Wait for what is not written yet, for a moment; `logging.shutdown` calls it."""
        written = threading.Event()
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(written)
            written.wait(_END_SECONDS)

    def close(self) -> None:
        """End the thread, once it has written what waits; `logging.shutdown` calls it."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        super().close()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            if isinstance(line, threading.Event):
                line.set()
                continue
            # Closed by its reader, or on a full disk: there is nobody to tell.
            with contextlib.suppress(OSError):
                while line:
                    line = line[self._taken(line) :]

    def _taken(self, line: bytes) -> int:
        """Write what there is room for; wait where there is none."""
        try:
            return os.write(self._descriptor, line)
        except BlockingIOError:
            # Whoever else has this pipe may have made it so. The rest of a line must not be lost:
            # the next one would be part of it.
            room = select.poll()
            room.register(self._descriptor, select.POLLOUT)
            room.poll()
            return 0


class _Json(logging.Formatter):
    def __init__(self, role: str) -> None:
        super().__init__(datefmt="%Y-%m-%dT%H:%M:%S%z")
        self._role = role

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record, self.datefmt),
            "level": record.levelname,
            "role": self._role,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry).decode()
