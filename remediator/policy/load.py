"""A policy file's text into a `Policy`, or every problem in it with its line.

The meaning of a line depends on other lines, such as the `settle` and the `soak` of two overrides
that apply to the same GPU. So a file is read as a whole or not at all: a part of it is not the
policy that the administrator wrote.
"""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import cast

from remediator.policy import changes, yaml_document
from remediator.policy.budget import BudgetText, limits_of
from remediator.policy.contradictions import contradictions
from remediator.policy.error import PolicyError
from remediator.policy.place import Area
from remediator.policy.schema import ExemptText, PolicyText, WindowText
from remediator.policy.table import SHIPPED, Override, Policy, Row
from remediator.policy.validation import validate
from remediator.policy.windows import Exemption, Once, Weekly, Window, moment
from remediator.policy.yaml_document import Path, Problem, dotted_path

LARGEST = yaml_document.LARGEST
_MOST = 50
"""Problems that are reported; a file with more is probably no policy."""


def read(text: str | bytes) -> Policy:
    """Read a policy. Raises PolicyError with every problem: its line, and what to write."""
    whole = yaml_document.compose(text)
    stated, problems = validate(whole.value)
    problems += contradictions(whole.value)
    problems += _find_reversed(stated, whole.lines)
    # A key without a value is no second problem in or around one that is reported.
    reported = {path for path, _ in problems}
    problems += [
        (path, why)
        for path, why in _find_empty_keys(whole.value)
        if not reported & {path[:size] for size in range(len(path) + 1)}
    ]
    if problems:
        raise PolicyError(*whole.describe(problems)[:_MOST])
    return _policy(stated)


def written_keys(text: str | bytes) -> frozenset[str]:
    """Return the keys at the top of a policy file. Raises PolicyError if it cannot be read."""
    value = cast("dict[str, object]", yaml_document.compose(text).value)
    return frozenset(value)


def _find_empty_keys(value: object, path: Path = ()) -> Iterator[Problem]:
    """Yield the keys without a value, as in a file that was cut off or not filled in.

    If they counted as absent, devices might be untainted, or an emergency stop be ignored.
    """
    if isinstance(value, dict):
        for key, below in cast("dict[str, object]", value).items():
            if below is None:
                yield (*path, key), "has no value; write one, or remove the key"
            yield from _find_empty_keys(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(cast("list[object]", value)):
            yield from _find_empty_keys(below, (*path, index))


def _find_reversed(stated: PolicyText, written: Collection[Path]) -> Iterator[Problem]:
    """Yield windows that end before they begin, and soaks that end before their settle time."""
    for index, window in enumerate(stated.maintenance or ()):
        if window.from_ and window.until and window.until <= window.from_:
            why = f"{moment(window.until)} is not after from ({moment(window.from_)})"
            yield ("maintenance", index, "until"), why
    yield from changes.soaks_too_short(
        changes.changes(stated.defaults, stated.classes), _overrides(stated), written
    )


def _policy(stated: PolicyText) -> Policy:
    stop, stopped = stated.emergency_stop, ""
    if stop is not None:
        stopped = f"{stop.by}, in the policy file: {stop.why}" if stop.by else "the policy file"
    return Policy(
        rows=_rows(stated),
        limits=limits_of(stated.budget or BudgetText()),
        overrides=tuple(_overrides(stated)),
        maintenance=tuple(map(_window, stated.maintenance or ())),
        exempt=tuple(
            _exemption(text, dotted_path(("exempt", index)))
            for index, text in enumerate(stated.exempt or ())
        ),
        stopped=stopped,
    )


def _rows(stated: PolicyText) -> tuple[Row, ...]:
    """Return the rows that hold outside overrides."""
    base = changes.changes(stated.defaults, stated.classes)
    return tuple(
        base[row.fault_class].apply_to(
            row, changes.changed_by(row.fault_class, stated.defaults, stated.classes)
        )
        if row.fault_class in base
        else row
        for row in SHIPPED
    )


def _overrides(stated: PolicyText) -> list[Override]:
    return [
        changes.override(override, dotted_path(("overrides", index)))
        for index, override in enumerate(stated.overrides or ())
    ]


def _window(stated: WindowText) -> Window:
    area = Area(nodes=stated.nodes or (), pools=stated.pools or ())
    if stated.weekly is None:  # with both moments, or it would have been refused
        once = Once(cast("datetime", stated.from_), cast("datetime", stated.until))
        return Window(name=stated.name, area=area, when=once)
    weekly = stated.weekly
    when = Weekly(
        day=weekly.day, start=weekly.start, duration=weekly.duration, zone=weekly.timezone or UTC
    )
    return Window(name=stated.name, area=area, when=when)


def _exemption(stated: ExemptText, name: str) -> Exemption:
    area = Area(
        nodes=stated.nodes or (), pools=stated.pools or (), devices=frozenset(stated.devices or ())
    )
    return Exemption(name=name, area=area, why=stated.why, until=stated.until)
