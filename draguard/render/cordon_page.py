"""The outcome of cordons, and the pods on the devices, as a page. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

from draguard.cluster.cordons import MADE, STANDING, Changed
from draguard.cluster.device_pods import Holder
from draguard.phrases import beginning, count, short, some
from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text, text_of

_OUTCOME = ("EFFECT", "RULE", "DONE")
AGAIN = "not all of it is done; run the same command again: what is done already stays done"


class Cordons(msgspec.Struct, frozen=True, kw_only=True):
    word: str
    """How the user named it."""
    what: str
    gpu: str
    by: str
    reason: str
    changed: tuple[Changed, ...]
    holders: tuple[Holder, ...]


def cordon_page(
    results: Sequence[Cordons],
    *,
    words: str,
    where: str,
    evict: bool,
    warnings: Sequence[str] = (),
) -> Iterator[Block]:
    """Give the outcomes of all GPUs; `words` name all devices, `where` the cluster, as flags."""
    devices = sum(len(result.changed) for result in results)
    number = count(len(results), "GPU", "GPUs")
    whole = f"{number}, {count(devices, 'device', 'devices')}"
    first = results[0]
    scope = first.what if len(results) == 1 else whole
    yield Facts((("scope", scope), ("by", first.by), ("reason", first.reason)))
    yield Table(
        ("DEVICE", "GPU", *_OUTCOME),
        tuple(
            (
                _device(change.device),
                Cell(result.gpu, short=beginning(result.gpu)),
                *_outcome(change),
            )
            for result in results
            for change in result.changed
        ),
    )
    yield Table(
        ("POD", "CLAIM", "DEVICE", "OUTCOME"),
        tuple(_pod(holder, evict=evict) for result in results for holder in result.holders),
        title="Pods on these devices",
    )
    yield Lines(tuple(Cell(f"warning: {text}", "warn") for text in warnings))
    every = tuple(change for result in results for change in result.changed)
    yield from _note(every)
    made = [change.device for change in every if change.done == MADE]
    # The user's words may name cordons that stood before: those of others are not undone.
    undo = words if len(made) == len(every) else shlex.join(made)
    stays = [f"{change.device} ({change.done})" for change in every if STANDING in change.done]
    if made:
        leaves = (f"the undo leaves {some(stays)}",) if stays else ()
        yield Lines((f"to undo: draguard uncordon {undo}{where}", *leaves))


def uncordon_page(changed: tuple[Changed, ...]) -> Iterator[Block]:
    if not changed:
        yield Lines(("no cordons for maintenance",))
        return
    yield Table(
        ("DEVICE", *_OUTCOME),
        tuple((_device(change.device), *_outcome(change)) for change in changed),
    )
    yield from _note(changed)


def _device(path: str) -> Cell:
    """Return DRIVER/POOL/DEVICE; narrow tables leave out the driver."""
    return Cell(path, short=path.partition("/")[2])


def _outcome(changed: Changed) -> tuple[Text, ...]:
    done = Cell(changed.done, "bad") if changed.failed else changed.done
    return changed.effect, changed.rule, done


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
    return pod, claim, _device(holder.device), outcome
