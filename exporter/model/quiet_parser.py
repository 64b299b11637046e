"""A parser of flags whose errors repeat no value that it does not know: it may be a token. Pure.

Logs of a pod that does not start are read, and pasted into tickets, by many.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

_NAME = re.compile(r"-[A-Za-z]|--[A-Za-z][A-Za-z_-]*")
"""Of a flag as one types it; a password may begin with a dash, too."""
_SURPLUS = "unrecognized arguments: "
_POSITIONAL = re.compile(r"(argument [a-z]+: invalid choice): .* (\(choose from .*\))", re.DOTALL)
_NOT_REPEATED = "(values are not repeated: one may be secret)"


class QuietParser(argparse.ArgumentParser):
    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - one shape is enough
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        # First: `--token VALUE` would else be an error about VALUE.
        names = [word.partition("=")[0] for word in (sys.argv[1:] if args is None else args)]
        unknown = [
            name
            for name in dict.fromkeys(names)
            if _NAME.fullmatch(name) and name not in self._option_string_actions
        ]
        if unknown:
            super().error(f"{_SURPLUS}{', '.join(unknown)} {_NOT_REPEATED}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        if message.startswith(_SURPLUS):
            message = f"there are words that no flag takes {_NOT_REPEATED}"
        super().error(_POSITIONAL.sub(r"\1 \2", message))
