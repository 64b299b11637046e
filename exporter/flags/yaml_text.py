"""YAML text into plain nodes that know their line: the one door to YAML here.

Reads what Go's yaml.v3 reads of a configuration: one document, of mappings with texts as keys,
lists and scalars, with anchors and merge keys. Whatever is wrong with a text is a YamlError with
its line; no error of the library gets out. Bounded in bytes, depth and nodes, each alias counted
as all that it stands for. Pure.
"""
# pyright: basic
# PyYAML's events carry no types.

from collections.abc import Mapping, Sequence

import msgspec
import yaml

MAX_BYTES = 256 << 10
MOST_NODES = 50_000
"""Ten times what a file that names every field has."""
DEEPEST = 32
_CORE = "tag:yaml.org,2002:"
_TAGS = frozenset(
    {None, "!", *(f"{_CORE}{name}" for name in ("str", "int", "bool", "null", "map", "seq"))}
)
_MERGE = "<<"
_FOREIGN = (
    yaml.YAMLError,
    # What PyYAML lets through of escapes that are no characters.
    ValueError,
    OverflowError,
    RecursionError,
    LookupError,
    AttributeError,
    TypeError,
)


class YamlError(Exception):
    """A text that cannot be used; the message begins with the line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class Node(msgspec.Struct, frozen=True):
    """A scalar's text, a list or a mapping, and the line on which it begins, from 1."""

    line: int
    value: "str | Sequence[Node] | Mapping[str, Node] | None"
    """None: null, or nothing at all."""
    size: int = 1
    """Nodes in it, itself too."""


class _Open:
    """A list or a mapping that is not closed yet."""

    def __init__(self, line: int, anchor: str | None, *, mapping: bool) -> None:
        self.line = line
        self.anchor = anchor
        self.mapping = mapping
        self.size = 1
        self.items: list[Node] = []
        self.entries: dict[str, Node] = {}
        self.merged: dict[str, Node] = {}
        self.key: Node | None = None


def read(data: bytes) -> Node:
    """Return the one document of a text; raises YamlError."""
    if len(data) > MAX_BYTES:
        raise YamlError(1, f"the file is larger than {MAX_BYTES} bytes; is it a configuration?")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise YamlError(line, "this is not UTF-8 text; save the file as UTF-8") from None
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        return _Builder().built(loader)
    except _FOREIGN as error:
        raise _in_our_words(error, text, loader) from None


def _in_our_words(error: Exception, text: str, loader: "yaml.SafeLoader | None") -> YamlError:
    """Put an error of the library into words of ours."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        return YamlError(line, f"this is not YAML: {error.problem or error.context}")
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return YamlError(line, f"this is not YAML: {error.reason}")
    line = loader.get_mark().line + 1 if loader else 1
    return YamlError(line, f"this is not YAML: {type(error).__name__}")


class _Builder:
    def __init__(self) -> None:
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._document: Node | None = None

    def built(self, loader: yaml.SafeLoader) -> Node:
        while loader.check_event():
            event: yaml.Event = loader.get_event()
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.DocumentStartEvent) and self._document is not None:
                raise YamlError(line, "a second document begins here; keep one")
            if isinstance(event, yaml.AliasEvent):
                found = self._anchors.get(event.anchor or "")
                if found is None:
                    raise YamlError(
                        line, f"the alias *{event.anchor} has no complete anchor before it"
                    )
                self._add(found, line)
            elif isinstance(event, yaml.ScalarEvent):
                self._add(self._scalar(line, event), line, event.anchor)
            elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
                self._check_tag(line, event.tag)
                if len(self._stack) >= DEEPEST:
                    raise YamlError(line, f"this is nested deeper than {DEEPEST} levels")
                mapping = isinstance(event, yaml.MappingStartEvent)
                self._stack.append(_Open(line, event.anchor, mapping=mapping))
            elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
                done = self._stack.pop()
                value = {**done.merged, **done.entries} if done.mapping else done.items
                self._add(Node(done.line, value, done.size), done.line, done.anchor)
        if self._document is None:
            raise YamlError(1, "the file is empty; write at least `version: 2`")
        return self._document

    def _scalar(self, line: int, event: yaml.ScalarEvent) -> Node:
        self._check_tag(line, event.tag)
        for mark in event.value:
            if mark == "\0" or "\ud800" <= mark <= "\udfff":
                raise YamlError(line, f"a text may not have the character U+{ord(mark):04X}")
        empty = event.implicit[0] and event.value in ("", "~", "null", "Null", "NULL")
        return Node(line, None if empty else event.value)

    def _check_tag(self, line: int, tag: str | None) -> None:
        if tag not in _TAGS:
            raise YamlError(line, f"the tag {tag} is not read here; remove it")

    def _add(self, node: Node, line: int, anchor: str | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._stack:
            self._document = node
            return
        parent = self._stack[-1]
        parent.size += node.size
        if parent.size > MOST_NODES:
            raise YamlError(line, f"the file expands to more than {MOST_NODES} values")
        if not parent.mapping:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            key, parent.key = parent.key, None
            _enter(parent, key, node)


def _enter(parent: _Open, key: Node, node: Node) -> None:
    name = "null" if key.value is None else key.value
    if not isinstance(name, str):
        raise YamlError(key.line, "a key must be a plain text, not a list or a mapping")
    if name == _MERGE:
        sources = node.value if isinstance(node.value, list) else [node]
        for source in sources:
            if not isinstance(source.value, dict):
                raise YamlError(key.line, "only mappings can be merged with <<")
            for name, value in source.value.items():
                parent.merged.setdefault(name, value)
        return
    if name in parent.entries:
        raise YamlError(
            key.line,
            f"the key {name!r} comes twice; its first value is on line {parent.entries[name].line}",
        )
    parent.entries[name] = node
