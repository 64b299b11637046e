"""The words inside one setting of a scenario file: numbers, names, `a=1 b=2` lists.

Every refusal is a `LineError` with the same sentence as in `ini/scenario_settings.c`. Pure.
"""

import re
from collections.abc import Mapping, Sequence

from simulator import grammar
from simulator.gpu import Failure

_WORD = re.compile(r"[^ \t]+")


class LineError(Exception):
    """What is wrong with a line, and what to do."""


def plain_text(key: str, value: str) -> str:
    if not 1 <= len(value.encode()) <= grammar.MAX_TEXT:
        raise LineError(f"{key} must have 1 to {grammar.MAX_TEXT} characters")
    if any(not " " <= character <= "~" for character in value):
        raise LineError(f"{key} must be plain ASCII; remove other characters")
    return value


def whole(text: str, largest: int) -> int | None:
    """Return the number, None if it is not a whole number from 0 to `largest`."""
    if not 1 <= len(text) <= 19 or not set(text) <= set("0123456789"):
        return None
    return found if (found := int(text)) <= largest else None


def number(key: str, value: str, largest: int) -> int:
    found = whole(value, largest)
    if found is None:
        raise LineError(f'{key} must be a whole number from 0 to {largest}, not "{value}"')
    return found


def instance_id(key: str, value: str) -> int | None:
    return None if value == "none" else number(key, value, 127)


def reading(name: str, value: str, largest: int) -> int | None:
    """A number of a GPU; None for unsupported."""
    if value == grammar.UNSUPPORTED:
        return None
    found = whole(value, largest)
    if found is None:
        raise LineError(
            f"{name} must be a whole number from 0 to {largest} or "
            f'"{grammar.UNSUPPORTED}", not "{value}"'
        )
    return found


def pairs(text: str, names: Sequence[str]) -> dict[str, str]:
    """Split `a=1 b=2`; each name must be one of `names`, the first of two equal ones counts."""
    found: dict[str, str] = {}
    for count, word in enumerate(_WORD.findall(text)):
        name, equals, value = word.partition("=")
        if not equals or name not in names or count == grammar.MAX_WORDS:
            allowed = " ".join(names)
            raise LineError(f'cannot read "{name}"; write name=value with these names: {allowed} ')
        found.setdefault(name, value)
    return found


def readings(words: Mapping[str, str], table: Sequence[grammar.Value]) -> dict[str, int | None]:
    """Return the numbers of a table that stand in a line of words."""
    return {
        value.name: reading(value.name, words[value.name], value.largest)
        for value in table
        if value.name in words
    }


def failure_of(text: str) -> Failure:
    """Read `hung on nvmlDeviceGetName`, `error=15`, `none` and the like."""
    kind, on, call = text.partition(" on ")
    if on and not call.startswith("nvml"):
        raise LineError(f'"{call}" is not an NVML call; name it as in nvmlDeviceGetTemperature')
    failure = _kind(kind, plain_text("call", call) if on else "")
    if on and failure.kind in grammar.WHOLE_FAILURES:
        raise LineError(f'failure {kind} is of the whole GPU; leave out "on {call}"')
    return failure


def _kind(text: str, call: str) -> Failure:
    kind, equals, amount = text.partition("=")
    largest = grammar.FAILURES_WITH_NUMBER.get(kind)
    if kind not in grammar.FAILURES or (largest is not None) != bool(equals):
        raise LineError(
            f'unknown failure "{kind}"; use none, lost, gone, unbound, removed, hung, segfault, '
            "garbage, error=<code> or slow=<milliseconds>, the last five also with "
            '"on <nvml call>"'
        )
    return Failure(kind, number(kind, amount, largest) if largest is not None else 0, call)
