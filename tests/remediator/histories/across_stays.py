"""What is promised across stays: a board moves, its node boots or is made again, others publish it.

By name: no clock decides in another stay; a Node condition speaks of the machine that is there, and
overrides no pod that came after its last boot; nothing that is published lowers what stands; what
cannot drain stops no budget for ever.
"""

import re
from datetime import datetime, timedelta

import msgspec

from exporter.model.device import Device
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import SEVERITY
from remediator.model.incident import Incident
from remediator.model.incident_status import with_changes
from remediator.model.node import PROBLEM
from remediator.model.taint_rule import EFFECTS
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import ChangeRule, DeleteRule, Step, WriteNodeConditions, WriteStatus
from remediator.plan.view import NodeView
from remediator.policy.place import Match
from remediator.policy.table import Change, Override, Policy
from tests.remediator.builders import NODE, with_fields
from tests.remediator.histories.judged import ROUNDED, Judged
from tests.remediator.histories.taints import raises

GPU = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
YEAR = timedelta(days=365)
OF_THE_NODE = (
    Override(
        name="overrides[0]",
        match=Match(pools=("node-*",)),
        changes={kind: Change(mode="enforce") for kind in SEVERITY},
    ),
)


class AcrossStays(Judged):
    """Histories whose decisions are compared with those about a slightly different world."""

    def __init__(self) -> None:
        super().__init__()
        self.exempt: frozenset[str] = frozenset()
        self.exempt_until: dict[str, float] = {}
        """By GPU, when its last exemption ended."""

    def judge(self, seen: NodeView, decision: NodeDecision, before: set[str]) -> None:
        super().judge(seen, decision, before)
        if self.afresh:
            self._no_clock_decides_in_another_stay(seen, decision)
            self._nothing_that_is_published_lowers_what_stands(seen)
        self._note_exemptions()
        for step in decision.steps:
            if isinstance(step, WriteNodeConditions):
                self._no_boot_is_overridden(step)
            if isinstance(step, ChangeRule) and raises(step):
                self._was_spared_long_ago(step)

    def judge_rest(self) -> None:
        super().judge_rest()
        # What the API server does not let go stays.
        free = (rule for rule in self.calm.rules.values() if rule.name not in self.not_removed)
        tainted = {rule.gpu for rule in free}
        assert self.disagrees or not tainted & self.exempt, "an exempt GPU is left alone"
        if not self.machine.whole or self.disagrees:
            return
        for condition in self.calm.conditions.values():
            if condition.status == PROBLEM[condition.type]:
                named = set(GPU.findall(condition.message))
                # Beside it may stand a board that was taken out: its place is empty again.
                assert named & self.machine.boards_of_boot, condition.message

    def _no_clock_decides_in_another_stay(self, seen: NodeView, decision: NodeDecision) -> None:
        """A repair that was needed in another machine or boot may as well be a year old."""
        if not self.machine.whole:
            return
        view = self.over(self.calm, seen)
        older = with_fields(
            view, incidents=tuple(map(self._with_older_clocks, view.stored.incidents))
        )
        if older == view:
            return
        other = decide_node(older, self.fleet(self.calm), self.in_use(), self.clock, self.options)
        assert list(map(_outcome, other.steps)) == list(map(_outcome, decision.steps))

    def _with_older_clocks(self, incident: Incident) -> Incident:
        """Return an incident of which the clocks of other stays began a year earlier."""
        status, machine = incident.status, self.machine
        if not incident.open:
            return incident
        # Of a board that is not here it goes on: the machine that had it is gone.
        if status.stay.node_gone_since and incident.spec.uuid in machine.boards():
            status = with_changes(
                status, stay={"node_gone_since": status.stay.node_gone_since - YEAR}
            )
        request = status.repair.request
        if request and (
            request.node_uid not in ("", machine.node_uid)
            or request.boot_id not in ("", machine.boot_id)
        ):
            older = msgspec.structs.replace(
                request,
                since_time=request.since_time - YEAR,
                deadline_start_time=_earlier(request.deadline_start_time),
            )
            status = with_changes(status, repair={"request": older})
        return msgspec.structs.replace(incident, status=status)

    def _note_exemptions(self) -> None:
        spared = frozenset(gpu for each in self.in_use().exempt for gpu in each.area.devices)
        self.exempt_until |= dict.fromkeys(self.exempt - spared, self.machine.now)
        self.exempt = spared

    def _was_spared_long_ago(self, step: ChangeRule) -> None:
        """An exemption may end at a date that was set months ago: its GPU's pods get some time."""
        ended = self.exempt_until.get(step.rule.gpu, -1e9)
        since = self.machine.now - ended
        waits = self.policy.limits.correlation.after_change.total_seconds()
        assert since >= waits - ROUNDED or ended < self.clock_set_at, f"{since} s after its end"

    def _no_boot_is_overridden(self, step: WriteNodeConditions) -> None:
        """Pods that came after the last boot get the whole deadline."""
        users = self.machine.tenants.users()
        since_boot = self.machine.now - self.machine.booted_at
        late = since_boot >= self.options.deadline.total_seconds() - ROUNDED
        for condition in step.conditions:
            calls = condition.status == PROBLEM[condition.type]
            old = self.calm.conditions.get(condition.type)
            stands = old is not None and old.status == condition.status
            if calls and not stands and users and self.machine.whole:
                assert late, f"over {users}, {since_boot} s after the boot"

    def _nothing_that_is_published_lowers_what_stands(self, seen: NodeView) -> None:
        """Another driver publishes each GPU as well, and only the node's own pool is enforced."""
        one = self._by_pool(self.in_use())
        more = tuple(
            SliceDevice(
                device=Device("gpu.example.org", "rack-2", f"board-{board[4:12]}"),
                kind="gpu",
                uuid=board,
                node=NODE,
            )
            for board in sorted(self.machine.boards())
        )
        wider = with_fields(seen, inventory=(*seen.slices.inventory, *more))
        alone, beside = (
            decide_node(
                self.over(self.calm, view), self.fleet(self.calm), one, self.clock, self.options
            )
            for view in (seen, wider)
        )
        lowered = {it for step in beside.steps for it in _lowered(step)}
        lowered -= {it for step in alone.steps for it in _lowered(step)}
        assert not lowered, f"by another driver: {lowered}"

    @staticmethod
    def _by_pool(whole: Policy) -> Policy:
        """Return the policy with everything observed but what the node's own pool has."""
        rows = tuple(msgspec.structs.replace(row, mode="incident-only") for row in whole.rows)
        return msgspec.structs.replace(whole, rows=rows, overrides=OF_THE_NODE)


def _earlier(moment: datetime | None) -> datetime | None:
    return moment - YEAR if moment else None


def _outcome(step: Step) -> str:
    """Return what a step writes, without what was stored before, or is only kept."""
    if not isinstance(step, WriteStatus):
        return repr(step)
    status, before = step.status, step.incident.status
    if status.repair.request == before.repair.request:
        status = with_changes(status, repair={"request": None})
    if status.stay.node_gone_since == before.stay.node_gone_since:
        status = with_changes(status, stay={"node_gone_since": None})
    return repr((step.incident.name, status))


def _lowered(step: Step) -> list[tuple[Device, str]]:
    """Return the device that a step takes something away from."""
    match step:
        case DeleteRule(stored):
            return [(stored.device, "")]
        case ChangeRule(stored, rule) if EFFECTS.index(rule.effect) < EFFECTS.index(stored.effect):
            return [(stored.device, rule.effect)]
        case _:
            return []
