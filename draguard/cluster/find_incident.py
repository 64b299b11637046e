"""Which incident a person means: by its name, whole or short, or by its GPU's UUID. Pure."""

import re
from collections.abc import Iterable

from draguard.nearest import did_you_mean
from draguard.phrases import some
from remediator.model.incident import Incident, of_gpu

_NAME = re.compile(r"(?P<gpu>gpu-[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}-(?P<episode>\d+)")


class NoIncidentError(Exception):
    """Nothing, or more than one, goes by that name; the message says what there is."""


def short(name: str) -> str:
    """Return `gpu-2fa81118-1` for `gpu-2fa81118-...-1`, or the name where it is no GPU's."""
    found = _NAME.fullmatch(name)
    return f"{found['gpu']}-{found['episode']}" if found else name


def meant(word: str, incidents: Iterable[Incident]) -> Incident:
    """Return the incident of a name, or the last episode of a GPU, an open one first.

    Raises NoIncidentError.
    """
    every = tuple(incidents)
    named = [one for one in every if word.lower() in {one.name, short(one.name)}]
    if len(named) == 1:
        return named[0]
    if named:
        raise NoIncidentError(
            f"{word!r} matches {some(one.name for one in named)}; give the full name"
        )
    episodes = of_gpu(every, next((o.spec.uuid for o in every if _is_gpu(o, word)), ""))
    if episodes:
        return next((one for one in reversed(episodes) if one.open), episodes[-1])
    known = {name for one in every for name in (short(one.name), one.spec.uuid)}
    raise NoIncidentError(
        f"there is no incident {word!r}{did_you_mean(word, known)}; give an incident's name or the "
        "UUID of its GPU: `draguard incidents --all` lists them"
    )


def _is_gpu(one: Incident, word: str) -> bool:
    return one.spec.uuid.lower() == word.lower()
