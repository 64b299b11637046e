"""Our policy in the replay: the real core over the reports of simulated agents.

`decide_node` is called as the loop would call it: when a report changes, and when the core
requested a wake-up; its steps are taken by a store in memory. Quiet nodes cost nothing. Not played:
claims and pods (every device counts as empty).
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

import msgspec

from benchmarks.replay.agent import EVERYTHING, ORIGIN, Agent, Inputs, moment
from benchmarks.replay.rates import DELAYS
from benchmarks.replay.taints import Taints
from benchmarks.replay.truth import WHOLE, Happening, NodeHistory
from benchmarks.replay.truth import Device as Slot
from exporter.model.device import Device
from remediator.model.incident import Incident, with_intent
from remediator.model.intent import Intent
from remediator.model.taint_rule import EVICTING, Rule
from remediator.plan.board import RENEWALS_NEEDED
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import ChangeRule, CreateRule, DeleteRule, OpenIncident, Step
from remediator.plan.view import AgentView, Fleet, GpuPlace, Ground, NodeView, SliceView, StoreView
from remediator.policy.limits import LIFTED, Limits
from remediator.policy.table import SHIPPED, Policy
from remediator.step_store import StepStore

TOGETHER = 0.25
"""Seconds for which an agent gathers news before it writes."""
LOOK = 0.3
"""Seconds from an event to the sample that it requested."""
SAMPLE = 30.0
"""Seconds between samples while a GPU is missed: it is lost after 60."""
STALE = 150.0
"""Seconds without a report after which an agent is stale."""
SETTLES = 12
"""Ticks at one moment after which a node that never settles is reported."""


def enforced(limits: Limits = LIFTED) -> Policy:
    """Return the shipped policy with every class enforced; budgets lifted unless given."""
    rows = tuple(msgspec.structs.replace(row, mode="enforce") for row in SHIPPED)
    return Policy(rows=rows, limits=limits)


class NeverSettlesError(RuntimeError):
    """The core requests more steps at every tick of one moment."""


class Store(StepStore):
    """What the API server would hold of one node, and the taints that follow from it."""

    def __init__(self) -> None:
        super().__init__()
        self.taints = Taints()

    def play(self, step: Step, at: float) -> None:
        """Take a step at a time of the history."""
        self.take(step, moment(at))
        match step:
            case CreateRule(rule) | ChangeRule(_, rule) if rule.effect != "None":
                self.taints.taint(slot_of(rule.device), at, evicting=rule.effect in EVICTING)
            case CreateRule(rule) | ChangeRule(_, rule) | DeleteRule(rule):
                self.taints.free(slot_of(rule.device), at)
            case _:
                pass

    def confirm(self, name: str, at: float) -> None:
        """Let an administrator confirm the repair of an incident."""
        stored = self.incidents.get(name)
        if stored is None or not stored.open:
            return
        intent = Intent(until=moment(at + 86400.0), by="replay", reason="looked at")
        self.put_incident(with_intent(stored, "RepairConfirmed", intent))


def slot_of(device: Device) -> Slot:
    """Return GPU and slice index of `gpu-3` or `gpu-3-mig-1g10gb-19-4`."""
    words = device.device.split("-")
    return int(words[1]), int(words[-1]) if len(words) > 2 else WHOLE


class Player:
    """One node under our policy, moment by moment."""

    def __init__(
        self,
        history: NodeHistory,
        policy: Policy,
        inputs: Inputs = EVERYTHING,
        delay: float = DELAYS[0],
    ) -> None:
        self._agent = Agent(history, inputs)
        self._episodes = history.episodes
        self._policy = policy
        self._delay = delay
        """Seconds after which an administrator confirms a repair that needs it."""
        self.waited = False
        """Whether it waited for an administrator: else another delay changes nothing."""
        self.store = Store()
        self._agenda: list[tuple[float, int, Happening | str | None]] = [
            (happening.at, number, happening) for number, happening in enumerate(history.happenings)
        ]
        self._entries = len(self._agenda)
        self._looked = 0.0
        self._down_at = 0.0
        self._waiting: set[str] = set()
        """Incidents that request a user's word now."""
        self._unreported: set[str] = set()
        """Those of which no source reports the end: the repair may still be under way."""
        self._confirming: set[str] = set()
        """Those that an administrator will look at, and confirm if they still request it."""
        self.opened = 0
        """Incidents that were opened."""
        self.reported: list[tuple[int, float]] = []
        """Of which GPU, and when."""
        self.held: set[str] = set()
        """Incidents of which something was deferred."""
        self.ticks = 0

    @property
    def agent(self) -> Agent:
        return self._agent

    @property
    def next_at(self) -> float | None:
        return self._agenda[0][0] if self._agenda else None

    def places(self) -> Mapping[str, GpuPlace]:
        """Return where this node's GPUs are, for counting."""
        pools = frozenset({f"gpu.nvidia.com/{self._agent.name}"})
        return {uuid: GpuPlace(node=self._agent.name, pools=pools) for uuid in self._agent.gpu_of}

    def gpu_of(self, uuid: str) -> int | None:
        """Return the index of a GPU, of a former board too."""
        return self._agent.gpu_of.get(uuid)

    def step(self, fleet: Fleet | None = None) -> None:
        """Play the next moment: news that comes together, a sample, or a wake-up."""
        at, _, first = heapq.heappop(self._agenda)
        if not isinstance(first, Happening):
            if first is not None:
                self._confirm(first, at)
            self._wake(at, fleet)
            return
        happenings = [first]
        while self._agenda and self._agenda[0][0] <= at + TOGETHER:
            _, _, more = heapq.heappop(self._agenda)
            if isinstance(more, Happening):
                happenings.append(more)
            elif more is not None:
                self._confirm(more, at)
        for happening in happenings:
            self._agent.take(happening)
            if happening.kind in {"booted", "nvml-up", "nvml-down"}:
                self._agent.look(happening.at)
        written = max(happening.at for happening in happenings)
        if not self._agent.alive:
            self._down_at = written
            self._later(written + STALE)
            return
        self._decide(written, fleet)
        self._later(written + LOOK)

    def _confirm(self, incident: str, at: float) -> None:
        until = self._broken_until(incident, at) if incident in self._unreported else None
        if until == float("inf"):
            return  # it is repaired after the history, if ever: no look finds it repaired
        self._confirming.discard(incident)
        if incident not in self._waiting:
            return
        if until is None:
            self.store.confirm(incident, at)
        else:
            self._look_later(incident, at)

    def _look_later(self, incident: str, at: float) -> None:
        self._confirming.add(incident)
        self._later(at + self._delay, confirms=incident)
        self.waited = True

    def _broken_until(self, incident: str, at: float) -> float | None:
        """Return when a GPU is repaired that an administrator finds broken, None for another."""
        stored = self.store.incidents.get(incident)
        gpu = self._agent.gpu_of.get(stored.spec.uuid) if stored else None
        ends = [
            episode.until
            for episode in self._episodes
            if episode.gpu == gpu and episode.must and episode.begin <= at < episode.until
        ]
        return max(ends, default=None)

    def _wake(self, at: float, fleet: Fleet | None) -> None:
        if self._agent.alive:
            self._agent.look(at)
            if self._agent.misses:
                self._later(at + SAMPLE)
        self._decide(at, fleet)

    def _later(self, at: float, confirms: str | None = None) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (at, self._entries, confirms))

    def _decide(self, at: float, fleet: Fleet | None) -> None:
        now, sentence = moment(at), ""
        for _ in range(SETTLES):
            self.ticks += 1
            store = self.store
            rules, incidents = tuple(store.rules.values()), tuple(store.incidents.values())
            seen = fleet or Fleet(rules=rules, incidents=incidents)
            decision = decide_node(self._view(rules, incidents, at), seen, self._policy, now)
            for step in decision.steps:
                store.play(step, at)
                if isinstance(step, OpenIncident):
                    self.opened += 1
                    self.reported.append((self._agent.gpu_of[step.incident.spec.uuid], at))
            self._note(decision, at)
            if not decision.steps:
                if decision.wake_at is not None:
                    wake = (decision.wake_at - ORIGIN).total_seconds()
                    self._later(max(wake, at + 1.0))
                return
            sentence = decision.sentence
            fleet = None if fleet is None else with_node(fleet, self._agent.name, store)
        raise NeverSettlesError(sentence)

    def _note(self, decision: NodeDecision, at: float) -> None:
        for board, planned in decision.pairs:
            if planned.incident is None:
                continue
            if planned.granted.deferred:
                self.held.add(planned.incident.name)
            name, unreported = planned.incident.name, bool(planned.record.end_unreported)
            waits = bool(planned.record.confirmation) and (
                planned.course.verified or not board.presence.reported
            )
            waits = waits or unreported
            (self._waiting.add if waits else self._waiting.discard)(name)
            (self._unreported.add if unreported else self._unreported.discard)(name)
            if waits and name not in self._confirming:
                self._look_later(name, at)

    def _view(
        self, rules: tuple[Rule, ...], incidents: tuple[Incident, ...], at: float
    ) -> NodeView:
        unanswered = not self._agent.alive and at - self._down_at >= STALE
        return NodeView(
            node=self._agent.name,
            agent=AgentView(
                report=self._agent.report,
                stale=f"the agent of {self._agent.name} has been silent" if unanswered else "",
                renewals=() if unanswered else (moment(at),) * RENEWALS_NEEDED,
                behind=timedelta(),
            ),
            slices=SliceView(
                inventory=self._agent.inventory,
            ),
            stored=StoreView(
                incidents=incidents,
                rules=rules,
            ),
        )


