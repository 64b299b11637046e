"""Plans for a person: each node's sentence, its steps, its GPUs. Pure."""

from collections.abc import Iterator

from draguard.output.sheet import Block, Cell, Facts, Lines, Table
from draguard.plan.pages import Plans
from remediator.hands.debug_plan import NodePlan

_DONE = "nothing is wrong and nothing stands"


def sheet(plans: Plans) -> Iterator[Block]:
    problems = "; ".join(plans.policy_problems)
    policy = Cell(f"{plans.policy}: not readable: {problems}", "bad") if problems else plans.policy
    yield Lines((Cell(plans.source, "dim"),))
    yield Facts((("policy", policy),))
    yield Lines(tuple(Cell(one, "warn") for one in plans.remarks))
    for node in plans.page.nodes:
        yield from _node(node)
    if not plans.page.nodes:
        yield Lines((Cell(_DONE, "good"),))
    if plans.page.left_out:
        yield Lines((f"{plans.page.left_out} more nodes are left out; ask for one by --node",))


def _node(node: NodePlan) -> Iterator[Block]:
    steps = [f"would do: {step}" for step in node.steps] or ["nothing to do now"]
    steps += [f"looked at again at {node.wake_at:%Y-%m-%dT%H:%M:%SZ}"] if node.wake_at else []
    yield Lines((node.sentence, *steps), title=f"Node {node.node}")
    yield Table(
        ("GPU", "VERDICT", "PHASE", "SHOULD STAND", "STANDS", "HELD", "WHY"),
        tuple(
            (
                one.uuid,
                one.verdict,
                one.phase,
                ", ".join(one.wanted),
                ", ".join(one.stored),
                Cell(one.held, "warn"),
                one.why,
            )
            for one in node.gpus
        ),
    )
