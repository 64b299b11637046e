"""What is promised of the Node's conditions, by which others are called to repair it."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from remediator.diagnose.fault import NEEDS, Healthy
from remediator.model.incident import Incident
from remediator.model.incident_status import RepairRequest
from remediator.model.node import PROBLEM
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.node_decision import NodeDecision
from remediator.plan.stages import Planned
from remediator.plan.steps import WriteNodeConditions, WriteStatus
from remediator.plan.view import NEEDED
from remediator.plan.words import need_of
from remediator.policy.table import Evict
from tests.remediator.builders import Stored, at
from tests.remediator.histories.machines import Machine

NEAR = 60.0
"""Seconds within which an error and a recovery action may be one event."""


class Calls:
    """No repair is called for while a pod holds a GPU, but after a deadline of who may evict."""

    def __init__(self, machine: Machine, clock: Callable[[], datetime]) -> None:
        self._machine, self._clock = machine, clock
        self._waits_since: dict[str, tuple[datetime, float]] = {}
        """By incident the stored start of its deadline, and when it was truly stored."""

    def judge(
        self,
        stored: Stored,
        decision: NodeDecision,
        options: HandoverOptions,
        plan: Evict,
        deferred: str,
    ) -> None:
        """Check one decision; `held` says what lets nothing begin on the whole node."""
        machine = self._machine
        for board, _ in decision.pairs:
            # What the driver requests right behind an error may be its answer to it.
            answered = machine.now - machine.signal_of(board.uuid, pending=True) > NEAR
            if isinstance(board.verdict, Healthy) and answered:
                machine.asks_node.discard(board.uuid)
        free = {
            planned.uuid
            for _, planned in decision.pairs
            if not (_waits(planned) or planned.granted.call) or _needs_more(planned)
        }
        for step in decision.steps:
            match step:
                case WriteNodeConditions(_, written):
                    new = [
                        condition
                        for condition in written
                        if not self._calls(stored, condition.type)
                    ]
                    if any(condition.status == PROBLEM[condition.type] for condition in new):
                        assert options.enabled
                        assert not deferred, f"called for under {deferred}"
                        unseen = bool(machine.blind & set(NEEDED["name pods"][0]))
                        self._nobody_is_in_the_way(stored, options, plan, free, unseen=unseen)
                case WriteStatus(incident, status):
                    old, new = incident.status.repair.request, status.repair.request
                    begins = new and new.deadline_start_time
                    if begins and begins != (old and old.deadline_start_time):
                        self._waits_since[incident.name] = begins, machine.now
                    self._begins_only_anew(old, new)
                case _:
                    pass

    def judge_rest(self, stored: Stored, options: HandoverOptions, plan: Evict) -> None:
        """Check what the Node says once nothing is left to do."""
        machine = self._machine
        unknown = machine.blind & set(NEEDED["name pods"][0]) or machine.gone
        if not unknown and any(self._calls(stored, kind) for kind in stored.conditions):
            everything = machine.boards() | machine.asks_node
            self._nobody_is_in_the_way(stored, options, plan, everything)

    def _begins_only_anew(self, old: RepairRequest | None, new: RepairRequest | None) -> None:
        """Check that a date moves only to now, and only in another machine, boot or need."""
        for date in "since_time", "deadline_start_time":
            before, after = (getattr(request, date, None) for request in (old, new))
            another = old is not None and new is not None and _is_another(old, new)
            begins = after == self._clock() and (before is None or another)
            assert after in (None, before) or begins, f"{date}: another time"
            assert not (another and after) or after == self._clock(), f"{date}: of another stay"

    @staticmethod
    def _calls(stored: Stored, kind: str) -> bool:
        one = stored.conditions.get(kind)
        return one is not None and one.status == PROBLEM[kind]

    def _nobody_is_in_the_way(
        self,
        stored: Stored,
        options: HandoverOptions,
        plan: Evict,
        gpus: Collection[str],
        *,
        unseen: bool = False,
    ) -> None:
        """Check that no pod holds a GPU, and that this is known, or that a deadline has passed."""
        users = self._machine.tenants.users()
        late = [gpu for gpu in gpus if self._is_overdue(gpu, stored, options)]
        overridden = late and plan.then != "wait"
        assert overridden or not (users or unseen), f"the node is rebooted under {users}"

    def _is_overdue(self, gpu: str, stored: Stored, options: HandoverOptions) -> bool:
        """Whether pods need not be waited for any more, whatever the leader's clock says.

        The time counts from when a class that may evict called for a repair of the node, not from
        an older need of another. That it counts at all is up to what the hardware asks for.
        """
        waited = [
            timedelta(seconds=self._machine.now - self._begun(incident, since))
            for incident in stored.incidents.values()
            if incident.open
            and incident.spec.uuid == gpu
            and incident.status.policy.mode == "Enforce"
            if (request := incident.status.repair.request)
            if (since := request.deadline_start_time)
        ]
        over = any(long >= options.deadline for long in waited)
        return over and gpu in self._machine.asks_node

    def _begun(self, incident: Incident, since: datetime) -> float:
        """Return when it was that a stored deadline began."""
        stored, truly = self._waits_since.get(incident.name, (since, 0.0))
        return truly if stored == since else (since - at(0)).total_seconds()


def _is_another(old: RepairRequest, new: RepairRequest) -> bool:
    """Whether it is for another machine, boot or need, as far as both are known."""
    parts = "node", "node_uid", "boot_id", "need"
    pairs = ((getattr(old, part), getattr(new, part)) for part in parts)
    return any(before and after and before != after for before, after in pairs)


def _needs_more(planned: Planned) -> bool:
    """Whether a budget defers a greater need alone: what was granted for the lesser one goes on."""
    request = planned.incident and planned.incident.status.repair.request
    if not (request and planned.granted.may_join):
        return False
    return NEEDS.index(need_of(request.need)) < NEEDS.index(planned.demanded.repair.calls)


def _waits(planned: Planned) -> bool:
    """Whether a GPU waits for more than its pods, which the deadline of its repair overrides."""
    return bool(planned.granted.deferred) and planned.granted.deferred_by not in {
        "RulesNotServed",
        "RuleRefused",
        "PodOwner",
        "PodsUnknown",
    }
