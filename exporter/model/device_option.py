"""dcgm-exporter's device options: `--devices`, `--switch-devices` and `--cpu-devices`. Pure.

`f` is everything. `g` is GPUs, NVSwitches or CPUs, `i` is their parts (MIG slices, NVLinks of
switches, cores), each with ids such as `g:0,2-4`, and `g:0+i:1` is both.
"""

import re

import msgspec

_WORD = re.compile(r"(?P<kind>[gi])(?::(?P<ids>[0-9,-]+))?")
_RANGE = re.compile(r"(?P<first>\d{1,4})(?:-(?P<last>\d{1,4}))?")


class SelectionError(Exception):
    """The option cannot be read; the message says what to write."""


class Selection(msgspec.Struct, frozen=True):
    """None: all of them; an empty set: none."""

    wholes: frozenset[int] | None = None
    parts: frozenset[int] | None = None

    def has(self, whole: int) -> bool:
        """Return whether a GPU, an NVSwitch or a CPU is chosen."""
        return self.wholes is None or whole in self.wholes

    def has_part(self, part: int, whole: int) -> bool:
        """Return whether a link or a core is chosen: `g:0+i` is those of 0, `i` of all."""
        return (self.parts is None or part in self.parts) and (
            not self.wholes or whole in self.wholes
        )


ALL = Selection()
_NONE: frozenset[int] = frozenset()


def parse_devices(text: str) -> Selection:
    """Read an option; two words stand with a plus (or comma) between. Raises SelectionError."""
    if text == "f":
        return ALL
    chosen: dict[str, frozenset[int] | None] = {}
    for word in re.split(r"[+,](?=[fgi])", text):
        found = _WORD.fullmatch(word)
        if found is None or found["kind"] in chosen:
            raise SelectionError(
                f"{text!r} cannot be read; write f, g, i, g:0,2-4, i:0-6 or g:0+i:1, each once"
            )
        chosen[found["kind"]] = _ids(found["ids"]) if found["ids"] else None
    return Selection(wholes=chosen.get("g", _NONE), parts=chosen.get("i", _NONE))


def _ids(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        first, last = (
            (int(found["first"]), int(found["last"] or found["first"])) if found else (1, 0)
        )
        if first > last:
            raise SelectionError(f"{part!r} is neither a number nor a range such as 2-4")
        numbers.update(range(first, last + 1))
    return frozenset(numbers)
