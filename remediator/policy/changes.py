"""What a policy file sets for the classes, everywhere and at some places, into values."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import product
from typing import Any

import msgspec

from remediator.diagnose.fault import SEVERITY, FaultClass
from remediator.policy.duration import spell
from remediator.policy.place import Match
from remediator.policy.schema import (
    ClassesText,
    DefaultsText,
    EvictText,
    MatchText,
    OverrideText,
    RepeatText,
    RowText,
)
from remediator.policy.table import SHIPPED, Change, Evict, Override, Repeat
from remediator.policy.yaml_document import Path, Problem


def changes(defaults: DefaultsText | None, classes: ClassesText | None) -> dict[FaultClass, Change]:
    """Return the changes by class: its own values first, else those of `defaults`."""
    general = _change(defaults or DefaultsText())
    found: dict[FaultClass, Change] = {}
    for fault_class in SEVERITY:
        stated: RowText | None = getattr(classes, fault_class) if classes else None
        own = _change(stated or RowText())
        found[fault_class] = msgspec.structs.replace(general, **own.changed_fields())
    return {fault: change for fault, change in found.items() if change.changed_fields()}


def _change(stated: DefaultsText | RowText) -> Change:
    fields: dict[str, Any] = {
        name: getattr(stated, name, None) for name in Change.__struct_fields__
    }
    fields |= {"repeat": _repeat(stated.repeat), "evict": _evict(stated.evict)}
    return Change(**fields)


def _repeat(stated: RepeatText | None) -> Repeat | None:
    if stated is None or stated == RepeatText():
        return None
    return Repeat(stated.count or Repeat().count, _or(stated.within, Repeat().within))


def _evict(stated: EvictText | None) -> Evict | None:
    if stated is None or stated == EvictText():
        return None
    shipped = Evict()
    return Evict(
        within=_or(stated.within, shipped.within),
        then=stated.then or shipped.then,
        extended_resources=stated.extended_resources or shipped.extended_resources,
    )


def changed_by(
    fault_class: FaultClass, defaults: DefaultsText | None, classes: ClassesText | None
) -> str:
    """Return which keys outside overrides set something for a class: `defaults, classes.gpu`."""
    own: RowText | None = getattr(classes, fault_class) if classes else None
    names = ["defaults"] if defaults not in (None, DefaultsText()) else []
    names += [f"classes.{fault_class}"] if own not in (None, RowText()) else []
    return ", ".join(names)


def override(stated: OverrideText, name: str) -> Override:
    match = stated.match or MatchText()
    return Override(
        name=name,
        match=Match(
            nodes=match.node or (),
            drivers=match.driver or (),
            pools=match.pool or (),
            device_classes=match.device_class or (),
        ),
        changes=changes(stated.defaults, stated.classes),
    )


def soaks_too_short(
    base: Mapping[FaultClass, Change], overrides: Sequence[Override], written: Collection[Path]
) -> Iterator[Problem]:
    """Yield a problem for every settle time that could apply with a soak no longer than it.

    Which overrides will apply to the same GPU is not known when the file is read. So each settle is
    compared with each soak that may apply with it: with all but those that a later line always
    replaces.
    """
    for row in SHIPPED:
        stated = base.get(row.fault_class, Change())
        layers = [
            Change(settle=_or(stated.settle, row.settle), soak=_or(stated.soak, row.soak)),
            *(override.changes.get(row.fault_class, Change()) for override in overrides),
        ]
        for (i, settles), (j, soaks) in product(enumerate(layers), repeat=2):
            # The later of both lines sets both times, so the earlier one's is always replaced.
            replaced = (j < i and settles.soak is not None) or (i < j and soaks.settle is not None)
            if settles.settle is None or soaks.soak is None or replaced:
                continue
            if soaks.soak <= settles.settle:
                path: Path = ("overrides", max(i, j) - 1) if max(i, j) else ()
                yield (
                    _nearest(path, row.fault_class, written),
                    f"soak ({spell(soaks.soak)}) must be longer than settle "
                    f"({spell(settles.settle)}), or a fault would be untainted before it was "
                    "judged",
                )


def _or(stated: timedelta | None, shipped: timedelta) -> timedelta:
    return shipped if stated is None else stated


def _nearest(path: Path, fault_class: FaultClass, written: Collection[Path]) -> Path:
    """Return where the times of a class are written, or the nearest place around that."""
    for near in ((*path, "classes", fault_class), (*path, "defaults")):
        for key in ("settle", "soak"):
            if (*near, key) in written:
                return (*near, key)
    return path
