"""Whether a document has the shape of the schema; every misfit with its line and a remedy.

msgspec tells of one misfit at a time. What it tells of is cut out and the rest
is looked at again, so that a person sees all of them at once.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from difflib import get_close_matches
from typing import Any, cast

import msgspec
from msgspec import inspect

from remediator.policy.document import Document, Path, dotted
from remediator.policy.error import PolicyError
from remediator.policy.schema import PolicyText
from remediator.policy.table import CEILINGS, FOR_EXTENDED, MODES, THENS

_MOST = 50
"""Misfits that are told; whoever made more has mistaken the file."""
_AT = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_UNKNOWN = "Object contains unknown field"
_WORDS: tuple[str, ...] = tuple(dict.fromkeys((*MODES, *CEILINGS, *THENS, *FOR_EXTENDED)))
"""Every word that a key may ask for, in the order in which they are told."""
_SAID_PER_CLASS = frozenset({"ceiling", "patient", "sticky"})


class Field(msgspec.Struct, frozen=True):
    """What the schema says of one key."""

    title: str
    meaning: str
    values: tuple[str, ...]
    """The words that may be written there; () for free ones."""


def shaped(document: Document) -> PolicyText:
    """Return a document as the schema reads it. Raises PolicyError with every misfit."""
    rest, problems = deepcopy(document.value), list[str]()
    said: PolicyText | None = None
    while said is None and len(problems) < _MOST:
        try:
            said = msgspec.convert(rest, PolicyText)
        except msgspec.ValidationError as error:
            path, why = _misfit(str(error), rest)
            problems.append(told(document, path, why))
            if not _cut(rest, path):
                break
    if said is None or problems:
        raise PolicyError(*problems)
    return said


def told(document: Document, path: Path, why: str) -> str:
    """Return a problem in the form of all: line, path, reason."""
    where = dotted(path)
    return f"line {document.line(path)}: {f'{where}: ' if where else ''}{why}"


def _misfit(message: str, value: Any) -> tuple[Path, str]:
    at = _AT.search(message)
    steps = cast("list[tuple[str, str]]", _STEP.findall(at[1])) if at else []
    path: Path = tuple(int(index) if index else key for key, index in steps)
    found, field = _written(value, path), field_at(path)
    if message.startswith(_UNKNOWN):
        key = next(one for one in found if one not in _keys(path))
        return (*path, key), _unknown(path, key)
    shown = _shown(found)
    if field is None:
        return path, f"{shown} is not what belongs here; write {_known(path) or 'a mapping'}"
    if field.values:
        return path, f"{shown} is no {field.title.split()[-1]}; one of {', '.join(field.values)}"
    return path, f"{shown} is not {field.title}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)


def _unknown(path: Path, key: str) -> str:
    known = _keys(path)
    if path[-1:] == ("defaults",) and key in _SAID_PER_CLASS:
        return f"{key} is set per class; each class has its own reason"
    near = get_close_matches(key, known, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    return (
        f"no such key; {guess}This version of Draguard knows {', '.join(known)} here, and refuses "
        "a file with keys of a newer one rather than obey it in part"
    )


def _known(path: Path) -> str:
    keys = _keys(path)
    return f"a mapping with any of {', '.join(keys)}" if keys else ""


def _keys(path: Path) -> list[str]:
    kind = _type_at(path)
    if isinstance(kind, inspect.StructType):
        return [field.encode_name for field in kind.fields]
    return []


def field_at(path: Path) -> Field | None:
    """Return what the schema says of a key or of a word in its list, None for any other path."""
    if path and isinstance(path[-1], int):
        return None if _keys(path) else field_at(path[:-1])
    if not path:
        return None
    parent = _type_at(path[:-1])
    if not isinstance(parent, inspect.StructType):
        return None
    for field in parent.fields:
        if field.encode_name == path[-1] and isinstance(field.type, inspect.Metadata):
            described = cast("dict[str, str]", field.type.extra_json_schema)  # pyright: ignore[reportUnknownMemberType] - msgspec says dict
            literals = [one for one in _parts(field.type) if isinstance(one, inspect.LiteralType)]
            words = {value for one in literals for value in one.values}
            ordered = tuple(one for one in _WORDS if one in words)
            return Field(described["title"], described["description"], ordered)
    return None


def _type_at(path: Path) -> inspect.Type | None:
    kinds: list[inspect.Type] = [inspect.type_info(PolicyText)]
    for step in path:
        kinds = [one for kind in kinds for one in _below(kind, step)]
    return next((one for one in kinds if isinstance(one, inspect.StructType)), None)


def _below(kind: inspect.Type, step: str | int) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == step:
                yield from _parts(field.type)
    elif isinstance(kind, inspect.VarTupleType) and isinstance(step, int):
        yield from _parts(kind.item_type)


def _parts(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        yield from _parts(kind.type)
    elif isinstance(kind, inspect.UnionType):
        yield from kind.types
    else:
        yield kind


def _written(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _cut(value: Any, path: Path) -> bool:
    """Take a misfit out of a document; a list loses itself, so that no position moves."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    if not path:
        return False
    del _written(value, path[:-1])[path[-1]]
    return True
