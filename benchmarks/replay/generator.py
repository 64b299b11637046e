"""Draws fleet histories with truth labels, one node after the other, by seed.

What a kind of fault shows is a script (`scripts`); a node that is being drawn
keeps what is broken and repairs it (`drawing`). What happens does not depend on
any policy, so that all are scored on the same history. Pure.
"""

import random
from collections.abc import Iterator
from functools import partial

from benchmarks.replay.drawing import DAY, NodeDrawing
from benchmarks.replay.rates import MEMORY, PROFILES, PROGRAMS, Kind, Parameters, Profile
from benchmarks.replay.scripts import CHURN_NODES, SCRIPTS, churn
from benchmarks.replay.truth import GPUS, NodeHistory

__all__ = ["DAY", "fleet", "history_of", "history_with"]


def fleet(parameters: Parameters, profile: str) -> Iterator[NodeHistory]:
    """Yield the history of each node. The same parameters give the same histories."""
    for node in range(parameters.nodes):
        yield history_of(parameters, profile, node)


def history_of(parameters: Parameters, profile: str, node: int) -> NodeHistory:
    """Return one node's history; other nodes need not be drawn for it."""
    return history_with(parameters, PROFILES[profile], node)


def history_with(parameters: Parameters, profile: Profile, node: int) -> NodeHistory:
    """Return one node's history; its rates and assumptions need not be published ones."""
    drawing = NodeDrawing(parameters, profile, node)
    rates: dict[Kind, float] = {**drawing.profile.rates, "app": parameters.app_rate}
    for kind, rate in rates.items():
        _plan(drawing, kind, rate)
    _plan_common(drawing)
    return drawing.run()


def _plan(node: NodeDrawing, kind: Kind, rate: float) -> None:
    """Plan the faults of one kind; `rate` per million GPU-hours."""
    for gpu in range(GPUS):
        hourly = rate * _share(node, kind, gpu) / 1e6
        at = 0.0
        while hourly > 0.0:
            at += node.random.expovariate(hourly) * 3600.0
            if at >= node.end:
                break
            act = partial(SCRIPTS[kind], node)
            node.later(at, node.unless_unfit(gpu, act, programs=kind in PROGRAMS))


def _share(node: NodeDrawing, kind: Kind, gpu: int) -> float:
    if kind == "nvlink":
        return 1.0 - node.profile.assumed.nvlink_again  # the rest are those that come again
    if kind not in MEMORY:
        return 1.0
    few, most = node.parameters.lemon_share, node.parameters.lemon_events
    return most / few if node.lemons[gpu] else (1.0 - most) / (1.0 - few)


def _plan_common(node: NodeDrawing) -> None:
    """Plan what concerns many nodes: the upgrade and the churn."""
    parameters = node.parameters
    common = random.Random(f"{parameters.seed}/common")  # noqa: S311 - no secret is drawn
    upgrade = common.uniform(0.3, 0.7) * node.end + node.node * 60.0
    churn_at, churned = common.uniform(0.1, 0.9) * node.end, set[int]()
    while len(churned) < min(CHURN_NODES, parameters.nodes):
        churned.add(common.randrange(parameters.nodes))
    if parameters.upgrade:
        node.later(upgrade, node.upgrade)
    if parameters.churn and node.node in churned:
        node.later(churn_at, lambda at: churn(node, at))
