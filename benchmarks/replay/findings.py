"""Misses into what a reader needs to look into each: what was shown and decided before it. Pure."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from benchmarks.replay.agent import ORIGIN, moment
from benchmarks.replay.drawing import DAY
from benchmarks.replay.ours import Player
from benchmarks.replay.scoring import Miss
from benchmarks.replay.truth import Happening, NodeHistory

SHOWN = 8
"""Happenings before a wrong decision that are printed with it."""
SLACK = 1.0
"""Seconds after a wrong decision that are still shown: lines of one burst."""
FIELDS = (
    "code",
    "action",
    "gi",
    "caused_by",
    "reset",
    "drain_reset",
    "failure",
    "boards",
    "order",
)


def described(misses: Iterable[Miss], history: NodeHistory, player: Player) -> Iterator[str]:
    """Report what went wrong, what the GPU had shown before, and what was decided; once a
    moment."""
    mig = "MIG" if history.mig else "no MIG"
    action = "with" if history.has_action else "without"
    kind = f"{mig}, driver {history.driver} {action} recovery action"
    together: dict[tuple[str, int, float], list[Miss]] = {}
    for miss in misses:
        together.setdefault((miss.what, miss.gpu, miss.at), []).append(miss)
    for (what, gpu, at), same in together.items():
        why = "; ".join(miss.why for miss in same)
        head = f"{what}: node {history.node} gpu {gpu} at {_when(at)}: {why} ({kind})"
        yield "\n".join([head, *_shown_before(history, gpu, at), *_decided(player, gpu, at)])


def _shown_before(history: NodeHistory, gpu: int, at: float) -> list[str]:
    """Return the last happenings of a GPU and its node; the same again is counted."""
    found = [
        (_when(happening.at), _in_short(happening))
        for happening in history.happenings
        if happening.at <= at + SLACK and happening.gpu in {gpu, -1}
    ]
    groups = [list(same) for _, same in groupby(found, key=lambda pair: pair[1])]
    return [
        f"    {same[0][0]} {same[0][1]}{f' ({len(same)} times)' if same[1:] else ''}"
        for same in groups[-SHOWN:]
    ]


def _in_short(happening: Happening) -> str:
    values = {name: getattr(happening, name) for name in FIELDS}
    parts = [f"{name} {value}" for name, value in values.items() if value not in (None, 0, ())]
    return " ".join([happening.kind, *parts])


def _decided(player: Player, gpu: int, at: float) -> list[str]:
    """Return the last incident of a GPU that was opened before something went wrong."""
    opened = [
        (incident.metadata.creation_timestamp or moment(at), incident)
        for incident in player.store.incidents.values()
        if player.gpu_of(incident.spec.uuid) == gpu
    ]
    then = [pair for pair in opened if pair[0] <= moment(at + SLACK)]
    if not then:
        return []
    incident = max(then, key=lambda pair: pair[0])[1]
    found, created = incident.status, incident.metadata.creation_timestamp
    when = _when((created - ORIGIN).total_seconds()) if created else "unknown"
    return [
        f"    incident opened {when}: {found.fault.fault_class}, {found.fault.cause}, "
        f"{found.scope.summary}: {'; '.join(found.fault.evidence)}"
    ]


def _when(at: float) -> str:
    day, rest = divmod(at, DAY)
    minutes, seconds = divmod(rest, 60.0)
    return f"day {day:.0f} {minutes // 60:02.0f}:{minutes % 60:02.0f}:{seconds:05.2f}"
