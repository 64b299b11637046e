"""`-o text|json|yaml`, the same for every command: the one way out of what a command found.

JSON and YAML are written in ASCII: what an object holds arrives whole in a
program, and cannot reach a terminal raw.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec

import msgspec
import yaml

from draguard.output.plain import plain
from draguard.output.sheet import Block

FORMATS = ("text", "json", "yaml")
_WIDEST = 1 << 30


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="text",
        help="text for people, json or yaml for programs [text]",
    )


def give(found: object, output: str, in_words: Callable[[], Iterable[Block]]) -> None:
    """Print what was found: as blocks for people, or as it is."""
    if output != "text":
        sys.stdout.write(encoded(found, output))
    elif sys.stdout.isatty() and find_spec("rich"):
        from draguard.output.terminal import show  # rich is not in the node's image

        show(in_words())
    else:
        sys.stdout.write(plain(in_words()))


def encoded(found: object, output: str) -> str:
    """Return msgspec structs, and what is made of them, as JSON or YAML."""
    content: object = msgspec.to_builtins(found)
    if output == "json":
        return json.dumps(content, indent=2) + "\n"
    return yaml.safe_dump(content, sort_keys=False, width=_WIDEST)
