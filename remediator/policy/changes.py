"""What a policy file says of the classes, everywhere and at some places, into values."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import product

import msgspec

from remediator.diagnose.fault import SEVERITY, FaultClass
from remediator.policy.document import Path, dotted
from remediator.policy.duration import spelled
from remediator.policy.place import Match
from remediator.policy.scalars import Scalars
from remediator.policy.schema import (
    ClassesText,
    DefaultsText,
    EvictText,
    MatchText,
    OverrideText,
    RepeatText,
    RowText,
)
from remediator.policy.table import CEILINGS, HIGHEST, SHIPPED, Change, Evict, Override, Repeat

YEAR = timedelta(days=365)
MOST_EPISODES = 1000


def changes(
    defaults: DefaultsText | None, classes: ClassesText | None, path: Path, read: Scalars
) -> dict[FaultClass, Change]:
    """Return what is said of each class that anything is said of: of itself, else of all."""
    general = _change(defaults or DefaultsText(), (*path, "defaults"), read)
    found: dict[FaultClass, Change] = {}
    for fault_class in SEVERITY:
        here = (*path, "classes", fault_class)
        said: RowText | None = getattr(classes, fault_class) if classes else None
        own = _change(said or RowText(), here, read)
        _possible(fault_class, own, (*here, "ceiling"), read)
        found[fault_class] = msgspec.structs.replace(general, **own.said())
    return {one: change for one, change in found.items() if change.said()}


def _change(said: DefaultsText | RowText, path: Path, read: Scalars) -> Change:
    own = said if isinstance(said, RowText) else RowText()
    return Change(
        mode=said.mode,
        ceiling=own.ceiling,
        settle=read.duration(said.settle, (*path, "settle")),
        soak=read.duration(said.soak, (*path, "soak")),
        patient=own.patient,
        repeat=_repeat(said.repeat, (*path, "repeat"), read),
        sticky=own.sticky,
        probation=read.duration(said.probation, (*path, "probation")),
        evict=_evict(said.evict, (*path, "evict"), read),
    )


def _possible(fault_class: FaultClass, change: Change, path: Path, read: Scalars) -> None:
    highest = CEILINGS.index(HIGHEST.get(fault_class, "NoExecute"))
    if change.ceiling and CEILINGS.index(change.ceiling) > highest:
        possible = ", ".join(CEILINGS[: highest + 1])
        read.problem(
            path,
            f"{change.ceiling} is not possible for {fault_class}: under it running work may "
            f"finish; one of {possible}",
        )


def _repeat(said: RepeatText | None, path: Path, read: Scalars) -> Repeat | None:
    if said is None or said == RepeatText():
        return None
    count = Repeat().count if said.count is None else said.count
    if not 1 <= count <= MOST_EPISODES:
        read.problem((*path, "count"), f"{count} is not a number from 1 to {MOST_EPISODES}")
    within = read.duration(said.within, (*path, "within"), YEAR)
    return Repeat(count, Repeat().within if within is None else within)


def _evict(said: EvictText | None, path: Path, read: Scalars) -> Evict | None:
    if said is None or said == EvictText():
        return None
    within, shipped = read.duration(said.within, (*path, "within")), Evict()
    return Evict(
        within=shipped.within if within is None else within,
        then=said.then or shipped.then,
        extended_resources=said.extended_resources or shipped.extended_resources,
    )


def named(
    fault_class: FaultClass, defaults: DefaultsText | None, classes: ClassesText | None
) -> str:
    """Return which lines outside overrides say something of a class: `defaults, classes.gpu`."""
    own: RowText | None = getattr(classes, fault_class) if classes else None
    names = ["defaults"] if defaults not in {None, DefaultsText()} else []
    names += [f"classes.{fault_class}"] if own not in {None, RowText()} else []
    return ", ".join(names)


def override(said: OverrideText, path: Path, read: Scalars) -> Override:
    match = _match(said.match or MatchText(), (*path, "match"), read)
    if said.match in {None, MatchText()}:
        why = "names nothing; give any of deviceClass, driver, pool, node"
        read.problem((*path, "match"), f"{why}, or write what holds everywhere outside overrides")
    found = changes(said.defaults, said.classes, path, read)
    if not found:
        read.problem(path, "changes nothing; give defaults or classes")
    return Override(name=dotted(path), match=match, changes=found)


def _match(said: MatchText, path: Path, read: Scalars) -> Match:
    return Match(
        nodes=read.names(said.node, (*path, "node")),
        drivers=read.names(said.driver, (*path, "driver")),
        pools=read.names(said.pool, (*path, "pool")),
        device_classes=read.names(said.device_class, (*path, "deviceClass")),
    )


def times_fit(
    base: Mapping[FaultClass, Change], overrides: Sequence[Override], read: Scalars
) -> None:
    """Complain of every settle that could meet a soak no longer than itself.

    Which overrides meet at one place is not known before there is one, so each
    settle is held against each soak that may come to stand beside it: all but
    those that a later line replaces whenever it applies.
    """
    for row in SHIPPED:
        said = base.get(row.fault_class, Change())
        layers = [
            Change(settle=_or(said.settle, row.settle), soak=_or(said.soak, row.soak)),
            *(one.changes.get(row.fault_class, Change()) for one in overrides),
        ]
        for (i, settles), (j, soaks) in product(enumerate(layers), repeat=2):
            replaced = (j < i and settles.soak is not None) or (i < j and soaks.settle is not None)
            if settles.settle is None or soaks.soak is None or replaced:
                continue
            if soaks.soak <= settles.settle:
                path: Path = ("overrides", max(i, j) - 1) if max(i, j) else ()
                read.problem(
                    _written(path, row.fault_class, read),
                    f"soak ({spelled(soaks.soak)}) must be longer than settle "
                    f"({spelled(settles.settle)}), or a fault would be untainted before it was "
                    "judged",
                )


def _or(said: timedelta | None, shipped: timedelta) -> timedelta:
    return shipped if said is None else said


def _written(path: Path, fault_class: FaultClass, read: Scalars) -> Path:
    """Return where the times of a class are written, as near as the file tells."""
    for near in ((*path, "classes", fault_class), (*path, "defaults")):
        for key in ("settle", "soak"):
            if read.written((*near, key)):
                return (*near, key)
    return path