def with_node(fleet: Fleet, node: str, store: Store) -> Fleet:
    """Return the fleet with one node's rules and incidents as they are stored now."""
    rules = (*(rule for rule in fleet.rules if rule.node != node), *store.rules.values())
    incidents = (
        *(incident for incident in fleet.incidents if incident.node != node),
        *store.incidents.values(),
    )
    return msgspec.structs.replace(fleet, rules=rules, incidents=incidents)


def play(
    history: NodeHistory,
    policy: Policy,
    received: Inputs = EVERYTHING,
    delay: float = DELAYS[0],
) -> Player:
    """Play one node to its end, with a fleet of this node alone."""
    player = Player(history, policy, received, delay)
    while player.next_at is not None:
        player.step()
    return player


def play_with(history: NodeHistory, policy: Policy, look: Callable[[Agent, float], None]) -> Player:
    """Play one node to its end; `look` is shown the agent at the start and after each moment."""
    player = Player(history, policy)
    look(player.agent, 0.0)
    while (at := player.next_at) is not None:
        player.step()
        look(player.agent, at)
    return player


def play_together(histories: Iterable[NodeHistory], policy: Policy) -> Iterator[Player]:
    """Play all nodes in one order of time, so that budgets see the whole fleet."""
    players = [Player(history, policy) for history in histories]
    places: dict[str, GpuPlace] = {}
    for candidate in players:
        places |= candidate.places()
    totals: dict[tuple[Ground, str], int] = {("cluster", ""): len(places)}
    totals |= {("node", place.node): 8 for place in places.values()}
    queue = [
        (waiting.next_at, number)
        for number, waiting in enumerate(players)
        if waiting.next_at is not None
    ]
    heapq.heapify(queue)
    rules: dict[int, tuple[Rule, ...]] = {}
    incidents: dict[int, tuple[Incident, ...]] = {}
    while queue:
        _, number = heapq.heappop(queue)
        player = players[number]
        fleet = Fleet(
            rules=tuple(rule for many in rules.values() for rule in many),
            incidents=tuple(incident for many in incidents.values() for incident in many),
            places=places,
            totals=totals,
        )
        player.step(fleet)
        rules[number] = tuple(player.store.rules.values())
        incidents[number] = tuple(
            incident for incident in player.store.incidents.values() if incident.open
        )
        if player.next_at is not None:
            heapq.heappush(queue, (player.next_at, number))
    yield from players
