"""A document into a `PolicyText`, and every problem that the schema finds in it.

A problem has the path of the wrong value, and says what to write instead.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, TypeVar, cast, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from remediator.policy.budget import WRITTEN_AS
from remediator.policy.schema import PolicyText
from remediator.policy.section import REFUSED, Section, keys, show_value
from remediator.policy.yaml_document import Path, Problem

_SET_PER_CLASS = frozenset({"ceiling", "patient", "sticky"})


def validate(value: Any) -> tuple[PolicyText, list[Problem]]:
    """Read the keys at the top that are valid; return them and the problems of the others."""
    try:
        return PolicyText.model_validate(value), []
    except ValidationError as error:
        problems = [
            _problem(each) for each in error.errors(include_url=False, include_context=False)
        ]
    # The valid keys are read all the same: further checks then report all problems at once.
    wrong = {key for path, _ in problems for key in path[:1]}
    sound = {key: stated for key, stated in value.items() if key not in wrong} if wrong else {}
    return PolicyText.model_validate(sound), problems


def _problem(error: ErrorDetails) -> Problem:
    path, stated = error["loc"], error["input"]
    if error["type"] == REFUSED:
        return path, error["msg"]
    if error["type"] == "extra_forbidden":
        return path, _unknown_key(path[:-1], str(path[-1]))
    if error["type"] == "missing" or (stated is None and isinstance(path[-1], str)):
        _, field = _find_key(path)
        return path, f"is missing; write {field.title}" if field else "is missing"
    return path, f"{show_value(stated)} is {_expected(path)}"


def _expected(path: Path) -> str:
    """Return what a value of a wrong type should have been, as `not ...`."""
    section, field = _find_key(path)
    mapping = f"a mapping with any of {', '.join(keys(section))}" if section else ""
    if field is None or (section and isinstance(path[-1], int)):
        return f"not what belongs here; write {mapping}"
    title = field.title or ""
    if words := list(_parts(field.annotation, str)):
        word = title.split()[-1]
        article = "an" if word[0] in "aeiou" else "a"
        return f"not {article} {word}; one of {', '.join(words)}"
    return f"not {mapping if title == 'a mapping' and mapping else title}"


def _unknown_key(path: Path, key: str) -> str:
    section, _ = _find_key(path)
    known = keys(section or PolicyText)
    if path[-1:] == ("defaults",) and key in _SET_PER_CLASS:
        return f"{key} is set per class; each class has its own reason"
    near = get_close_matches(key, known, n=1)
    guess = f"; did you mean {near[0]}?" if near else "."
    return (
        f"no such key{guess} This version of Draguard knows {', '.join(known)} here, and refuses "
        "a file with keys of a newer one rather than obey it in part"
    )


def _find_key(path: Path) -> tuple[type[Section] | None, FieldInfo | None]:
    """Return the section of the schema at a path, if there is one, and the key that leads there."""
    section, field = cast("type[Section] | None", PolicyText), None
    for step in path:
        if isinstance(step, str) and section is not None:
            field = keys(section).get(step)
            section = _section_below(field) if field else None
    return section, field


def _section_below(field: FieldInfo) -> type[Section] | None:
    """Return the section that may be written for a key."""
    kinds = [WRITTEN_AS.get(kind, kind) for kind in _parts(field.annotation, type)]
    return next((kind for kind in kinds if issubclass(kind, Section)), None)


P = TypeVar("P")


def _parts(annotation: Any, kind: type[P]) -> Iterator[P]:
    """Yield the words or the sections in a type such as `tuple[Section, ...] | None`."""
    if isinstance(annotation, kind):
        yield annotation
    for part in get_args(annotation):
        yield from _parts(part, kind)
