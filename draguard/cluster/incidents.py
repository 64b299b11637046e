"""Incidents by a word of the user (name, short name, GPU's UUID), and by severity. Pure."""

import re
from collections.abc import Iterable

from draguard.phrases import did_you_mean, some
from remediator.diagnose.fault import SEVERITY
from remediator.model.incident import Incident, of_gpu

_NAME = re.compile(r"(?P<gpu>gpu-[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}-(?P<episode>\d+)")


class NoIncidentError(Exception):
    """No incident, or more than one, has that name; the message says which there are."""


def short_name(name: str) -> str:
    """Return `gpu-2fa81118-1` for `gpu-2fa81118-...-1`, or the name where it is no GPU's."""
    found = _NAME.fullmatch(name)
    return f"{found['gpu']}-{found['episode']}" if found else name


def find_incident(word: str, incidents: Iterable[Incident]) -> Incident:
    """Return the incident of that name, or the open incident of a GPU, else its last one.

    Raises NoIncidentError.
    """
    every = tuple(incidents)
    named = [
        incident for incident in every if word.lower() in {incident.name, short_name(incident.name)}
    ]
    if len(named) == 1:
        return named[0]
    if named:
        raise NoIncidentError(
            f"{word!r} matches {some(incident.name for incident in named)}; give the full name"
        )
    uuids = (incident.spec.uuid for incident in every if incident.spec.uuid.lower() == word.lower())
    episodes = of_gpu(every, next(uuids, ""))
    if episodes:
        return next((incident for incident in reversed(episodes) if incident.open), episodes[-1])
    known = {name for incident in every for name in (short_name(incident.name), incident.spec.uuid)}
    raise NoIncidentError(
        f"there is no incident {word!r}{did_you_mean(word, known)}; give an incident's name or the "
        "UUID of its GPU: `draguard incidents --all` lists them"
    )


def severity(incident: Incident) -> tuple[int, str]:
    """Order incidents from the worst class; a class of another version comes first."""
    worst_first: tuple[str, ...] = SEVERITY[::-1]
    known = incident.status.fault in worst_first
    return worst_first.index(incident.status.fault) + 1 if known else 0, incident.name
