"""How `--help` is laid out: what a command is for, and examples that can be pasted."""

import argparse
import sys
from collections.abc import Sequence
from textwrap import fill
from typing import Any, NamedTuple, NoReturn, TypedDict

from draguard.program_name import program, spelled
from draguard.redaction import without_flag_values
from draguard.unknown_flags import in_words, unknown_flags

WIDTH = 79
"""Columns: help fits on the narrowest usual terminal."""


class Example(NamedTuple):
    command: str
    says: str


_SURPLUS = "unrecognized arguments: "
"""Words of `argparse` before what no flag and no positional takes."""


class Parser(argparse.ArgumentParser):
    """Says of an unknown flag which one was meant, and repeats no value: it may be a token."""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - one shape is enough
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        if unknown := unknown_flags(self, sys.argv[1:] if args is None else args):
            super().error(spelled(in_words(self, self._command, unknown)))
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        if message.startswith(_SURPLUS):
            message = (
                "there are more words than the command takes (not repeated: one may be secret): "
                f"`draguard help {self._command}` shows what it takes"
            )
        super().error(spelled(without_flag_values(message)))

    @property
    def _command(self) -> str:
        return self.prog.removeprefix(program()).strip()


class Taught(TypedDict):
    """Settings of an `ArgumentParser`."""

    description: str
    epilog: str
    formatter_class: type[argparse.RawDescriptionHelpFormatter]
    allow_abbrev: bool


def teaching(
    name: str, description: str, examples: Sequence[Example], *, more: str = ""
) -> argparse.ArgumentParser:
    """Return a parser for `draguard NAME` whose help ends with examples."""
    return Parser(prog=f"{program()} {name}", **taught(description, examples, more=more))


def taught(description: str, examples: Sequence[Example], *, more: str = "") -> Taught:
    """Return what makes a parser's help begin with its purpose and end with examples."""
    lines = [f"  # {example.says}\n  {spelled(example.command)}" for example in examples]
    return Taught(
        description=_filled(spelled(description)),
        epilog="\n".join(["examples:", *lines, *(["", _filled(spelled(more))] if more else [])]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _filled(text: str) -> str:
    return fill(" ".join(text.split()), WIDTH, break_on_hyphens=False)
