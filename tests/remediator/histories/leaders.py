"""Another replica begins to lead, or the one that leads is not what it seems to be."""

from datetime import datetime, timedelta

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule

from remediator.freshness import clock_doubt
from remediator.plan.node_decision import NodeDecision
from remediator.plan.view import NodeView
from remediator.policy.table import CEILINGS as MILDEST_FIRST
from remediator.policy.table import Ceiling, Mode, Policy
from tests.remediator.builders import at, policy
from tests.remediator.histories.judged import ROUNDED, SOAK
from tests.remediator.histories.outside import DIES, MODES, THEN, Outside
from tests.remediator.histories.played import LIMITS, enforces

CEILINGS: tuple[Ceiling, ...] = ("observe", "None", "NoSchedule")
AHEAD = st.sampled_from([0.0, 0.0, -4000.0, -61.0, 61.0, 700.0, 8 * 86400.0])
"""Seconds that the leader's clock is ahead."""


class Leaders(Outside):
    """Histories in which replicas fail over."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0
        self.jumps = 0
        self.latest = at(0)
        """The latest time that any clock has shown."""
        self.doubted_at = -1e9
        """When the clock was last found to be wrong."""

    @rule(
        mode=st.sampled_from(MODES),
        ceiling=st.sampled_from([None, *CEILINGS]),
        then=THEN,
        dies=DIES,
    )
    def another_leader(self, mode: Mode, ceiling: Ceiling | None, then: float, dies: int) -> None:
        """Its policy file is another, milder one: that of the leader before is in the Lease."""
        if not self.disagrees:
            self.enforced_before = enforces(self.policy)
        found = self.lease.annotations()
        self.policy = _capped(policy(LIMITS, mode=mode, evict=self.plan), ceiling)
        self.machine.watched = mode != "off"
        self.lease = self.leads()
        self.lease.on_policy_loaded(self.policy)
        self.lease.on_lease_found(found)
        self.then(then, dies)

    @rule(then=THEN, dies=DIES)
    def its_file_arrives(self, then: float, dies: int) -> None:
        """The volume of the ConfigMap has what the leader before obeyed, if that enforced it."""
        self.policy = policy(LIMITS, evict=self.plan)
        self.machine.watched = True
        self.then(then, dies)

    @rule(ahead=AHEAD, then=THEN, dies=DIES)
    def the_leaders_clock_jumps(self, ahead: float, then: float, dies: int) -> None:
        """It is set, or another replica leads by its own; the dates of the API server are right."""
        self.ahead, self.jumps = ahead, self.jumps + 1
        self.clock_set_at = self.machine.now + then
        self.then(then, dies)

    @property
    def clock(self) -> datetime:
        return at(self.machine.now + self.ahead)

    def view(self) -> NodeView:
        doubt = clock_doubt(timedelta(seconds=self.ahead))
        self.latest = max(self.latest, self.clock)
        if doubt:
            self.doubted_at = self.machine.now
        return msgspec.structs.replace(super().view(), clock_doubt=doubt)

    def teardown(self) -> None:
        if self.ahead:
            self.ahead, self.clock_set_at = 0.0, self.machine.now
        super().teardown()

    def judge(self, seen: NodeView, decision: NodeDecision, before: set[str]) -> None:
        super().judge(seen, decision, before)
        for _, planned in decision.pairs:
            stated = {intent.kind for intent in planned.record.intents}
            if planned.course.kind == "closes" and "RepairConfirmed" not in stated:
                assert self.machine.now - self.doubted_at >= SOAK - ROUNDED, (
                    "verified by a wrong clock"
                )

    def judge_rest(self) -> None:
        super().judge_rest()
        if self.ahead:
            return
        for incident in self.calm.incidents.values():
            if incident.open:
                status = incident.status
                dates = {known.type: known.last_transition_time for known in status.conditions}
                dates |= {
                    known.kind: known.seen_time
                    for known in status.policy.intents
                    if known.state == "InForce"
                }
                late = {name: date for name, date in dates.items() if date > self.clock}
                assert not late, f"{late}: dated by a clock that was ahead"


def _capped(whole: Policy, ceiling: Ceiling | None) -> Policy:
    """Return the policy with no class going further than a ceiling."""
    if ceiling is None:
        return whole
    rows = tuple(
        msgspec.structs.replace(row, ceiling=min(row.ceiling, ceiling, key=MILDEST_FIRST.index))
        for row in whole.rows
    )
    return msgspec.structs.replace(whole, rows=rows)
