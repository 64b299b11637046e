r"""`-o jsonpath=TEMPLATE`, as kubectl's: `{.items[*].metadata.name}`, ranges, filters. Pure.

Known: fields (`.a`, `['a']`), `[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..a`, `[?(@.a=="b")]` (also
!=, <, >, <=, >=, and `[?(@.a)]`), `{range P}...{end}`, `{"text"}` with `\n`
and `\t`, text between braces. What is not there prints nothing.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

import msgspec

from draguard.phrases import shown

_PART = re.compile(
    r"\{(?P<code>(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^{}\"'])*)\}|(?P<text>[^{}]+)"
)
_STEP = re.compile(
    r"\.\.(?P<deep>[\w-]+)"
    r"|\.?\[\?\(@(?P<of>[^=!<>)]*)(?:(?P<how>==|!=|<=|>=|<|>)(?P<than>[^)]*))?\)\]"
    r"|\.?\[(?P<all>\*)\]|\.(?P<every>\*)"
    r"|\.?\[(?P<first>-?\d*):(?P<last>-?\d*)\]"
    r"|\.?\[(?P<index>-?\d+)\]"
    r"|\.?\[(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\")\]"
    r"|\.(?P<name>(?:\\.|[\w/-])+)"
)
_COMPARE: Mapping[str, Callable[[object, object], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": cast("Callable[[object, object], bool]", operator.lt),
    ">": cast("Callable[[object, object], bool]", operator.gt),
    "<=": cast("Callable[[object, object], bool]", operator.le),
    ">=": cast("Callable[[object, object], bool]", operator.ge),
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class TemplateError(ValueError):
    """A template cannot be read; the message says which part."""


Step = Callable[[object], Iterator[object]]


class _Path(msgspec.Struct, frozen=True):
    steps: tuple[Step, ...]

    def of(self, value: object) -> list[object]:
        found = [value]
        for step in self.steps:
            found = [below for node in found for below in step(node)]
        return found


class _Range(msgspec.Struct, frozen=True):
    path: _Path
    body: "tuple[Part, ...]"


Part = str | _Path | _Range


def template(text: str) -> tuple[Part, ...]:
    """Read a template. Raises TemplateError."""
    parts: list[Part] = []
    ranges: list[tuple[_Path, list[Part]]] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise TemplateError(f"a brace is not closed at {text[at:]!r}")
        at = match.end()
        code, here = match["code"], ranges[-1][1] if ranges else parts
        if code is None:
            here.append(match["text"])
        elif code.strip().startswith("range "):
            ranges.append((_path(code.strip().removeprefix("range ").strip()), []))
        elif code.strip() == "end":
            if not ranges:
                raise TemplateError("{end} without {range}")
            path, body = ranges.pop()
            (ranges[-1][1] if ranges else parts).append(_Range(path, tuple(body)))
        elif code[:1] in {'"', "'"}:
            here.append(
                re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), code[1:-1])
            )
        else:
            here.append(_path(code.strip()))
    if ranges:
        raise TemplateError("{range} without {end}")
    return tuple(parts)


def filled(parts: Sequence[Part], value: object) -> str:
    """Return a template with the values of a document, those of one path with spaces between."""
    text: list[str] = []
    for part in parts:
        match part:
            case str():
                text.append(part)
            case _Path():
                text.append(" ".join(map(_printed, part.of(value))))
            case _Range(path, body):
                text += [filled(body, each) for each in path.of(value)]
    return "".join(text)


def _printed(value: object) -> str:
    if isinstance(value, str):
        return shown(value, len(value))
    return "" if value is None else json.dumps(value)


def _path(code: str) -> _Path:
    steps: list[Step] = []
    rest = code.removeprefix("$").removeprefix("@")
    if rest == ".":
        rest = ""
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    at = 0
    while at < len(rest):
        match = _STEP.match(rest, at)
        if match is None:
            raise TemplateError(f"cannot read {rest[at:]!r} in {{{code}}}")
        at = match.end()
        steps.append(_step(match))
    return _Path(tuple(steps))


def _step(match: re.Match[str]) -> Step:
    if match["deep"]:
        return lambda value: _deep(value, match["deep"])
    if match["of"] is not None:
        return _filter(match)
    if match["all"] or match["every"]:
        return _children
    if match["index"]:
        index = int(match["index"])
        return lambda value: iter(_list(value)[index:][:1] if -index <= len(_list(value)) else ())
    if match["first"] is not None:
        first, last = (int(match[name]) if match[name] else None for name in ("first", "last"))
        return lambda value: iter(_list(value)[first:last])
    quoted = match["single"] if match["single"] is not None else match["double"]
    name = quoted if quoted is not None else re.sub(r"\\(.)", r"\1", match["name"])
    return lambda value: _field(value, name)


def _filter(match: re.Match[str]) -> Step:
    path = _path(match["of"].strip())
    if match["how"] is None:
        return lambda value: (each for each in _children(value) if path.of(each))
    than, compare = _constant(match["than"].strip()), _COMPARE[match["how"]]

    def fits(value: object) -> bool:
        try:
            return any(compare(each, than) for each in path.of(value))
        except TypeError:
            return False

    return lambda value: (each for each in _children(value) if fits(each))


def _constant(text: str) -> object:
    if text[:1] in {"'", '"'} and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError as error:
        raise TemplateError(f"{text!r} is not a text in quotes, number, true or false") from error


def _list(value: object) -> list[object]:
    # Results are tuples, stored objects have lists.
    return list(cast("Iterable[object]", value)) if isinstance(value, list | tuple) else []


def _children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from cast("dict[str, object]", value).values()
    else:
        yield from _list(value)


def _field(value: object, name: str) -> Iterator[object]:
    if isinstance(value, dict) and name in value:
        yield cast("dict[str, object]", value)[name]


def _deep(value: object, name: str) -> Iterator[object]:
    yield from _field(value, name)
    for child in _children(value):
        yield from _deep(child, name)
