"""What defers what would begin, whatever the GPU's own faults demand: one table of brakes.

A brake weakens nothing that stands (`grants`). How far one fault may go is no brake but a cap
(`caps`).

A new brake is a row of `OWN` where the GPU's own board shows why, or of `FLEET` where the fleet or
the policy does; its reason is a row of `stages.DEFERRAL_REASONS`. In a group the row with the
lowest limit applies; of equal limits the first. What a user can write on an object to stop what
begins is also read by the last look (`controller/final_check`): a watch may lag.

Device-taint eviction ignores PodDisruptionBudgets: the budgets are the only limit on it. `spending`
says what is counted, and on which assumption. Pure.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Literal

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import NODE_LEVEL
from remediator.model.taint_rule import EFFECTS, EVICTING, Effect, Rule
from remediator.plan.board import Board
from remediator.plan.clocks import request_in_this_stay
from remediator.plan.correlation import Waves
from remediator.plan.evictable import requestable_pods
from remediator.plan.pods import devices_drained_elsewhere, not_looked_at, why_not_yet
from remediator.plan.spending import Action, RuleAction, Spending, suffers
from remediator.plan.stages import DeferredBy, Granted
from remediator.plan.view import Fleet, GpuPlace, names_on
from remediator.policy.place import Place
from remediator.policy.table import Policy

LOOK_AGAIN, LOOK_AGAIN_DRAINING = timedelta(seconds=5), timedelta(seconds=60)
"""When to list the pods again: one is not in the list yet, or is being drained."""

Beginning = Literal["rule", "taint", "disruption", "eviction", "deletion", "request", "call"]
"""What may begin on a GPU. `rule`: a rule that is new, stronger, or of another taint key, which
other pods tolerate. `taint`: its first taint. `disruption`: a device begins to be evicted from, or
by another way. `eviction`: its first one, or one more after the last was over, as budgets count.
`deletion`: NoExecute for pods that are evicted by request. `request`: to evict a pod, each anew.
`call`: for a repair of its node."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all GPUs of a decision."""

    fleet: Fleet
    policy: Policy
    now: datetime
    spending: Spending
    waves: Waves
    calling: bool
    """Repairs of nodes are called for."""


def open_account(fleet: Fleet, policy: Policy, now: datetime, *, calling: bool) -> Account:
    return Account(
        fleet=fleet,
        policy=policy,
        now=now,
        spending=Spending(fleet, now),
        waves=Waves(fleet, policy, now),
        calling=calling,
    )


