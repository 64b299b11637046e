"""What became of cordons, and who is on the devices. Pure."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from draguard.cluster.cordons import Changed
from draguard.cluster.device_pods import Holder
from draguard.phrases import short
from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text, leaf

AGAIN = "not all of it is done; run the same command again: what is done already stays done"


class Cordons(msgspec.Struct, frozen=True, kw_only=True):
    word: str
    """How the person named it."""
    what: str
    gpu: str
    by: str
    changed: tuple[Changed, ...]
    holders: tuple[Holder, ...]


def sheet(told: Cordons, *, evict: bool) -> Iterator[Block]:
    yield Facts((("GPU", told.gpu), ("scope", told.what), ("by", told.by)))
    yield table(told.changed)
    yield Table(
        ("POD", "CLAIM", "DEVICE", "OUTCOME"),
        tuple(_holder(one, evict=evict) for one in told.holders),
        title="Pods on these devices",
    )
    yield Lines(tuple(_left(told.changed)))
    yield Lines((f"to undo: draguard uncordon {told.word}",))


def taken_away(changed: tuple[Changed, ...]) -> Iterator[Block]:
    if not changed:
        yield Lines(("no cordons for maintenance",))
        return
    yield table(changed)
    yield Lines(tuple(_left(changed)))


def _left(changed: tuple[Changed, ...]) -> Iterator[Text]:
    if any(one.failed for one in changed):
        yield Cell(AGAIN, "warn")


def table(changed: tuple[Changed, ...]) -> Table:
    rows = tuple((leaf(one.device), one.effect, one.rule, _done(one)) for one in changed)
    return Table(("DEVICE", "EFFECT", "RULE", "DONE"), rows)


def _done(one: Changed) -> Text:
    return Cell(one.done, "bad") if one.failed else one.done


def _holder(one: Holder, *, evict: bool) -> tuple[Text, ...]:
    if not evict:
        end: Text = "stays"
    elif one.stays:
        end = Cell(f"stays: {one.stays}", "warn")
    elif one.goes_after:
        end = Cell(f"is deleted after {short(timedelta(seconds=one.goes_after))}", "bad")
    else:
        end = Cell("is deleted", "bad")
    return f"{one.namespace}/{one.pod}", f"{one.namespace}/{one.claim}", leaf(one.device), end
