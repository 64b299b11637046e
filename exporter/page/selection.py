"""Which GPUs and MIG slices the page shows: dcgm-exporter's device option. Pure.

`f` is everything: GPUs, and the slices of those in MIG mode. `g` is GPUs, `i` is
slices, each with ids such as `g:0,2-4`, and `g:0+i:1` is both. A GPU's id is its
NVML index; a slice's counts from 0 over all slices of the node, by GPU and GPU
instance.
"""

import re

import msgspec

from exporter.readings import GpuReading, NvmlReading

_WORD = re.compile(r"(?P<kind>[gi])(?::(?P<ids>[0-9,-]+))?")
_RANGE = re.compile(r"(?P<first>\d{1,4})(?:-(?P<last>\d{1,4}))?")


class SelectionError(Exception):
    """The option cannot be read; the message says what to write."""


class Selection(msgspec.Struct, frozen=True):
    """None: all of them; an empty set: none."""

    gpus: frozenset[int] | None = None
    slices: frozenset[int] | None = None


ALL = Selection()
_NONE: frozenset[int] = frozenset()


def parse_devices(text: str) -> Selection:
    """Read the option; two words stand with a plus (or comma) between. Raises SelectionError."""
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
    return Selection(gpus=chosen.get("g", _NONE), slices=chosen.get("i", _NONE))


def selected(reading: NvmlReading, selection: Selection) -> NvmlReading:
    """Return the reading with what is chosen.

    A GPU whose slices alone are chosen keeps its place without values of its own.
    """
    if selection == ALL:
        return reading
    gpus: list[GpuReading] = []
    number = 0
    for gpu in reading.gpus:
        parts = gpu.instances or ()
        own = [
            part
            for place, part in enumerate(parts, start=number)
            if selection.slices is None or place in selection.slices
        ]
        number += len(parts)
        whole = selection.gpus is None or gpu.index in selection.gpus
        if whole or own:
            kept = gpu if whole else _without_values(gpu)
            gpus.append(msgspec.structs.replace(kept, instances=tuple(own) or None))
    return msgspec.structs.replace(reading, gpus=tuple(gpus))


def _without_values(gpu: GpuReading) -> GpuReading:
    return GpuReading(
        index=gpu.index,
        uuid=gpu.uuid,
        bus_id=gpu.bus_id,
        minor=gpu.minor,
        product=gpu.product,
        mig=gpu.mig,
        lost=gpu.lost,
        hung_call=gpu.hung_call,
        released=gpu.released,
    )


def _ids(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        first, last = (
            (int(found["first"]), int(found["last"] or found["first"])) if found else (1, 0)
        )
        if first > last:
            raise SelectionError(f"{part!r} is no number and no range such as 2-4")
        numbers.update(range(first, last + 1))
    return frozenset(numbers)
