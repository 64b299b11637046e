"""dcgm-exporter's YAML file (`--config-file`, schemas 1 and 2 of 4.8.4) into settings of ours.

A file that its own program would refuse as a whole is refused here with file and line; a key that
means nothing here is passed over and reported. There is one interval for all fields: the shortest
one that is requested, so that nothing is older than requested. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from exporter.flags.dcgm_exporter_keys import KEYS, Key
from exporter.flags.yaml_text import Node, YamlError, read
from exporter.model.given import Ignored, WrittenRow
from exporter.settings import SettingsError

MOST_REPORTED = 50
"""Keys without effect that are reported one by one."""


_LONGEST_PATH = 120
"""Letters of a key's path that are reported."""
_LAST_PORT = 65_535
_LONGEST = 86_400.0
"""Seconds of an interval."""


class Every(msgspec.Struct, frozen=True):
    """An interval that is requested."""

    path: str
    seconds: float
    whole: bool
    """Of all fields that no other one names."""


class FileSettings(msgspec.Struct, frozen=True):
    """What a file says."""

    given: Mapping[str, Any] = {}
    """Settings of ours by name."""
    rows: tuple[WrittenRow, ...] = ()
    intervals: tuple[Every, ...] = ()
    ignored: tuple[Ignored, ...] = ()


def parse(data: bytes, name: str) -> FileSettings:
    """Return what a file called `name` in messages says; raises SettingsError."""
    try:
        root = read(data)
        leaves = _Leaves(root)
        found = [ignored for leaf in leaves.all for ignored in _without_effect(leaf, name)]
        ignored = tuple(found[:MOST_REPORTED])
        if len(found) > MOST_REPORTED:
            message = f"{len(found) - MOST_REPORTED} more keys of {name} have no effect"
            ignored += (Ignored("file", "...", "Unknown", message),)
        return FileSettings(
            given=dict(_given(leaves)),
            rows=tuple(_rows(root)),
            intervals=tuple(_intervals(leaves)),
            ignored=ignored,
        )
    except YamlError as error:
        raise SettingsError(f"--config-file: {name}, {error}") from error


def one_interval(
    requested: Sequence[Every], outranked_by: float | None, usual: float
) -> tuple[float, tuple[Ignored, ...]]:
    """Return the interval in force, in seconds, and the requested ones that have no effect.

    `outranked_by` is what a flag or a variable sets for all fields, `usual` the default when
    nothing is set.
    """
    whole = [interval.seconds for interval in requested if interval.whole]
    parts = [interval for interval in requested if not interval.whole]
    if outranked_by is not None:
        found, judged = outranked_by, parts
    else:
        found = min((*(whole or (usual,)), *(interval.seconds for interval in parts)))
        judged = list(requested)
    vain = [interval for interval in judged if interval.seconds != found]
    ignored: list[Ignored] = []
    for interval in vain[:MOST_REPORTED]:
        message = (
            f"{interval.path} of dcgm-exporter's file requests {interval.seconds:g} s: all fields "
            f"are sampled at one interval here, which is {found:g} s; set it with --interval"
        )
        ignored.append(Ignored("file", interval.path, "OneInterval", message))
    return found, tuple(ignored)


class _Leaf(NamedTuple):
    path: str
    key: Key | None
    """None: no key of theirs that is known."""
    node: Node


class _Leaves:
    """Every value of a document with its key; where a key is not known, all that is below it."""

    def __init__(self, root: Node) -> None:
        node = _mapping(root, "the file").get("version")
        version = _words(_plain(node, "version")) if node else ""
        if version not in _VERSIONS:
            line = node.line if node else root.line
            raise YamlError(
                line, f"version must be 1 or 2{f', not {version!r:.80}' if version else ''}"
            )
        self.version = _VERSIONS[version]
        self._keys = {key.path: key for key in KEYS if self.version in key.versions}
        # The paths of all that a key is in.
        self._above: set[str] = set()
        for path in self._keys:
            for found in re.finditer(r"\[\]|\.", path):
                self._above.add(path[: found.start()])
                if found[0] == "[]":
                    self._above.add(path[: found.end()])
        self.all = tuple(self._below(root, "", ""))

    def get(self, path: str) -> Node | None:
        """Return the value of a key that no list is in, None for none."""
        found = next((leaf.node for leaf in self.all if leaf.path == path), None)
        return None if found is None or found.value is None else found

    def _below(self, node: Node, path: str, pattern: str) -> Iterator[_Leaf]:
        if pattern in self._keys:
            yield _Leaf(path, self._keys[pattern], _plain(node, path))
        elif node.value is None and pattern:
            return
        elif f"{pattern}[]" in self._above or f"{pattern}[]" in self._keys:
            for number, entry in enumerate(_entries(node, path)):
                yield from self._below(entry, f"{path}[{number}]", f"{pattern}[]")
        else:
            for name, value in _mapping(node, path).items():
                below = f"{pattern}.{name}" if pattern else name
                where = f"{path}.{name}" if path else name
                if below in self._keys or below in self._above:
                    yield from self._below(value, where, below)
                else:
                    yield _Leaf(where, None, value)


