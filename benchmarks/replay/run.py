"""One fleet under every policy and for each delay of administrators, played by a few processes.

The histories are the same for all, and so is what Draguard does where it waits for no
administrator: that is played once.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import msgspec

from benchmarks.replay.generator import DAY, fleet, history_of
from benchmarks.replay.ours import Player, enforced, play, play_together
from benchmarks.replay.peers import PEERS
from benchmarks.replay.rates import DELAYS, Parameters
from benchmarks.replay.scoring import Score, joined, score_node
from benchmarks.replay.truth import NodeHistory
from remediator.policy.limits import Limits
from remediator.policy.table import Policy

OURS = "Draguard"
HELD = "Draguard, shipped budgets"
PARTS = 16
"""A fleet is played in so many parts, each by the next free process."""


class Result(msgspec.Struct, frozen=True):
    profile: str
    parameters: Parameters
    scores: tuple[Score, ...]
    """Of all policies with the first delay, then with the next."""
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


def run(
    parameters: Parameters, profile: str, *, workers: int, delays: tuple[float, ...] = DELAYS
) -> Result:
    """Play a fleet under our policy, budgets lifted, and under the peers', for each delay."""
    began = time.monotonic()
    parts = [range(first, parameters.nodes, PARTS) for first in range(PARTS)]
    with ProcessPoolExecutor(workers) as pool:
        found = list(
            pool.map(_part, [(parameters, profile, nodes, delays) for nodes in parts if nodes])
        )
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


def _part(work: tuple[Parameters, str, range, tuple[float, ...]]) -> Result:
    parameters, profile, nodes, delays = work
    policy, end = enforced(), parameters.days * DAY
    ours = [Score(policy=OURS, delay=delay) for delay in delays]
    theirs = [scores_of_others(delay) for delay in delays]
    truths, ticks, writes = Counter[str](), 0, 0
    for node in nodes:
        history = history_of(parameters, profile, node)
        truths.update(episode.truth for episode in history.episodes)
        for score, player in zip(ours, played(history, policy, delays), strict=True):
            score_ours(score, history, player, end)
            ticks, writes = ticks + player.ticks, writes + player.store.writes
        for scores in theirs:
            score_others(scores, history, end)
    found = tuple(
        score for mine, others in zip(ours, theirs, strict=True) for score in (mine, *others)
    )
    for score in found:
        score.gpu_days = len(nodes) * 8.0 * parameters.days
    return Result(profile, parameters, found, truths, ticks, writes, 0.0)


def played(history: NodeHistory, policy: Policy, delays: Iterable[float]) -> Iterator[Player]:
    """Play a node under our policy for each delay, but once if it waits for no administrator."""
    player: Player | None = None
    for delay in delays:
        if player is None or player.waited:
            player = play(history, policy, delay=delay)
        yield player


def score_ours(score: Score, history: NodeHistory, player: Player, end: float) -> None:
    """Add what our policy did on one node; before R565 it does not see that a GPU was reset."""
    taints = player.store.taints.all()
    score_node(score, history, taints, end, by_reset=history.has_action)


def scores_of_others(delay: float) -> list[Score]:
    return [Score(policy=peer.name, delay=delay) for peer in PEERS]


def score_others(scores: list[Score], history: NodeHistory, end: float) -> None:
    """Add what each of the other policies did on one node, with the delay of its score."""
    for peer, score in zip(PEERS, scores, strict=True):
        taints = peer(history, score.delay).play().all()
        score_node(score, history, taints, end, by_reset=peer.by_reset)


def with_budgets(parameters: Parameters, profile: str) -> Budgeted:
    """Play a fleet in one order of time under the shipped budgets."""
    histories = list(fleet(parameters, profile))
    score = Score(policy=HELD, delay=DELAYS[0], gpu_days=parameters.gpu_days)
    held, incidents = 0, 0
    players = play_together(histories, enforced(Limits()))
    for history, player in zip(histories, players, strict=True):
        score_ours(score, history, player, parameters.days * DAY)
        incidents += player.opened
        held += len(player.held)
    return Budgeted(profile, parameters, score, incidents, held)
