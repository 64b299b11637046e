"""The parsers of all commands, and their flags: to complete a word, and to explain an unknown flag.

Only the modules of the commands that are looked at are imported.
"""

import argparse
import importlib
from collections.abc import Iterator
from typing import cast

from draguard.command_table import CLI, COMMANDS

HIDDEN = frozenset({"__complete", "exporter", "remediator", "explainer"})
"""Commands that are no words of a user, or have parsers of other parts."""


def parser_of(command: str) -> argparse.ArgumentParser:
    row = COMMANDS[command]
    module = importlib.import_module(row.module)
    return cast("argparse.ArgumentParser", getattr(module, row.parser)())


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in actions(parser):
        choices: object = action.choices
        if isinstance(choices, dict):
            return cast("dict[str, argparse.ArgumentParser]", choices)
    return {}


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the positionals and flags that help shows."""
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]  # noqa: SLF001 - argparse has no other list of them


def flags_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {flag: action for action in actions(parser) for flag in action.option_strings}


def every_parser() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Give each command and its parser; of a command with subcommands, theirs."""
    for command, row in COMMANDS.items():
        if command in HIDDEN or row.extra != CLI:
            continue
        parser = parser_of(command)
        nested = subcommands(parser)
        yield from ((f"{command} {name}", its) for name, its in nested.items())
        if not nested:
            yield command, parser
