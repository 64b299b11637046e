"""`/debug/plan`: what would be done now for each node with something to report, and why.

Decides as the worker does, on the same view, and writes nothing. It sends no request either: pods
and node conditions are those of the last decision.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Protocol

import msgspec

from remediator.diagnose.fault import Healthy, Sick, Unknown
from remediator.model.taint_rule import Rule
from remediator.plan.board import Board
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.spared import evicts_monitor
from remediator.plan.stages import Planned, Wake
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteEdited,
    DeleteRule,
    EvictPod,
    Step,
    gpu_of,
)
from remediator.plan.view import Fleet, NodeView
from remediator.policy.table import Policy
from serving.message import Request, Response

MOST = 100
"""Nodes on one page; `?node=` selects any one."""


class GpuPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    uuid: str
    index: int | None = None
    """N of /dev/nvidiaN, as the report has it; None without one."""
    verdict: str
    incident: str = ""
    phase: str = ""
    desired: tuple[str, ...] = ()
    """Rules that should stand, as `device effect`."""
    stored: tuple[str, ...] = ()
    """Rules that stand."""
    deferred: str = ""
    needs: str = ""
    why: str = ""
    remarks: tuple[str, ...] = ()
    """The parts of `why` that also hold while the next step is deferred."""
    wake: Wake | None = None
    """When it is looked at again even if nothing changes, and what for."""


class NodePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    node: str
    sentence: str
    counts: str = ""
    """How many GPUs are healthy, sick and unknown."""
    steps: tuple[str, ...] = ()
    wake: Wake | None = None
    """When it is looked at again even if nothing changes, and what for."""
    gpus: tuple[GpuPlan, ...] = ()
    """GPUs with something to report, all of a selected node; sick first, then unknown ones."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    """"" where it has no name."""
    at: datetime
    role: str
    """Whether this replica writes."""
    nodes: tuple[NodePlan, ...]
    left_out: int
    """Nodes beyond the cap that were not looked at."""


class Eyes(Protocol):
    """What the page may see; reading it costs no request."""

    def peek(self, node: str) -> NodeView: ...

    def fleet(self) -> Fleet: ...

    def known_nodes(self) -> Collection[str]:
        """Return every known node."""
        ...

    def affected_nodes(self) -> Collection[str]:
        """Return the nodes with something to report."""
        ...


class DebugPlan:
    """The page. `role` returns which replica leads."""

    def __init__(
        self,
        eyes: Eyes,
        policy: Callable[[], Policy],
        role: Callable[[], str],
        now: Callable[[], datetime],
        cluster_name: str = "",
    ) -> None:
        self._eyes, self._policy, self._role, self._now = eyes, policy, role, now
        self._cluster_name = cluster_name

    def __call__(self, request: Request) -> Response:
        chosen = request.query.get("node", "")
        if chosen and chosen not in self._eyes.known_nodes():
            return Response(404, body=f"nothing is known of a node {chosen!r}\n".encode())
        page = self._page(chosen)
        if request.query.get("format") == "json" or "application/json" in request.accept:
            body = msgspec.json.format(msgspec.json.encode(page)) + b"\n"
            return Response(200, "application/json", body)
        return Response(200, body=text(page).encode())

    def _page(self, chosen: str) -> Page:
        now = self._now()
        reporting = [chosen] if chosen else sorted(self._eyes.affected_nodes())
        # Read once, so that all nodes of the page are decided on the same values.
        policy, fleet = self._policy(), self._eyes.fleet()
        plans = tuple(
            node_plan(
                decide_node(self._eyes.peek(node), fleet, policy, now), everything=bool(chosen)
            )
            for node in reporting[:MOST]
        )
        return Page(
            cluster=self._cluster_name,
            at=now,
            role=self._role(),
            nodes=plans,
            left_out=len(reporting[MOST:]),
        )


