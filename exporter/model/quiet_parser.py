"""A parser of flags whose errors repeat no value that it does not know: it may be a token. Pure.

Logs of a pod that does not start are read, and pasted into tickets, by many.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

import msgspec

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


def add_flags(parser: argparse.ArgumentParser, standard: msgspec.Struct) -> None:
    """Add a flag for each field of settings, of the same name; `standard` has the defaults.

    A field is annotated with its type and its description (msgspec.Meta), which is the help text.
    """
    for name, hint in get_type_hints(type(standard), include_extras=True).items():
        kind, meta = get_args(hint)
        flag, default = f"--{name.replace('_', '-')}", getattr(standard, name)
        if kind is bool:
            switch = argparse.BooleanOptionalAction
            parser.add_argument(flag, action=switch, default=default, help=meta.description)
            continue
        choices = get_args(kind) if get_origin(kind) is Literal else None
        read = next(iter(get_args(kind)), kind) if choices is None else str
        text = f"{meta.description} [{default}]"
        parser.add_argument(flag, type=read, choices=choices, default=default, help=text)
