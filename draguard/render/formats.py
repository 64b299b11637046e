"""A command's result into text, names, JSON or YAML, by `-o`: the only way to stdout.

JSON and YAML have one shape: `apiVersion`, `kind`, and the fields of the result, or `items`. They
are written in ASCII: what an object holds arrives whole in a program, and cannot reach a terminal
raw.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import cast

import msgspec
import yaml

from draguard.phrases import shown
from draguard.render.blocks import Block
from draguard.render.jsonpath import TemplateError, filled, template
from draguard.render.plain import plain

API = "cli.draguard.dev/v1alpha1"
"""Of results that are no stored objects."""
FORMATS = ("text", "wide", "name", "json", "yaml")
JSONPATH = "jsonpath="
MACHINE = ("json", "yaml", JSONPATH)
"""How the formats begin that print whole objects."""
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


def add_output_flag(parser: argparse.ArgumentParser, *, names: bool = False) -> None:
    """Add `-o`; `names`: the result has objects whose names can be printed."""
    formats = [each for each in FORMATS if names or each != "name"]

    def known(text: str) -> str:
        if text.startswith(JSONPATH):
            try:
                template(text.removeprefix(JSONPATH))
            except TemplateError as error:
                raise argparse.ArgumentTypeError(str(error)) from error
        elif text not in formats:
            choices = ", ".join([*formats, f"{JSONPATH}TEMPLATE"])
            raise argparse.ArgumentTypeError(f"invalid format {text!r}; choose from {choices}")
        return text

    parser.add_argument(
        "-o",
        "--output",
        type=known,
        default="text",
        metavar="FORMAT",
        help=f"{', '.join(formats)} or {JSONPATH}TEMPLATE [text]",
    )


def for_programs(output: str) -> bool:
    """Whether a format prints whole objects, and no text for people."""
    return output.startswith(MACHINE)


def print_result(
    found: object,
    output: str,
    in_words: Callable[[], Iterable[Block]],
    kind: str,
    names: Iterable[str] = (),
) -> None:
    """Print a result: as blocks, as names, or whole.

    `kind` is that of the result; `names` are `RESOURCE/NAME` of the objects in it.
    """
    if output == "name":
        sys.stdout.write("".join(f"{shown(name)}\n" for name in names))
    elif for_programs(output):
        sys.stdout.write(encoded(document(found, kind), output))
    elif sys.stdout.isatty() and find_spec("rich"):
        from draguard.render.terminal import show  # rich is not in the node's image

        show(in_words())
    else:
        sys.stdout.write(plain(in_words()))


def encoded(found: object, output: str) -> str:
    """Return msgspec structs, and what is made of them, as JSON, YAML or by a template."""
    content: object = msgspec.to_builtins(found)
    if output == "json":
        return json.dumps(content, indent=2) + "\n"
    if output == "yaml":
        return yaml.dump(content, Dumper=_Quoting, sort_keys=False, width=_WIDEST)
    text = filled(template(output.removeprefix(JSONPATH)), content)
    return text if text.endswith("\n") or not text else f"{text}\n"


def document(found: object, kind: str) -> dict[str, object]:
    """Return a result as one document; stored objects have their own apiVersion and kind."""
    content: object = msgspec.to_builtins(found)
    head = {"apiVersion": API, "kind": kind}
    if isinstance(content, dict):
        return {**head, **cast("dict[str, object]", content)}
    return {**head, "items": content}