_VERSIONS = {"1": 1, "2": 2}


def _given(leaves: _Leaves) -> Iterator[tuple[str, Any]]:
    if (file := leaves.get("metrics.file")) and _words(file):
        yield "collectors", Path(_words(file))
    if (address := leaves.get("server.address")) and _words(address):
        text = _words(address)
        port = re.fullmatch(r"\S*:([0-9]{1,5})", text)
        if port is None or int(port[1]) > _LAST_PORT:
            raise YamlError(
                address.line, f"server.address must be host:port or :port, not {text!r:.80}"
            )
        yield "listen", text
    if scrapes := leaves.get("server.maxConcurrentScrapes"):
        text = str(scrapes.value)
        if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
            raise YamlError(
                scrapes.line,
                f"server.maxConcurrentScrapes must be a number above 0, not {text!r:.80}",
            )
        yield "max_scrapes", int(text)


def _rows(root: Node) -> Iterator[WrittenRow]:
    metrics = _mapping(root, "the file").get("metrics")
    if metrics is None or metrics.value is None:
        return
    found = _mapping(metrics, "metrics")
    fields, file = found.get("fields"), found.get("file")
    if fields is None or fields.value is None:
        return
    if file is not None and file.value:
        raise YamlError(fields.line, "metrics has both file and fields; leave one of them")
    for number, entry in enumerate(_entries(fields, "metrics.fields")):
        row = _mapping(entry, f"metrics.fields[{number}]")
        words = (_words(row.get(name)) for name in ("name", "prometheusType", "help"))
        yield WrittenRow(entry.line, *words)


def _words(node: Node | None) -> str:
    """Return a text on one line, as a counters file would have it."""
    return " ".join(str(node.value).split()) if node and node.value is not None else ""


def _intervals(leaves: _Leaves) -> Iterator[Every]:
    """Give each interval; those of collections with what they are of."""
    chosen: dict[str, list[str]] = {}
    for leaf in leaves.all:
        if leaf.key and leaf.key.path == "collections[].metrics.include[]":
            collection = leaf.path.partition(".")[0]
            chosen.setdefault(collection, []).append(_words(leaf.node))
    for leaf in leaves.all:
        if leaf.key and leaf.key.meaning == "interval" and leaf.node.value is not None:
            collection = leaf.path.partition(".")[0]
            whole = leaf.path == "collection.interval" or chosen.get(collection) == ["*"]
            yield Every(leaf.path, _seconds(leaf.node, leaf.path), whole)


def _without_effect(leaf: _Leaf, name: str) -> Iterator[Ignored]:
    path = leaf.path[:_LONGEST_PATH]
    where = f"{path} on line {leaf.node.line} of {name}"
    if leaf.key is None:
        message = f"{where} is not a key of dcgm-exporter that is known here; it has no effect"
        yield Ignored("file", path, "Unknown", message)
    elif leaf.key.meaning == "not done" and leaf.node.value is not None:
        message = f"{where} has no meaning here: {leaf.key.text}"
        yield Ignored("file", path, "NotSupported", message)


_UNITS: Mapping[str, float] = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0,
}  # fmt: skip
_PART = rf"([0-9]{{1,15}}(?:\.[0-9]{{0,15}})?|\.[0-9]{{1,15}})({'|'.join(_UNITS)})"
_DURATION = re.compile(rf"\+?(?:{_PART})+")


def _seconds(node: Node, path: str) -> float:
    """Read one of Go's durations: numbers with units, such as 1m30s."""
    text = str(node.value).strip()
    if len(text) > 64 or not _DURATION.fullmatch(text):
        raise YamlError(node.line, f"{path} must be a duration such as 30s or 5m, not {text!r:.80}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))
    if seconds < 0.001 or abs(seconds * 1000 - round(seconds * 1000)) > 1e-6 * seconds * 1000:
        raise YamlError(node.line, f"{path} must be whole milliseconds and not 0, not {text!r:.80}")
    if seconds > _LONGEST:
        raise YamlError(node.line, f"{path} must be 24h or less, not {text!r:.80}")
    return seconds


def _plain(node: Node, path: str) -> Node:
    if not isinstance(node.value, (str, type(None))):
        raise YamlError(node.line, f"{path} must be a plain value, not a list or a mapping")
    return node


def _entries(node: Node, path: str) -> Sequence[Node]:
    if isinstance(node.value, (Mapping, str)) or node.value is None:
        raise YamlError(node.line, f"{path} must be a list")
    return node.value


def _mapping(node: Node, path: str) -> Mapping[str, Node]:
    if not isinstance(node.value, Mapping):
        raise YamlError(node.line, f"{path} must be a mapping of keys to values")
    return node.value
