"""One decision about a node in one sentence, for the log. Pure."""

from collections.abc import Sequence

from remediator.diagnose.fault import Healthy, Sick, Unknown
from remediator.model.incident import GPU_UUID
from remediator.plan.board import Board
from remediator.plan.stages import Planned
from remediator.plan.steps import Step, WriteStatus
from remediator.plan.view import NodeView


def counts(view: NodeView, pairs: Sequence[tuple[Board, Planned]]) -> str:
    """Return how many GPUs of a node are healthy, sick and unknown."""
    verdicts = [board.verdict for board, _ in pairs]
    healthy = sum(isinstance(verdict, Healthy) for verdict in verdicts)
    sick = sum(isinstance(verdict, Sick) for verdict in verdicts)
    gpus = view.report.gpus if view.report else ()
    nameless = sum(GPU_UUID.fullmatch(gpu.uuid) is None for gpu in gpus)
    more = f", {nameless} without a name" if nameless else ""
    return f"{healthy} healthy, {sick} sick, {len(verdicts) - healthy - sick} unknown{more}"


def sentence(view: NodeView, pairs: Sequence[tuple[Board, Planned]], steps: list[Step]) -> str:
    """Return what is known of a node's GPUs, what is done now and what is deferred."""
    gpu_texts = [
        f"{board.uuid} {incident.status.cause} ({incident.status.scope.summary}): "
        f"{planned.granted.deferred or planned.course.reason}"
        for board, planned in pairs
        if (incident := planned.incident) is not None
    ]
    verdicts = [board.verdict for board, _ in pairs]
    unknown = sorted({verdict.why for verdict in verdicts if isinstance(verdict, Unknown)})
    names = [type(step).__name__ for step in steps if not isinstance(step, WriteStatus)]
    done = ", ".join(f"{name} x{names.count(name)}" for name in dict.fromkeys(names))
    parts = [counts(view, pairs), *gpu_texts, *(f"unknown: {why}" for why in unknown[:2]), done]
    return f"{view.node}: {'; '.join(part for part in parts if part)}"