def node_plan(decision: NodeDecision, *, everything: bool) -> NodePlan:
    """Put a decision into words."""
    by_index = sorted(decision.pairs, key=lambda pair: (_index(pair[0]) or 0, pair[0].uuid))
    kinds = (Sick, Unknown, Healthy)
    pairs = sorted(by_index, key=lambda pair: kinds.index(type(pair[0].verdict)))
    gpus = (
        _gpu(board, planned)
        for board, planned in pairs
        if everything
        or planned.incident is not None
        or board.rules.stored
        or isinstance(board.verdict, Sick)
        or planned.demanded.undecided is not None
    )
    return NodePlan(
        node=decision.node,
        sentence=decision.sentence,
        counts=decision.counts,
        steps=tuple(_step(step) for step in decision.steps),
        wake=decision.wake,
        gpus=tuple(gpus),
    )


def _index(board: Board) -> int | None:
    return board.gpu.minor if board.gpu else None


def _gpu(board: Board, planned: Planned) -> GpuPlan:
    incident, monitor = planned.incident, evicts_monitor(board, planned)
    granted, needs = planned.granted, planned.demanded.repair.needs
    return GpuPlan(
        uuid=board.uuid,
        index=_index(board),
        verdict=_verdict(board),
        incident=incident.name if incident else "",
        phase=incident.status.phase if incident else "",
        desired=tuple(map(_rule, planned.rules)),
        stored=tuple(map(_rule, board.rules.stored)),
        deferred=f"{granted.deferred_by}: {granted.deferred}" if granted.deferred else "",
        needs=needs if needs != "nothing" else "",
        why="; ".join(filter(None, (planned.course.reason, monitor))),
        remarks=(*planned.course.remarks, *filter(None, (monitor,))),
        wake=planned.wake,
    )


def _verdict(board: Board) -> str:
    match board.verdict:
        case Sick(faults):
            return f"sick: {', '.join(fault.cause for fault in faults)}"
        case Healthy():
            return "healthy"
        case Unknown(why):
            return f"unknown: {why}"


def _rule(rule: Rule) -> str:
    return f"{rule.device} {rule.effect}"


def _step(step: Step) -> str:
    match step:
        case CreateRule(rule):
            about = _rule(rule)
        case ChangeRule(stored, rule):
            about = f"{_rule(stored)} -> {rule.effect}"
        case DeleteRule(stored, why):
            about = f"{_rule(stored)}: {why}"
        case EvictPod(_, pod, delete):
            about = f"{pod.namespace}/{pod.pod}" + (" (deleted)" if delete else "")
        case DeleteEdited(stored):
            about = f"{stored.name}: its deviceSelector was changed"
        case _:
            about = gpu_of(step)
    return f"{type(step).__name__} {about}".rstrip()


def _wake(wake: Wake) -> str:
    return f"{wake.at.isoformat()}: {wake.why}"


def text(page: Page) -> str:
    """Return the page as text for users."""
    named = f"cluster {page.cluster}, " if page.cluster else ""
    lines = [f"{named}{page.at.isoformat(timespec='seconds')}, {page.role}"]
    for node in page.nodes:
        lines += ["", node.sentence, *(f"  step: {step}" for step in node.steps)]
        lines += [f"  looked at again at {_wake(node.wake)}"] if node.wake else []
        for gpu in node.gpus:
            lines.append(f"  {gpu.uuid}")
            for name in gpu.__struct_fields__[1:]:
                value = getattr(gpu, name)
                shown = ", ".join(value) if name in ("desired", "stored") else value
                shown = _wake(value) if isinstance(value, Wake) else shown
                lines += [] if shown in ("", None) else [f"    {name}: {shown}"]
    if not page.nodes:
        lines.append("no node has an open incident or a taint rule of Draguard")
    if page.left_out:
        lines.append(f"{page.left_out} more nodes are left out; select one with ?node=NAME")
    return "\n".join(lines) + "\n"
