"""The progress of a long command: one line on a terminal at stderr, cleared at the end."""

import sys
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self

PATIENCE = 1.0
"""Seconds before the first line: most commands are done by then."""
_CLEARED = "\r\x1b[K"


class Progress:
    """Open it with `with`; in a pipe or a file it prints nothing."""

    def __init__(self) -> None:
        self._from = monotonic() + PATIENCE
        self._shown = False
        self._writing = Lock()
        """Lists are read side by side."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            print(_CLEARED, end="", file=sys.stderr, flush=True)

    def says(self, text: str) -> None:
        """Print what is done now, in place of the line before."""
        if monotonic() < self._from or not sys.stderr.isatty():
            return
        with self._writing:
            self._shown = True
            print(f"{_CLEARED}{text} ...", end="", file=sys.stderr, flush=True)

    def read(self, collection: str, here: int, there: int) -> None:
        """Say how much of a collection has been read; `there` 0 before anything is known."""
        self.says(f"reading {collection}" + (f": {here:,} of {there:,}" if there else ""))
