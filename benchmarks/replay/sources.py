"""The same fleet with fewer sources, or with other drivers.

Every disruption needs a second source, and the kernel log as read by syslog(2) does
not taint anything alone. This module counts what that costs.
"""

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from benchmarks.replay.agent import Inputs
from benchmarks.replay.generator import DAY, history_with
from benchmarks.replay.names import by_hardware
from benchmarks.replay.ours import Player, enforced, play
from benchmarks.replay.rates import DELAYS, PROFILES, Kind, Parameters
from benchmarks.replay.run import OURS, score_others, score_ours, scores_of_others
from benchmarks.replay.scoring import Score, joined, score_node
from benchmarks.replay.truth import Answers, NodeHistory

SWITCH_FAULTS: dict[Kind, float] = {"switch": 100.0}
"""Per million GPU-hours; no rate is published, so this one is high enough to be seen."""


class Mode(NamedTuple):
    """Sources of a node's agent, and which fleet is played to it."""

    inputs: Inputs
    no_action_share: float | None = None
    """Share of nodes whose driver has no recovery action; None: as drawn."""
    rates: dict[Kind, float] | None = None
    """Per million GPU-hours; None: the profile's."""


MODES: dict[str, Mode] = {
    "kmsg, NVML events": Mode(Inputs()),
    "kmsg alone": Mode(Inputs(events=False)),
    "syslog, NVML events": Mode(Inputs(log="syslog")),
    "syslog alone": Mode(Inputs(log="syslog", events=False)),
    "driver before R565, kmsg, NVML events": Mode(Inputs(), 1.0),
    "driver before R565, kmsg alone": Mode(Inputs(events=False), 1.0),
    "driver before R565, syslog alone": Mode(Inputs(log="syslog", events=False), 1.0),
    "NVML hangs, kmsg": Mode(Inputs(hangs=True)),
    "NVML hangs, syslog": Mode(Inputs(log="syslog", hangs=True)),
    "SXids, kmsg": Mode(Inputs(), rates=SWITCH_FAULTS),
    "SXids, syslog": Mode(Inputs(log="syslog"), rates=SWITCH_FAULTS),
}


LOGS: dict[str, Inputs] = {
    "kmsg": Inputs(),
    "auto, journal": Inputs(log="journal"),
    "auto, journald loses every tenth line": Inputs(log="journal", lost=10),
    "syslog, or auto without a journal": Inputs(log="syslog"),
}
DRIVERS: dict[str, dict[str, object]] = {
    "R565 or newer": {"no_action_share": 0.0},
    "10 % before R565": {"no_action_share": 0.1},
    "30 % before R565": {"no_action_share": 0.3},
    "all before R565: none answers the recovery action": {"no_action_share": 1.0},
    "the recovery action is always 0, without XID 154": {
        "no_action_share": 0.0,
        "answers": "always 0",
    },
    "reading the recovery action always fails": {"no_action_share": 0.0, "answers": "never"},
    "no NVML event of XIDs 62, 79, 119, 120, 154": {"no_action_share": 0.0, "sends_all": False},
    "no such event, 30 % before R565": {"no_action_share": 0.3, "sends_all": False},
    "no such event, all before R565": {"no_action_share": 1.0, "sends_all": False},
}
"""Kinds of drivers by what sets them apart, the same for all policies."""


class DriverScores(NamedTuple):
    """What all policies do with one kind of driver."""

    driver: str
    scores: tuple[Score, ...]
    """Ours for each way to read the kernel log, then those of the others."""


def by_log(parameters: Parameters, profile: str) -> Iterator[DriverScores]:
    """Play a fleet for each kind of driver and each way to read the kernel log.

    A node with the same driver in two fleets has the same history, and is played once.
    """
    known: dict[tuple[int, bool, Answers, frozenset[int]], tuple[Score, ...]] = {}
    for driver in DRIVERS:
        scores: list[tuple[Score, ...]] = []
        for history in fleet_with(driver, parameters, profile):
            key = (history.node, history.has_action, history.answers, history.unsent)
            if key not in known:
                known[key] = _by_log(history, parameters.days * DAY)
            scores.append(known[key])
        yield DriverScores(driver, tuple(joined(row) for row in zip(*scores, strict=True)))


def fleet_with(driver: str, parameters: Parameters, profile: str) -> Iterator[NodeHistory]:
    """Yield the history of each node of a fleet with one kind of driver.

    Of the nodes exactly the given share is older than R565, rounded up. If each node drew for
    itself, a small fleet could have none of them, and its row would show nothing. The nodes of a
    smaller share are among those of a larger one.
    """
    drawn = msgspec.structs.replace(parameters, **DRIVERS[driver])
    order = list(range(drawn.nodes))
    random.Random(f"{drawn.seed}/drivers").shuffle(order)  # noqa: S311 - no secret is drawn
    old = order[: math.ceil(drawn.no_action_share * drawn.nodes)]
    for node in range(drawn.nodes):
        of_node = msgspec.structs.replace(drawn, no_action_share=float(node in old))
        yield history_with(of_node, PROFILES[profile], node)


def _by_log(history: NodeHistory, end: float) -> tuple[Score, ...]:
    """Return what is ours for each way to read the log, then what is others'."""
    policy = enforced()
    ours = [Score(policy=f"{OURS}, {log}", delay=DELAYS[0]) for log in LOGS]
    others = scores_of_others(DELAYS[0])
    for score, inputs in zip(ours, LOGS.values(), strict=True):
        score_ours(score, history, play(history, policy, inputs), end)
    score_others(others, history, end)
    return (*ours, *others)


class Share(msgspec.Struct, kw_only=True):
    """What one mode made of the faults that demand a taint and give a sign."""

    mode: str
    faults: int = 0
    tainted: int = 0
    emptied: int = 0
    """Of them, with NoExecute."""
    reported: int = 0
    """An incident, and no taint."""
    precision: float | None = None

    @property
    def missed(self) -> int:
        return self.faults - self.tainted - self.reported


def shares(parameters: Parameters, profile: str) -> Iterator[Share]:
    """Play a fleet once with each mode's sources; node by node, budgets lifted."""
    quiet = msgspec.structs.replace(parameters, app_rate=0.0, churn=False)
    for name, mode in MODES.items():
        drawn, fails = quiet, PROFILES[profile]
        if mode.no_action_share is not None:
            drawn = msgspec.structs.replace(quiet, no_action_share=mode.no_action_share)
        if mode.rates is not None:
            fails = msgspec.structs.replace(fails, rates=mode.rates)
        share, score = Share(mode=name), Score(policy=name)
        for node in range(drawn.nodes):
            history = history_with(drawn, fails, node)
            player = play(history, enforced(), mode.inputs)
            score_node(score, history, player.store.taints.all(), drawn.days * DAY)
            _add(share, history, player)
        share.precision = score.precision
        yield share


def _add(share: Share, history: NodeHistory, player: Player) -> None:
    taints = by_hardware(history, player.store.taints.all())
    for episode in history.episodes:
        if not episode.must or not episode.signalled:
            continue
        share.faults += 1
        during = [
            taint
            for taint in taints
            if taint.device in episode.must
            and taint.begin <= episode.until
            and taint.end >= episode.begin
        ]
        share.tainted += bool(during)
        share.emptied += any(taint.evicts_from <= episode.until for taint in during)
        share.reported += not during and any(
            gpu == episode.gpu and episode.begin <= at <= episode.until
            for gpu, at in player.reported
        )
