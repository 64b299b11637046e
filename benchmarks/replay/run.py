"""Fleets under every policy and for each delay of administrators, played by a few processes.

The histories are the same for all policies. Many nodes have the same one in several fleets, and
Draguard does the same for each delay where it waits for no administrator: each is played once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

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


class Result(msgspec.Struct, frozen=True):
    profile: str
    parameters: Parameters
    scores: tuple[Score, ...]
    """Of all policies with the first delay, then with the next."""
    truths: Counter[str]


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


def run(fleets: Sequence[Parameters], profile: str, *, workers: int) -> list[Result]:
    """Play fleets under our policy, budgets lifted, and under the peers'.

    The first is played for each delay, the others for the first one.
    """
    nodes = range(max(parameters.nodes for parameters in fleets))
    with ProcessPoolExecutor(workers) as pool:
        found = list(pool.map(_node, [(fleets, profile, node) for node in nodes]))
    results: list[Result] = []
    for number, parameters in enumerate(fleets):
        parts = [of_node[number] for of_node in found[: parameters.nodes]]
        scores = tuple(joined(row) for row in zip(*(part.scores for part in parts), strict=True))
        for score in scores:
            score.gpu_days = parameters.gpu_days
        truths = sum((part.truths for part in parts), Counter[str]())
        results.append(Result(profile, parameters, scores, truths))
    return results


class _Part(NamedTuple):
    """One node of one fleet."""

    scores: tuple[Score, ...]
    truths: Counter[str]


def _node(work: tuple[Sequence[Parameters], str, int]) -> dict[int, _Part]:
    """Play one node in each fleet that has it; one with the same history only once."""
    fleets, profile, node = work
    found: dict[int, _Part] = {}
    known: list[tuple[NodeHistory, tuple[Score, ...]]] = []
    for number, parameters in enumerate(fleets):
        if node >= parameters.nodes:
            continue
        history = history_of(parameters, profile, node)
        delays = DELAYS[:1] if number else DELAYS
        scores = next((scores for before, scores in known if before == history), None)
        if scores is None:
            scores = scored(history, delays, parameters.days * DAY)
            known.append((history, scores))
        truths = Counter[str](episode.truth for episode in history.episodes)
        found[number] = _Part(scores[: len(delays) * (1 + len(PEERS))], truths)
    return found


def scored(history: NodeHistory, delays: Iterable[float], end: float) -> tuple[Score, ...]:
    """Return what all policies do on one node, for one delay after the other."""
    delays, found = tuple(delays), list[Score]()
    for delay, player in zip(delays, played(history, enforced(), delays), strict=True):
        ours, others = Score(policy=OURS, delay=delay), scores_of_others(delay)
        score_ours(ours, history, player, end)
        score_others(others, history, end)
        found += [ours, *others]
    return tuple(found)


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
