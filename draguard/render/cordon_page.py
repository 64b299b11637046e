"""The outcome of cordons, and the pods on the devices, as a page. Pure."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

from draguard.cluster.cordons import Changed
from draguard.cluster.device_pods import Holder
from draguard.phrases import short
from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text, leaf, text_of

AGAIN = "not all of it is done; run the same command again: what is done already stays done"


class Cordons(msgspec.Struct, frozen=True, kw_only=True):
    word: str
    """How the user named it."""
    what: str
    gpu: str
    by: str
    changed: tuple[Changed, ...]
    holders: tuple[Holder, ...]


def cordon_page(
    results: Sequence[Cordons], *, undo: str, evict: bool, warnings: Sequence[str] = ()
) -> Iterator[Block]:
    """Give the outcome of each GPU; `undo`: what names all of them, "" for their own words."""
    for result in results:
        yield Facts((("GPU", result.gpu), ("scope", result.what), ("by", result.by)))
        yield from _outcomes(result.changed)
        yield Table(
            ("POD", "CLAIM", "DEVICE", "OUTCOME"),
            tuple(_pod(holder, evict=evict) for holder in result.holders),
            title="Pods on these devices",
        )
    yield Lines(tuple(Cell(f"warning: {text}", "warn") for text in warnings))
    yield from _note(tuple(changed for result in results for changed in result.changed))
    words = undo or " ".join(result.word for result in results)
    yield Lines((f"to undo: draguard uncordon {words}",))


def uncordon_page(changed: tuple[Changed, ...]) -> Iterator[Block]:
    if not changed:
        yield Lines(("no cordons for maintenance",))
        return
    yield from _outcomes(changed)
    yield from _note(changed)


def _outcomes(changed: tuple[Changed, ...]) -> Iterator[Block]:
    rows = tuple(
        (leaf(c.device), c.effect, c.rule, Cell(c.done, "bad") if c.failed else c.done)
        for c in changed
    )
    yield Table(("DEVICE", "EFFECT", "RULE", "DONE"), rows)


def _note(changed: tuple[Changed, ...]) -> Iterator[Block]:
    if any(each.failed for each in changed):
        yield Lines((Cell(AGAIN, "warn"),))


def _pod(holder: Holder, *, evict: bool) -> tuple[Text, ...]:
    if not evict:
        outcome: Text = "stays"
    elif holder.stays:
        outcome = Cell(f"stays: {holder.stays}", "warn")
    elif holder.goes_after:
        outcome = Cell(f"is deleted after {short(timedelta(seconds=holder.goes_after))}", "bad")
    else:
        outcome = Cell("is deleted", "bad")
    if evict and holder.drained_by and not holder.stays:
        outcome = Cell(f"{text_of(outcome)} (pod of a {holder.drained_by})", "bad")
    pod, claim = f"{holder.namespace}/{holder.pod}", f"{holder.namespace}/{holder.claim}"
    return pod, claim, leaf(holder.device), outcome
