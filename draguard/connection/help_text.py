"""How `--help` is laid out: what a command is for, and examples that can be pasted."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple


class Example(NamedTuple):
    command: str
    says: str


def teaching(
    name: str, description: str, examples: Sequence[Example], *, more: str = ""
) -> argparse.ArgumentParser:
    """Return a parser for `draguard NAME` whose help ends with examples."""
    width = max(len(one.command) for one in examples)
    lines = [f"  {one.command:<{width}}  # {one.says}" for one in examples]
    return argparse.ArgumentParser(
        prog=f"draguard {name}",
        description=description,
        epilog="\n".join(["examples:", *lines, *(["", more] if more else [])]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
