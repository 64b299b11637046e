"""Plans as a page: each node's sentence, its steps, its GPUs. Pure."""

from collections.abc import Iterator
from datetime import datetime

from draguard.cluster.plans import Plans
from draguard.phrases import beginning, count, gpu_name, moment
from draguard.render.blocks import Block, Cell, Facts, Lines, Table, leaf
from remediator.controller.debug_plan import NodePlan

_DONE = "no sick GPUs, no open incidents, no taint rules"


def plan_page(plans: Plans) -> Iterator[Block]:
    problems = "; ".join(plans.policy_problems)
    policy = Cell(f"{plans.policy}: not readable: {problems}", "bad") if problems else plans.policy
    yield Lines((Cell(plans.source, "dim"),))
    yield Facts((("policy", policy),))
    yield Lines(tuple(Cell(remark, "warn") for remark in plans.remarks))
    for node in plans.page.nodes:
        yield from _node(node, plans.page.at)
    if not plans.page.nodes:
        yield Lines((Cell(_DONE, "good"),))
    if plans.page.left_out:
        left_out = count(plans.page.left_out, "more node is", "more nodes are")
        yield Lines((f"{left_out} not shown; select one with --node",))


def _node(node: NodePlan, now: datetime) -> Iterator[Block]:
    steps = [f"would do: {step}" for step in node.steps] or ["nothing to do now"]
    wake = node.wake
    steps += [f"next check at {moment(wake.at, now)}: {wake.why}"] if wake else []
    yield Lines(tuple(steps), title=f"Node {node.node}: {node.counts}")
    yield Table(
        ("GPU", "UUID", "VERDICT", "PHASE", "DESIRED", "CURRENT", "WHY"),
        tuple(
            (
                gpu_name(node.node, gpu.index),
                Cell(gpu.uuid, short=beginning(gpu.uuid)),
                gpu.verdict,
                gpu.phase,
                leaf(*gpu.desired),
                leaf(*gpu.stored),
                # Beside a deferral, the reason for what is deferred would contradict it.
                Cell("; ".join((f"deferred ({by}): {why}", *gpu.remarks)), "warn")
                if why
                else gpu.why,
            )
            for gpu in node.gpus
            for by, _, why in (gpu.deferred.partition(": "),)
        ),
    )
