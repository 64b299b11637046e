"""How `--help` is laid out: what a command is for, and examples that can be pasted."""

import argparse
from collections.abc import Sequence
from textwrap import fill
from typing import NamedTuple, NoReturn, TypedDict

from draguard.program_name import program, spelled
from draguard.redaction import without_flag_values

WIDTH = 79
"""Columns: help fits on the narrowest usual terminal."""


class Example(NamedTuple):
    command: str
    says: str


class Parser(argparse.ArgumentParser):
    """Repeats no token in a usage error: of a mistyped flag, argparse repeats the value, too."""

    def error(self, message: str) -> NoReturn:
        super().error(without_flag_values(message))


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
