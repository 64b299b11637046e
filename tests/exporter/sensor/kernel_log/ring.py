"""A kernel's ring as syslog(2) gives it."""

import threading

from exporter.sensor.kernel_log.syslog import SyslogError
from exporter.sensor.kernel_log.syslog_text import Look


class Ring:
    """Records, and whether the call is refused."""

    def __init__(self) -> None:
        self.changed = threading.RLock()
        self.text = b""
        self.held = 0
        self.refusal: SyslogError | None = None
        self.looks = 0

    def write(self, seconds: float, message: str, priority: int = 6) -> None:
        line = f"<{priority}>[{seconds:12.6f}] {message}\n".encode()
        with self.changed:
            self.text += line
            self.held += len(line)

    def write_and_clear(self, seconds: float, message: str) -> None:
        """Both between two looks, as what clears every 50 ms does."""
        with self.changed:
            self.write(seconds, message)
            self.text = b""

    def read(self) -> Look:
        with self.changed:
            self.looks += 1
            if self.refusal:
                raise self.refusal
            return Look(self.text, self.held)