class Question(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One GPU, as the brakes look at it."""

    board: Board
    granted: Granted
    """What the brakes before have left."""
    stored: tuple[Rule, ...]
    """Rules on its devices, and those that follow it to another name, one for each device."""
    place: GpuPlace
    account: Account

    @cached_property
    def by_device(self) -> dict[Device, Rule]:
        return {rule.device: rule for rule in self.stored}

    @cached_property
    def rising(self) -> tuple[Rule, ...]:
        """Rules that do more than what is stored."""
        return tuple(
            rule
            for rule in self.granted.rules
            if is_stronger(rule, self.by_device.get(rule.device))
        )

    @cached_property
    def disruptions(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rising if rule.effect in EVICTING)

    @cached_property
    def beginnings(self) -> frozenset[Beginning]:
        requested = {rule.device for rule in self.stored if rule.effect == "Evict"}
        deletes = any(
            rule.effect == "NoExecute" and rule.device in requested for rule in self.rising
        )
        kinds: tuple[tuple[Beginning, bool], ...] = (
            ("rule", bool(self.rising)),
            ("taint", self._begins("taint")),
            ("disruption", bool(self.disruptions)),
            ("eviction", self._begins("evict", again=deletes or self.granted.resumes)),
            ("deletion", deletes),
            ("request", bool(requestable_pods(self.board, self.granted))),
            ("call", self.account.calling and calls(self.granted)),
        )
        return frozenset(kind for kind, begins in kinds if begins)

    def _begins(self, action: RuleAction, *, again: bool = False) -> bool:
        """Whether a GPU begins to suffer an action.

        After the last eviction was over it begins again on a further device, for pods that are
        there by now, and with NoExecute after evictions by request.
        """
        devices = {rule.device for rule in self.granted.rules if suffers(rule, action)}
        standing = [rule for rule in self.stored if suffers(rule, action)]
        if not devices or not standing:
            return bool(devices)
        # The unit is the GPU: a further slice of one that counts already costs nothing.
        if action == "taint" or not all(map(self.account.spending.is_drained, standing)):
            return False
        return again or not devices <= {rule.device for rule in standing}

    @cached_property
    def policy_place(self) -> Place:
        """Where the policy sees the GPU.

        The view remembers places that are no longer published; the desired rules name the devices
        that they taint.
        """
        named, known = (pool.partition("/") for pool in self.place.pools), self.board.place
        rules = (*self.granted.rules, *self.stored)
        return Place(
            node=self.place.node,
            pools=known.pools | {(driver, pool) for driver, _, pool in named},
            device_classes=known.device_classes | self.place.classes,
            devices=known.devices | {self.granted.uuid, *(rule.uuid for rule in rules)},
        )


class Found(msgspec.Struct, frozen=True):
    """Why a brake applies now."""

    why: str
    until: datetime | None = None
    """When to decide again; None: something else than time ends it."""
    devices: frozenset[Device] | None = None
    """Which devices it is about; None: all of the GPU."""
    by: DeferredBy | None = None
    """Another reason than that of its row."""


class Brake(msgspec.Struct, frozen=True):
    """One row: what it defers, how far a device may still go, and when it applies."""

    by: DeferredBy
    begins: frozenset[Beginning]
    """It may apply where one of these begins."""
    most: Effect | None
    """What a device may still get that has less; None: no rule at all."""
    applies: Callable[[Question], Found | None]


def _blindness(question: Question) -> Found | None:
    """Defer what begins while the matrix of trust refuses to disrupt."""
    why = question.board.trust.refusal("disrupt")
    return Found(f"{_word(question.disruptions)} deferred: {why}") if why else None


def _pods_to_drain(question: Question) -> Found | None:
    """Defer what begins on a device with pods that another system drains, or that are not listed.

    Requests to the Eviction API name single pods, which are looked at one by one.
    """
    board = question.board
    # Pods of a Slinky NodeSet run Slurm's jobs: an eviction kills them, and Slurm cannot know why.
    theirs, unknown = devices_drained_elsewhere(board), not_looked_at(board)
    waits = [
        rule
        for rule in question.disruptions
        if str(rule.device) in theirs
        or (rule.effect == "NoExecute" and str(rule.device) in unknown)
    ]
    if not waits:
        return None
    names = {str(rule.device) for rule in waits}
    return Found(
        why=f"{_word(waits)} deferred: {why_not_yet(board, names)}",
        until=question.account.now + (LOOK_AGAIN if unknown else LOOK_AGAIN_DRAINING),
        devices=frozenset(rule.device for rule in waits),
        # PodOwner means that Slurm must drain pods: wrong where only the list of pods lacks one.
        by="PodOwner" if names & theirs else "PodsUnknown",
    )


def emergency_stop(fleet: Fleet, policy: Policy) -> str:
    """Return who stopped all that is new and why, "" while there is no stop."""
    return fleet.stopped or policy.stopped


def pause(fleet: Fleet, policy: Policy, place: Place, now: datetime) -> str:
    """Return why nothing may begin at a place, "" when it may."""
    return emergency_stop(fleet, policy) or policy.why_paused(place, now)


def _emergency_stop(question: Question) -> Found | None:
    """Defer everything new during an emergency stop."""
    stop = emergency_stop(question.account.fleet, question.account.policy)
    return Found(f"new actions deferred: emergency stop: {stop}") if stop else None


def _maintenance_window(question: Question) -> Found | None:
    """Defer everything new in a maintenance window of the place."""
    policy, now, place = question.account.policy, question.account.now, question.policy_place
    why = policy.why_paused(place, now)
    return Found(f"new actions deferred: {why}", policy.pause_end(place, now)) if why else None


def _wave_of_taints(question: Question) -> Found | None:
    """Defer a taint for a cause that is new on many nodes, when enough of the product has one."""
    account, incident = question.account, question.granted.incident
    cap = account.policy.limits.correlation.taint
    if cap is None or incident is None:
        return None
    for name in names_on("product", question.place):
        used = account.spending.count("taint", "product", name)
        limit = cap.of(account.spending.total("product", name))
        wave = account.waves.same_cause(incident) if used >= limit else None
        if wave is not None:
            why = f"NoSchedule deferred: {wave.why}, and {used} GPUs of {name} are tainted"
            return Found(f"{why} (budget correlation.taint={cap}: {limit})", wave.until)
    return None


def _wave(action: Action, question: Question) -> Found | None:
    """Defer it for a cause that is new on many nodes, or after a change of driver or policy."""
    incident = question.granted.incident
    if incident is None:
        return None
    # By the place that gave the rows: the wider one of pauses has names that they may lack.
    wave = question.account.waves.wave_of(incident, question.board.place)
    return Found(f"{_word_of(action, question)} deferred: {wave.why}", wave.until) if wave else None


def _cap(action: Action, question: Question) -> Found | None:
    """Defer it where one more GPU would exceed a cap of the policy's budget."""
    limits, spending = question.account.policy.limits, question.account.spending
    mine = question.granted.uuid
    if action == "call" and spending.is_called_for(mine) and _is_requested(question):
        return None  # a call that is granted costs nothing more, like an eviction that stands
    caps = limits.taint if action == "taint" else limits.evict
    full = spending.full_cap(action, caps, mine, question.place)
    if full is None:
        return None
    capped_by = "taint" if action == "taint" else "evict"
    why = f"{_word_of(action, question)} deferred: budget {capped_by}.{full.why}"
    return Found(why, full.until)


def _is_requested(question: Question) -> bool:
    """Whether the repair that is needed now was requested already: in this machine and boot."""
    granted = question.granted
    return granted.incident is not None and bool(
        request_in_this_stay(question.board, granted.incident.status, granted.demanded.repair.calls)
    )


_DEFERRED: dict[Action, str] = {
    "taint": "NoSchedule",
    "evict": "NoExecute",
    "call": "call for repair",
}


def _word_of(action: Action, question: Question) -> str:
    """Return the word for an action that is deferred."""
    if action == "evict":
        return _word(question.disruptions or question.granted.rules)
    return _DEFERRED[action]


def _word(rules: Iterable[Rule]) -> str:
    """Return `Evict` where nothing of these rules is NoExecute."""
    return "Evict" if {rule.effect for rule in rules} & EVICTING == {"Evict"} else "NoExecute"


def _of(*kinds: Beginning) -> frozenset[Beginning]:
    return frozenset(kinds)


OWN: tuple[Brake, ...] = (
    Brake("Blindness", _of("disruption"), "NoSchedule", _blindness),
    Brake("PodOwner", _of("disruption"), "NoSchedule", _pods_to_drain),
)
"""What the GPU's own board shows. They come first: what they defer costs no budget."""
FLEET: tuple[Brake, ...] = (
    Brake("EmergencyStop", _of("rule", "request", "call"), None, _emergency_stop),
    Brake("Maintenance", _of("rule", "request", "call"), None, _maintenance_window),
    # Not `no rule`: a None rule costs nothing, and passes beside a taint that is deferred.
    Brake("Budget", _of("taint"), "None", partial(_cap, "taint")),
    Brake("Correlation", _of("taint"), "None", _wave_of_taints),
    # A wave may come up during evictions by request, so it is looked for again before NoExecute. A
    # budget is not: such a GPU counts already, unless its evictions were over.
    Brake("Correlation", _of("eviction", "deletion"), "NoSchedule", partial(_wave, "evict")),
    Brake("Budget", _of("eviction"), "NoSchedule", partial(_cap, "evict")),
)
"""What the fleet and the policy show, about the GPUs of a node one after another."""
CALL: tuple[Brake, ...] = (
    Brake("Correlation", _of("call"), "NoExecute", partial(_wave, "call")),
    Brake("Budget", _of("call"), "NoExecute", partial(_cap, "call")),
)
"""What defers a call for repair of the node alone. Others may stop all pods of the node for it,
whatever the rules of the GPU are. A wave that comes up after the call defers it all the same,
because the node has not been repaired yet."""


def calls(granted: Granted) -> bool:
    """Whether a repair of the node is to be called for."""
    demanded = granted.demanded
    return demanded.repair.calls in NODE_LEVEL and not demanded.course.is_over


def is_stronger(rule: Rule, stored: Rule | None) -> bool:
    """Whether a rule does more than the stored one. Another key is tolerated by other pods."""
    if stored is None:
        return True
    ranks = rank(rule.effect), rank(stored.effect)
    return ranks[0] > ranks[1] or (ranks[0] == ranks[1] and rule.fault != stored.fault)


def least_brake(question: Question, group: Iterable[Brake]) -> tuple[Brake, Found] | None:
    """Return the brake of a group that allows least now; of equals the first."""
    least: tuple[Brake, Found] | None = None
    for brake in group:
        lower = least is None or rank(brake.most) < rank(least[0].most)
        if lower and brake.begins & question.beginnings and (found := brake.applies(question)):
            least = brake, found
    return least


def rank(most: Effect | None) -> int:
    return -1 if most is None else EFFECTS.index(most)
