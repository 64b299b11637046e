"""A flag that a command does not have, into a sentence: which one was meant, or whose it is.

No value is repeated: that of a mistyped flag may be a token. Pure, but for importing the commands.
"""

import argparse
import re
from collections.abc import Collection, Iterable

from draguard.grammar import GLOBAL, SWITCHES
from draguard.parsers import every_parser, flags_of, subcommands
from draguard.phrases import did_you_mean

_NAME = re.compile(r"-[A-Za-z]|--[A-Za-z][A-Za-z_-]*")
"""Of a flag as one types it; a password may begin with a dash, too."""
_MEANT = {
    **dict.fromkeys(("--why", "--message", "--comment", "-m"), "--reason"),
    **dict.fromkeys(("--for", "--duration", "--ttl"), "--until"),
    **dict.fromkeys(("--force", "-y", "-f"), "--yes"),
    **dict.fromkeys(("--nodes", "--node-name"), "--node"),
}
"""Words of other programs and of the policy file for a flag."""
_OF_CLUSTER = "the commands that read a cluster"


def unknown_flags(parser: argparse.ArgumentParser, words: Iterable[str]) -> list[str]:
    """Return the flags among a command's words that it does not have, without their values."""
    known, nested = {*flags_of(parser), *parser._option_string_actions}, subcommands(parser)  # noqa: SLF001 - hidden flags, too
    found: dict[str, None] = {}
    for word in words:
        if word == "--" or word in nested:
            break
        name = word.partition("=")[0]
        if _MEANT.get(name[:2]) in known:
            name = name[:2]  # `-mTEXT`: the flag and its value in one word
        if _NAME.fullmatch(name) and name not in known:
            found[name] = None
    return list(found)


def in_words(parser: argparse.ArgumentParser, command: str, unknown: Iterable[str]) -> str:
    """Return one sentence for each unknown flag of a command."""
    known = flags_of(parser)
    return "; ".join(_sentence(flag, command, known) for flag in unknown)


def _sentence(flag: str, command: str, known: Collection[str]) -> str:
    not_here, leave = "not of this command", "leave it out"
    hint = f"{leave} (`draguard help {command}` lists its flags)"
    usual = flag.lower().replace("_", "-")
    if (meant := usual if usual in known else _MEANT.get(flag)) in known:
        return f"{flag} is not a flag of this command: write {meant}"
    owners = [name for name, parser in every_parser() if flag in flags_of(parser)]
    owners = [_OF_CLUSTER] if flag in (*GLOBAL, *SWITCHES) else owners
    if owners:
        return f"{flag} is a flag of {', '.join(owners)}, {not_here}: {hint}"
    near = did_you_mean(flag, known) if flag.startswith("--") else ""
    return f"{flag} is not a flag of this command{near or f': {hint}'}"
