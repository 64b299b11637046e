"""Parts into outcomes: each is a process of its own, watched, and ended when its time is up."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from benchmarks.soak import closing
from benchmarks.soak.parts import ROOT, Part

LOOK = 0.2
"""Seconds between two looks at what runs."""
GRACE = 30.0
"""Seconds that a part has for ending what it started."""
TAIL = 8192
"""Bytes of its output that are looked at for its last line."""
SHOWN = 160
"""Characters of its last line that are shown."""
Say = Callable[[str], None]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    part: Part
    passed: bool
    figures: str
    """Its closing figures, and why it failed."""
    seconds: float


class Running:
    """One part while it runs; its output goes to a file."""

    def __init__(self, part: Part, folder: Path) -> None:
        self.part, self.begun = part, time.monotonic()
        self.log = folder / f"{part.name}.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                part.command,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **part.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def ended(self) -> Outcome | None:
        """Return what became of it, None while it runs; its time may be up."""
        status = self._process.poll()
        if status is None and self.seconds < self.part.longest:
            return None
        last = self.last_line()
        if status is None:
            self.end()
            return self._outcome(f"out of time after {self.part.longest:.0f} s", last)
        return self._outcome("" if status == 0 else f"exit status {status}", last)

    def end(self) -> None:
        """End the part and all that it started."""
        for number, grace in ((signal.SIGINT, GRACE), (signal.SIGKILL, GRACE)):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(grace)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue

    def last_line(self) -> str:
        """Return the last line that it has written so far."""
        with self.log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL, 0))
            return closing.last_line(file.read().decode(errors="replace"))

    def _outcome(self, why: str, last: str) -> Outcome:
        figures = self.part.figures(self.log.read_text(encoding="utf-8", errors="replace"))
        if not why and not figures:
            why = "no closing figures"
        texts = [figures, why, "" if figures else last]
        return Outcome(
            part=self.part,
            passed=not why,
            figures="; ".join(text for text in texts if text),
            seconds=self.seconds,
        )


def run_all(
    parts: Sequence[Part],
    folder: Path,
    *,
    tell: Callable[[Outcome], None],
    say: Say,
    jobs: int = 1,
    every: float = 30.0,
) -> list[Outcome]:
    """Run all parts, whatever their outcome; `tell` gets each outcome as it comes.

    `say` gets a line for each part that runs, every so many seconds.
    """
    waiting, running, outcomes = list(parts), list[Running](), list[Outcome]()
    logged_at = time.monotonic()
    try:
        while waiting or running:
            while part := _next(waiting, running, jobs):
                waiting.remove(part)
                running.append(Running(part, folder))
                say(f"{part.name}: {part.what}")
            for process in tuple(running):
                if outcome := process.ended():
                    running.remove(process)
                    outcomes.append(outcome)
                    tell(outcome)
            if time.monotonic() - logged_at >= every:
                logged_at = time.monotonic()
                say("\n".join(_progress(running, waiting)))
            time.sleep(LOOK)
    finally:
        for process in running:
            process.end()
    return outcomes


def _next(waiting: Iterable[Part], running: Sequence[Running], jobs: int) -> Part | None:
    """Return the first part that may run beside those that do."""
    if len(running) >= jobs or any(process.part.alone for process in running):
        return None
    return next((part for part in waiting if not (part.alone and running)), None)


def _progress(running: Iterable[Running], waiting: Iterable[Part]) -> Iterable[str]:
    for process in running:
        part = process.part
        about = f"of about {clock(part.about)}, at most {clock(part.longest)}"
        yield f"{part.name}: {clock(process.seconds)} {about}: {process.last_line()[:SHOWN]}"
    left = list(waiting)
    if left:
        about = clock(sum(part.about for part in left))
        yield f"left: {', '.join(part.name for part in left)}: about {about}"


def clock(seconds: float) -> str:
    """Return seconds as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
