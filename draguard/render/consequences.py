"""What a user is shown before Draguard's taints of a GPU are removed. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from draguard.cluster.decide import verdict_in_words
from draguard.cluster.incidents import gpu_index
from draguard.phrases import count, gpu_name, moment
from remediator.model.incident import Incident
from remediator.plan.board import Board
from remediator.plan.words import ours


def questions(gpus: int) -> str:
    """Return the question after the facts about so many GPUs."""
    return "Untaint it?" if gpus == 1 else f"Untaint these {gpus} GPUs?"


def consequences(
    incident: Incident,
    board: Board | None,
    taints: Sequence[str],
    until: datetime | None,
    now: datetime,
) -> Iterator[str]:
    """Give what is known of the GPU, and what follows, one fact a line."""
    status = incident.status
    where = f"{incident.spec.uuid}, {gpu_name(incident.node, gpu_index(incident))}"
    yield f"GPU      {where}, incident {incident.name} ({status.phase})"
    yield f"verdict  {verdict_in_words(board)}"
    yield f"needs    {ours(status.repair.needs) or 'nothing'}"
    number = count(len(taints), "taint will be removed", "taints will be removed")
    yield f"taints   {': '.join(filter(None, (number, '; '.join(taints))))}"
    yield "effect   new pods can be scheduled to it immediately, even if its fault remains"
    end = f"{moment(until, now)}; then the fault counts again" if until else "no end time"
    yield f"until    {end}"
