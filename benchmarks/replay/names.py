"""Taints of names into taints of hardware. Pure.

A taint is kept for the number of a GPU in its published name. When the driver enumerates anew,
the number stands for another board: from then on the taint is that board's, and the board before
is without. For `SLACK` seconds after an enumeration both are forgiven, because the news is on its
way. A board that is absent cannot be scheduled: the taint that it had goes on until it is back.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from benchmarks.replay.taints import FOREVER, Taint
from benchmarks.replay.truth import GPUS, Device, NodeHistory

SLACK = 30.0
"""Seconds after a repair or an enumeration in which a taint may still be as it was."""


class _Order(NamedTuple):
    """Which GPU has which number, from when to when."""

    begin: float
    end: float
    gpus: tuple[int, ...]


def by_hardware(history: NodeHistory, taints: Iterable[Taint]) -> list[Taint]:
    """Return the taints of each board of a node; those without a gap are one."""
    orders = _orders(history)
    found: dict[Device, list[Taint]] = defaultdict(list)
    for taint in taints:
        for piece in _pieces(taint, orders):
            found[piece.device].append(piece)
    joined = [taint for pieces in found.values() for taint in _joined(pieces, orders)]
    return sorted(joined, key=lambda taint: (taint.begin, taint.device))


def _orders(history: NodeHistory) -> list[_Order]:
    begun: dict[float, tuple[int, ...]] = {-FOREVER: tuple(range(GPUS))}
    for happening in history.happenings:
        if happening.kind == "numbered":
            begun[happening.at] = happening.order
    ends = [*list(begun)[1:], FOREVER]
    return [_Order(at, end, gpus) for (at, gpus), end in zip(begun.items(), ends, strict=True)]


def _pieces(taint: Taint, orders: list[_Order]) -> Iterable[Taint]:
    """Yield what a taint of a number is for one board after the other."""
    number, part = taint.device
    before: int | None = None
    for order in orders:
        gpu = order.gpus[number] if number < len(order.gpus) else None
        begin, end = max(taint.begin, order.begin), min(taint.end, order.end)
        # Made for the board that had the number before.
        inherited = taint.begin < order.begin and gpu != before
        late = begin + SLACK if inherited else begin
        before = gpu
        over = taint.end <= order.begin and taint.begin < order.begin
        if gpu is None or over or taint.begin >= order.end or (inherited and end <= late):
            continue
        evicts = taint.evicts_from < end and taint.evicts_until > late
        yield Taint(
            device=(gpu, part),
            begin=late,
            end=end,
            evicts_from=max(taint.evicts_from, begin) if evicts else FOREVER,
            evicts_until=min(taint.evicts_until, end) if evicts else FOREVER,
        )


def _joined(pieces: list[Taint], orders: list[_Order]) -> Iterable[Taint]:
    """Yield the taints of one device: pieces that only an enumeration has parted are one."""
    gpu = pieces[0].device[0]
    through: Taint | None = None
    for part in sorted(pieces, key=lambda piece: piece.begin):
        piece = _while_absent(part, gpu, orders)
        if through is None:
            through = piece
        elif piece.begin <= through.end or _only_renumbered(through.end, piece.begin, orders):
            through = msgspec.structs.replace(
                through,
                end=max(through.end, piece.end),
                evicts_from=min(through.evicts_from, piece.evicts_from),
            )
        else:
            yield through
            through = piece
    if through is not None:
        yield through


def _while_absent(piece: Taint, gpu: int, orders: list[_Order]) -> Taint:
    """Return a taint that goes on while its board is absent, if it was there until then."""
    for order in orders:
        if order.begin == piece.end and gpu not in order.gpus:
            piece = msgspec.structs.replace(piece, end=order.end)
    return piece


def _only_renumbered(end: float, begin: float, orders: list[_Order]) -> bool:
    return any(order.begin <= end and begin <= order.begin + SLACK for order in orders[1:])
