"""A YAML text into plain values and their lines. Only this module of the policy imports pyyaml.

It reads YAML 1.2's core schema, where `off`, `22:30` and a date are texts. By itself pyyaml reads
YAML 1.1, where these are False, 1350 and a datetime. A policy does not need aliases (a few lines of
them grow to gigabytes), tags, duplicate keys, deep nesting or a very large file. A hostile or
careless file may have them, so they are refused.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec
import yaml
from yaml.composer import ComposerError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from remediator.policy.error import PolicyError

LARGEST = 256 << 10
"""Bytes: a policy with thousands of exempt devices; pyyaml reads it in seconds."""
DEEPEST = 16
_TAG = "tag:yaml.org,2002:"

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the document to a value."""
Problem = tuple[Path, str]
"""Where something is wrong; what it is, and what to write."""


class Document(msgspec.Struct, frozen=True):
    """`value`: dicts, lists, text, numbers, booleans and None."""

    value: Any
    lines: dict[Path, int]
    """Line of each key and of each list item, from 1."""

    def line(self, path: Path) -> int:
        """Return the line of a value, or of the nearest key or list item around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def describe(self, problems: Iterable[Problem]) -> tuple[str, ...]:
        """Return problems as sentences, each once, in the order of their lines."""
        found = sorted((self.line(path), self._place(path), why) for path, why in problems)
        reported = (
            f"line {line}: {f'{place}: ' if place else ''}{why}" for line, place, why in found
        )
        return tuple(dict.fromkeys(reported))

    def _place(self, path: Path) -> str:
        if path and isinstance(path[-1], int) and path not in self.lines:
            path = path[:-1]  # a single value in place of a list
        return dotted_path(path)


def compose(text: str | bytes) -> Document:
    """Read one YAML document. Raises PolicyError, also for a text that says nothing."""
    if len(text) > LARGEST:
        raise PolicyError(f"the file is larger than {LARGEST >> 10} KiB; no policy needs that")
    if isinstance(text, str):
        characters = text
    else:
        try:
            characters = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = text[: error.start].count(b"\n") + 1
            raise PolicyError(f"line {line}: no UTF-8; save the file as UTF-8") from error
    root = _root(characters)
    lines: dict[Path, int] = {}
    value = _value(root, (), lines) if root is not None else None
    if value is None:
        # An editor or a full disk may leave such a file. As a policy it would untaint every device.
        raise PolicyError(
            "line 1: the file says nothing; for the shipped policy, in which every class is "
            "incident-only, write {}"
        )
    return Document(value, lines)


def _root(text: str) -> Node | None:
    try:
        loader = _Loader(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        why = f"not YAML: the character U+{error.character:04X} is not allowed"
        raise PolicyError(f"line {line}: {why}") from error
    try:
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        stated = ", ".join(part for part in (error.context, error.problem) if part)
        raise PolicyError(f"{where}not YAML: {stated}") from error
    except (ValueError, OverflowError, RecursionError) as error:  # escapes that are no characters
        raise PolicyError(f"line {loader.line + 1}: not YAML: {error}") from error


class _Loader(yaml.BaseLoader):
    """pyyaml's stages up to nodes, with the resolvers below."""

    _depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            self._refuse("aliases are not read; write it out")
        if self._depth >= DEEPEST:
            self._refuse(f"nested deeper than {DEEPEST} levels")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def _refuse(self, why: str) -> None:
        event = cast("yaml.Event", self.peek_event())  # pyright: ignore[reportUnknownMemberType] - untyped stub
        raise ComposerError(None, None, why, cast("yaml.Mark", event.start_mark))


def _whole_number(text: str) -> int:
    return int(text, 8) if text.startswith("0o") else int(text, 16 if text[:2] == "0x" else 10)


_SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", lambda _: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", _whole_number),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
}
"""Plain words that are no text (YAML 1.2.2, section 10.3.2): form and meaning."""

for _name, (_form, _) in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_form})\\Z"), None)  # pyright: ignore[reportUnknownMemberType] - untyped stub


def _value(node: Node, path: Path, lines: dict[Path, int]) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    kind = node.tag.removeprefix(_TAG)
    if isinstance(node, MappingNode) and kind == "map":
        return _mapping(node, path, lines)
    if isinstance(node, SequenceNode) and kind == "seq":
        return [_value(element, (*path, index), lines) for index, element in enumerate(node.value)]
    if isinstance(node, ScalarNode) and kind == "str":
        return _whole_characters(node)
    if isinstance(node, ScalarNode) and kind in _SCALARS:
        try:
            return _SCALARS[kind][1](node.value)
        except ValueError as error:
            why = f"a number of {len(node.value)} digits is too long"
            raise PolicyError(f"line {lines[path]}: {why}") from error
    raise PolicyError(f"line {lines[path]}: the tag {node.tag} is not read; remove it")


def _mapping(node: MappingNode, path: Path, lines: dict[Path, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, content in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, ScalarNode):
            raise PolicyError(f"line {line}: a key is a word, not a list or a mapping")
        here = (*path, _whole_characters(key))
        if key.value in found:
            raise PolicyError(
                f"line {line}: {dotted_path(here)} is written twice, first on line {lines[here]}; "
                "keep one of them"
            )
        lines[here] = line
        found[key.value] = _value(content, here, lines)
    return found


def _whole_characters(node: ScalarNode) -> str:
    text = cast("str", node.value)
    if any("\ud800" <= mark <= "\udfff" for mark in text):
        line = node.start_mark.line + 1
        raise PolicyError(f"line {line}: {text!a} has half a character; write it whole")
    return text


def dotted_path(path: Path) -> str:
    """Return a path as users write it: `overrides[2].classes.gpu`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
