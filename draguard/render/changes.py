"""Results that are shown again when they have changed: for `-w`."""

import sys
from collections.abc import Callable, Iterable
from datetime import datetime

from draguard.phrases import stamp
from draguard.render.blocks import Block
from draguard.render.formats import for_programs, print_result


class Changes:
    """Prints a result the first time, and then whenever it differs from the one before."""

    def __init__(self, output: str, kind: str) -> None:
        self._output, self._kind = output, kind
        self._before: object = None

    def show(
        self,
        found: object,
        in_words: Callable[[], Iterable[Block]],
        at: datetime,
        *,
        apart: object = None,
    ) -> None:
        """Print a result; `apart` is what is compared, without ages and the like."""
        compared = found if apart is None else apart
        if self._before == compared:
            return
        if self._before is not None:
            sys.stdout.write(separator(self._output, at))
        self._before = compared
        print_result(found, self._output, in_words, self._kind)


def separator(output: str, at: datetime) -> str:
    """Return what stands between two results: nothing between documents of JSON."""
    if for_programs(output):
        return "---\n" if output == "yaml" else ""
    return f"\n--- {stamp(at)}\n"
