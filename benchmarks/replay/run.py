"""One fleet under every policy, played by a few processes."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import msgspec

from benchmarks.replay.generator import DAY, fleet, history_of
from benchmarks.replay.ours import enforced, play, play_together
from benchmarks.replay.peers import PEERS
from benchmarks.replay.rates import Parameters
from benchmarks.replay.scoring import Score, joined, score_node
from remediator.policy.limits import Limits

OURS = "Draguard"
HELD = "Draguard, shipped budgets"
PARTS = 16
"""A fleet is played in so many parts, each by the next free process."""


class Result(msgspec.Struct, frozen=True):
    profile: str
    parameters: Parameters
    scores: tuple[Score, ...]
    truths: Counter[str]
    ticks: int
    writes: int
    seconds: float


class Budgeted(msgspec.Struct, frozen=True):
    """What the shipped budgets deferred on a fleet that was played in one order of time."""

    profile: str
    parameters: Parameters
    score: Score
    incidents: int
    held: int
    """Incidents of which something was deferred at some time."""


def variations(parameters: Parameters, *, sensitivity: bool) -> Iterator[Parameters]:
    """Yield the parameters themselves, then a quarter of the fleet with one of them changed."""
    yield parameters
    fewer = smaller(parameters)
    changed = ({"app_rate": 300.0}, {"app_rate": 3000.0}, {"mig_share": 0.0}, {"mig_share": 0.3})
    for fields in changed if sensitivity else ():
        yield msgspec.structs.replace(fewer, **fields)


def smaller(parameters: Parameters) -> Parameters:
    """Return a quarter of a fleet."""
    return msgspec.structs.replace(parameters, nodes=max(parameters.nodes // 4, 1))


def run(parameters: Parameters, profile: str, *, workers: int) -> Result:
    """Play a fleet under our policy, budgets lifted, and under the peers'."""
    began = time.monotonic()
    parts = [range(first, parameters.nodes, PARTS) for first in range(PARTS)]
    with ProcessPoolExecutor(workers) as pool:
        found = list(pool.map(_part, [(parameters, profile, nodes) for nodes in parts if nodes]))
    rows = zip(*(part.scores for part in found), strict=True)
    return Result(
        profile=profile,
        parameters=parameters,
        scores=tuple(joined(row) for row in rows),
        truths=sum((part.truths for part in found), Counter[str]()),
        ticks=sum(part.ticks for part in found),
        writes=sum(part.writes for part in found),
        seconds=time.monotonic() - began,
    )


def _part(work: tuple[Parameters, str, range]) -> Result:
    parameters, profile, nodes = work
    policy, end = enforced(), parameters.days * DAY
    ours = Score(policy=OURS)
    theirs = [Score(policy=peer.name) for peer in PEERS]
    truths, ticks, writes = Counter[str](), 0, 0
    for node in nodes:
        history = history_of(parameters, profile, node)
        truths.update(episode.truth for episode in history.episodes)
        player = play(history, policy)
        ticks, writes = ticks + player.ticks, writes + player.store.writes
        score_node(ours, history, player.store.taints.all(), end)
        for peer, score in zip(PEERS, theirs, strict=True):
            score_node(score, history, peer(history).play().all(), end)
    for score in (ours, *theirs):
        score.gpu_days = len(nodes) * 8.0 * parameters.days
    return Result(profile, parameters, (ours, *theirs), truths, ticks, writes, 0.0)


def with_budgets(parameters: Parameters, profile: str) -> Budgeted:
    """Play a fleet in one order of time under the shipped budgets."""
    histories = list(fleet(parameters, profile))
    score, held, incidents = Score(policy=HELD, gpu_days=parameters.gpu_days), 0, 0
    players = play_together(histories, enforced(Limits()))
    for history, player in zip(histories, players, strict=True):
        score_node(score, history, player.store.taints.all(), parameters.days * DAY)
        incidents += player.opened
        held += len(player.held)
    return Budgeted(profile, parameters, score, incidents, held)
