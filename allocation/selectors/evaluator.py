"""Which devices an expression selects, by a process that may be killed at any time.

One question at a time. Answers are kept by expression and device, as one GPU is like another. An
expression that takes too long, or ends the process, is not evaluated, now and later: the process is
started anew for the next one. It is also recycled after so many evaluations, because it leaks.
"""

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from types import TracebackType
from typing import Self

import msgspec

from allocation.selectors.answers import Answer, not_evaluated
from allocation.selectors.device import SelectedDevice, names_read, with_names
from allocation.selectors.protocol import LONGEST_LINE, Question, Reply

MEMORY = 1 << 30
"""Bytes of address space of the process."""
PATIENCE = 5.0
"""Seconds for one expression over up to `BATCH` devices. An API server takes 2 s at the most."""
BATCH = 256
RECYCLED_AFTER = 100_000
"""Evaluations. Each leaks up to 2 KiB."""
KEPT = 500_000
"""Answers."""
STARTS_WITHIN = 30.0
_ANY = b""
"""Stands for every device, of an expression that is not evaluated any more."""
_ENDED = "it ended the process that evaluates it"


class EvaluatorError(RuntimeError):
    """The process cannot be started: nothing can be evaluated here."""


class _Gone(Exception):  # noqa: N818 - it says what became of the process
    """Why there is no answer."""


def _go_on() -> None:
    """Never stop."""


class Evaluator:
    """Use it as a context, so that its process ends. Not for several threads."""

    def __init__(
        self, *, patience: float = PATIENCE, memory: int = MEMORY, recycled: int = RECYCLED_AFTER
    ) -> None:
        self.patience, self._memory, self._recycled = patience, memory, recycled
        self._process: subprocess.Popen[bytes] | None = None
        self._evaluations = 0
        self._kept: OrderedDict[tuple[str, bytes], Answer] = OrderedDict()
        self._decoder = msgspec.json.Decoder(Reply)
        self.check: Callable[[], None] = _go_on
        """Called before each batch; what it raises ends the evaluation."""
        self.starts = 0
        """How often the process was started."""

    @property
    def pid(self) -> int | None:
        """Of the process, None while there is none."""
        return self._process.pid if self._process else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    def answers(self, expression: str, devices: Sequence[SelectedDevice]) -> tuple[Answer, ...]:
        """Return what an expression says of each device, in their order. Raises EvaluatorError."""
        names = names_read(expression)
        seen = [with_names(device, names) for device in devices]
        keys = [(expression, msgspec.msgpack.encode(device)) for device in seen]
        new = {key: device for key, device in zip(keys, seen, strict=True) if key not in self._kept}
        found: dict[tuple[str, bytes], Answer] = {}
        for first in range(0, len(new), BATCH):
            self.check()
            part = dict(islice(new.items(), first, first + BATCH))
            answers = dict(zip(part, self._evaluate(expression, tuple(part.values())), strict=True))
            found |= answers
            # At once, so that what was found stays where the next batch is not evaluated.
            self._kept.update(answers)
        every = tuple(found.get(key) or self._kept[key] for key in keys)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return every

    def evaluate(self, expression: str, devices: Sequence[SelectedDevice]) -> Sequence[Answer]:
        """Return the same; where the process does not start, nothing is evaluated."""
        try:
            return self.answers(expression, devices)
        except EvaluatorError as error:
            return [not_evaluated(str(error))] * len(devices)

    def _evaluate(self, expression: str, devices: tuple[SelectedDevice, ...]) -> Sequence[Answer]:
        """Return what an expression says of up to `BATCH` devices."""
        if (given_up := self._kept.get((expression, _ANY))) is None:
            try:
                return self._reply(Question(expression, devices)).answers
            except _Gone as why:
                self.close()
                given_up = self._kept[expression, _ANY] = not_evaluated(str(why))
        return [given_up] * len(devices)

    def _reply(self, question: Question) -> Reply:
        if self._evaluations > self._recycled:
            self.close()
        process = self._process or self._start()
        self._evaluations += len(question.devices)
        reply = self._decoder.decode(_exchange(process, question, self.patience))
        if len(reply.answers) != len(question.devices):
            raise _Gone("the process that evaluates it has lost count")
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = process = subprocess.Popen(
            # -P: nothing is imported from the folder in which somebody runs a command.
            [sys.executable, "-P", "-m", "allocation.selectors.worker", str(self._memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._evaluations, self.starts = 0, self.starts + 1
        # The first answer waits for the library to be loaded, which no expression is to blame for.
        try:
            _exchange(process, Question("true", ()), STARTS_WITHIN)
        except _Gone as error:
            self.close()
            raise EvaluatorError(f"the process for CEL does not start: {error}") from None
        return process


def _exchange(process: subprocess.Popen[bytes], question: Question, seconds: float) -> bytes:
    """Ask, and return the line that is the reply. Raises _Gone."""
    if process.stdin is None or process.stdout is None:
        raise _Gone("it has no pipes")
    until, found = time.monotonic() + seconds, bytearray()
    try:
        process.stdin.write(msgspec.json.encode(question) + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise _Gone(_ENDED) from None
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while not found.endswith(b"\n"):
            if not ready.select(max(until - time.monotonic(), 0)):
                raise _Gone(f"it takes longer than {seconds:g} s")
            more = os.read(process.stdout.fileno(), 2**20)
            if not more or len(found) > LONGEST_LINE:
                raise _Gone(_ENDED if not more else "its answer is too long")
            found += more
    return bytes(found)
