"""A command's result into text, JSON or YAML, by `-o`: the only way to stdout.

JSON and YAML are written in ASCII: programs read the whole content of an object, and
no raw control character in it reaches a terminal.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec

import msgspec
import yaml

from draguard.render.blocks import Block
from draguard.render.plain import plain

FORMATS = ("text", "json", "yaml")
_READ_OTHERWISE = re.compile(r"[-+.0-9].*|[yn]", re.IGNORECASE | re.DOTALL)
"""Text that another reader of YAML may take for a number or a truth value: `1e3` is text to the
library here and a number to YAML 1.2, and `y` is true to readers of YAML 1.1."""
_WIDEST = 1 << 30


class _Quoting(yaml.SafeDumper):
    """Quotes text that some YAML readers would read as a number or a boolean."""


def _text(dumper: _Quoting, text: str) -> yaml.ScalarNode:
    style = "'" if _READ_OTHERWISE.fullmatch(text) else None
    tag = "tag:yaml.org,2002:str"
    return dumper.represent_scalar(tag, text, style)  # pyright: ignore[reportUnknownMemberType] - PyYAML's stubs


_Quoting.add_representer(str, _text)


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="text",
        help="output format [text]",
    )


def print_result(found: object, output: str, in_words: Callable[[], Iterable[Block]]) -> None:
    """Print a result: as blocks, or its fields as JSON or YAML."""
    if output != "text":
        sys.stdout.write(encoded(found, output))
    elif sys.stdout.isatty() and find_spec("rich"):
        from draguard.render.terminal import show  # rich is not in the node's image

        show(in_words())
    else:
        sys.stdout.write(plain(in_words()))


def encoded(found: object, output: str) -> str:
    """Return msgspec structs, and what is made of them, as JSON or YAML."""
    content: object = msgspec.to_builtins(found)
    if output == "json":
        return json.dumps(content, indent=2) + "\n"
    return yaml.dump(content, Dumper=_Quoting, sort_keys=False, width=_WIDEST)
