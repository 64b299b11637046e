"""Incidents by words of the user (name, short name, GPU's UUID, a beginning), and by severity.

Pure.
"""

import re
from collections.abc import Iterable, Sequence

from draguard.phrases import did_you_mean, some
from remediator.diagnose.fault import SEVERITY
from remediator.model.incident import Incident, of_gpu

_INDEX = re.compile(r"gpu-(?P<index>\d{1,9})(?:-|$)")
_NAME = re.compile(r"(?P<gpu>gpu-[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}-(?P<number>\d+)")

NAMES = "incident names, such as gpu-2fa81118-1, UUIDs of GPUs, or the start of one"
SHORTEST = 6
"""Characters of a name that may stand for it, if no other name begins so."""


class NoIncidentError(Exception):
    """No incident, or more than one, has that name; the message says which there are."""


def short_name(name: str) -> str:
    """Return `gpu-2fa81118-1` for `gpu-2fa81118-...-1`, or the name where it is no GPU's."""
    found = _NAME.fullmatch(name)
    return f"{found['gpu']}-{found['number']}" if found else name


def find_incidents(words: Sequence[str], incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """Return the incidents of all words, each once. Raises NoIncidentError, with all problems."""
    every, problems = tuple(incidents), list[str]()
    found: dict[str, Incident] = {}
    for word in words:
        try:
            incident = find_incident(word, every)
        except NoIncidentError as error:
            problems.append(str(error))
        else:
            found[incident.name] = incident
    if problems:
        raise NoIncidentError("; ".join(problems))
    return tuple(found.values())


def find_incident(word: str, incidents: Iterable[Incident]) -> Incident:
    """Return the incident of that name, or the open incident of a GPU, else its last one.

    The beginning of a name or of a UUID will do if it matches one GPU only. Raises NoIncidentError.
    """
    every, desired = tuple(incidents), word.lower()
    named = [incident for incident in every if desired in _names(incident)]
    if len(named) == 1:
        return named[0]
    if named:
        raise NoIncidentError(
            f"{word!r} matches {some(incident.name for incident in named)}; give the full name"
        )
    begun = [
        incident
        for incident in every
        if len(word) >= SHORTEST
        and any(
            name.startswith(desired) for name in (*_names(incident), incident.spec.uuid.lower())
        )
    ]
    if len(begun) == 1:
        return begun[0]
    gpus = sorted({incident.spec.uuid for incident in begun})
    if len(gpus) == 1:
        mine = of_gpu(every, gpus[0])
        return next((incident for incident in reversed(mine) if incident.open), mine[-1])
    if gpus:
        names = some(short_name(incident.name) for incident in begun)
        raise NoIncidentError(f"{word!r} matches {names}; give more of the name")
    known = {name for incident in every for name in (short_name(incident.name), incident.spec.uuid)}
    raise NoIncidentError(
        f"there is no incident {word!r}{did_you_mean(word, known)}; give an incident's name or the "
        "UUID of its GPU: `draguard incidents --all` lists them"
    )


def _names(incident: Incident) -> tuple[str, str]:
    return incident.name, short_name(incident.name)


def gpu_index(incident: Incident) -> int | None:
    """Return N of /dev/nvidiaN, as the names of its devices have it; None where they do not."""
    status = incident.status
    names = [target.device for target in status.scope.devices]
    names += [rule.device.rpartition("/")[2] for rule in status.scope.rules]
    found = {index for name in names if (index := index_of(name)) is not None}
    return found.pop() if len(found) == 1 else None


def index_of(device: str) -> int | None:
    """Return 3 of `gpu-3` and of its slices, as NVIDIA's driver names them."""
    match = _INDEX.match(device)
    return int(match["index"]) if match else None


def urgency(incident: Incident) -> tuple[int, int, str, int, str]:
    """Order incidents by who must act: a user, then the remediator, and last those that verify.

    Among these, the worst class first, by node. A class of another version comes first.
    """
    worst_first: tuple[str, ...] = SEVERITY[::-1]
    status, index = incident.status, gpu_index(incident)
    known = status.fault.fault_class in worst_first
    rank = worst_first.index(status.fault.fault_class) + 1 if known else 0
    last = -1 if index is None else index
    turn = {"NeedsHuman": 0, "Verifying": 2}.get(status.phase, 1)
    return turn, rank, incident.node, last, incident.name
