"""The same histories with eviction that asks: budgets refuse, tenants tolerate or join."""

from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from remediator.diagnose.fault import Unknown
from remediator.model.taint_rule import EVICTING, Rule
from remediator.plan.clocks import COUNTS_LEAST, COUNTS_MOST
from remediator.plan.node_decision import NodeDecision
from remediator.plan.steps import ChangeRule, CreateRule, EvictPod, WriteStatus
from remediator.plan.view import NodeView
from remediator.policy.table import Evict
from tests.remediator.builders import policy
from tests.remediator.histories.outside import DIES, INDEX, THEN
from tests.remediator.histories.played import LIMITS
from tests.remediator.histories.taints import raises
from tests.remediator.histories.test_histories import HISTORYS, History

PODS = st.integers(0, 2)
PARTS = st.integers(0, 6)
REFUSALS = st.sampled_from(
    [
        "",
        "429 TooManyRequests: The disruption budget web needs 1 healthy pods and has 1 currently",
        "500 InternalError: This pod has more than one PodDisruptionBudget",
    ]
)
PLANS = st.builds(
    Evict,
    within=st.sampled_from([timedelta(), timedelta(seconds=30), timedelta(minutes=10)]),
    then=st.sampled_from(["NoExecute", "wait"]),
    extended_resources=st.sampled_from(["wait", "delete"]),
)


class EvictHistory(History):
    """Pods run, and leave when their eviction is requested and no budget refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.clocks: dict[tuple[str, str], tuple[timedelta, set[str]]] = {}
        """By incident and device, how much of `within` has counted."""
        self.requested: dict[tuple[str, str], float] = {}
        """By incident and device, when the first eviction was requested."""

    @initialize(plan=PLANS)
    def a_policy(self, plan: Evict) -> None:
        self.plan = plan
        self.policy = policy(LIMITS, evict=plan)

    @rule(pod=PODS, why=REFUSALS, then=THEN, dies=DIES)
    def a_budget_refuses_or_allows(self, pod: int, why: str, then: float, dies: int) -> None:
        self.machine.tenants.refusals.pop(f"pod-{pod}", None)
        if why:
            self.machine.tenants.refusals[f"pod-{pod}"] = why
        self.then(then, dies)

    @rule(index=INDEX, part=PARTS, pod=PODS, then=THEN, dies=DIES)
    def a_pod_joins(self, index: int, part: int, pod: int, then: float, dies: int) -> None:
        self.machine.tenants.joins((index, part), f"pod-{pod}")
        self.then(then, dies)

    @rule(pod=PODS, slow=st.booleans(), then=THEN, dies=DIES)
    def a_pod_takes_its_time(self, pod: int, slow: bool, then: float, dies: int) -> None:
        name, tenants = f"pod-{pod}", self.machine.tenants
        (tenants.slow.add if slow else tenants.slow.discard)(name)
        self.then(then, dies)

    @rule(pod=PODS, then=THEN, dies=DIES)
    def a_pod_ends(self, pod: int, then: float, dies: int) -> None:
        self.machine.tenants.leaves(f"pod-{pod}")
        self.then(then, dies)

    @rule(
        index=INDEX,
        part=PARTS,
        seconds=st.sampled_from([None, -1, 5, 700]),
        then=THEN,
        dies=DIES,
    )
    def a_tenant_tolerates(
        self, index: int, part: int, seconds: int | None, then: float, dies: int
    ) -> None:
        self.machine.tenants.tolerates((index, part), seconds)
        self.then(then, dies)

    @rule(index=INDEX, why=REFUSALS, then=THEN)
    def a_sick_gpu_is_held_for_long(self, index: int, why: str, then: float) -> None:
        self.machine.is_claimed(index, 0, f"pod-{index}")
        self.machine.tenants.refusals[f"pod-{index}"] = why or "429 TooManyRequests"
        self.machine.goes(index, "Lost")
        for seconds in (1.0, 4.0, 4.0, then, 31.0, 601.0, 1.0):
            self.then(seconds, 0)
        self.machine.tenants.refusals.pop(f"pod-{index}", None)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def slurm_holds_a_sick_gpu(self, index: int, then: float, dies: int) -> None:
        """Slurm drains its pod in the end."""
        name, tenants = f"slurm-{index}", self.machine.tenants
        tenants.slurm.add(name)
        self.machine.is_claimed(index, 0, name)
        self.machine.goes(index, "Lost")
        for seconds in (1.0, 4.0, 4.0, then, 31.0):
            self.then(seconds, dies)
        tenants.leaves(name)

    @rule(index=INDEX, dies=DIES)
    def pods_keep_joining(self, index: int, dies: int) -> None:
        self.machine.goes(index, "Lost")
        for number in range(5):
            self.machine.is_claimed(index, 0, f"pod-{10 + number}")
            for seconds in (4.0, 5.0):
                self.then(seconds, dies)

    def forget(self, name: str) -> None:
        super().forget(name)
        for known in (self.clocks, self.requested):
            for key in [key for key in known if key[0] == name]:
                del known[key]

    def judge(self, seen: NodeView, decision: NodeDecision, before: set[str]) -> None:
        super().judge(seen, decision, before)
        self._only_holders_of_sick_devices_are_evicted(seen, decision)
        self._slurms_pods_are_left_to_it(seen, decision)
        self._noexecute_never_comes_early(seen, decision)
        self._who_waits_is_never_deleted(decision)
        self._what_noexecute_removes_counts(decision)
        for step in decision.steps:
            if isinstance(step, WriteStatus):
                name, by_device = step.incident.name, step.status.eviction.by_device
                begun = {(name, each.device) for each in by_device if each.start_time}
                for key in [key for key in self.requested if key[0] == name and key not in begun]:
                    del self.requested[key]
                for key in begun:
                    self.requested.setdefault(key, self.machine.now)

    def then(self, seconds: float, dies: int) -> None:
        super().then(seconds, dies)
        self._clocks_go_on()
        self._pods_leave()

    def judge_end(self, decision: NodeDecision) -> None:
        """What cannot drain stops no budget for ever: those who can leave have a day for it."""
        for _ in range(8):
            self._pods_leave()
            self.machine.passes(3 * 3600.0)
            self.machine.looks()
            decision = self._live(self.view())
        for _, planned in decision.pairs:
            granted = planned.granted
            only = {deferral.by for deferral in granted.deferrals} == {"Budget"}
            assert not (only and "budget evict." in granted.deferred), granted.deferred

    def _pods_leave(self) -> None:
        for step in self.decide(self.calm, self.view()).steps:
            if isinstance(step, EvictPod) and self._is_granted(step):
                self.machine.tenants.begins_to_end(step.pod.pod, self.machine.time)
        self._the_eviction_controller_acts()

    def _is_granted(self, step: EvictPod) -> bool:
        """Whether the API server evicts a pod: no budget refuses, and it is still that one."""
        tenants, name = self.machine.tenants, step.pod.pod
        return name not in tenants.refusals and step.pod.uid == tenants.uid(name)

    def _the_eviction_controller_acts(self) -> None:
        """NoExecute deletes who holds the device by a claim and does not tolerate it."""
        struck = {
            device
            for device, taint_rule in self.calm.rules.items()
            if taint_rule.effect == "NoExecute"
        }
        for claim in list(self.machine.tenants.claims.values()):
            if any(it.name in struck and not it.tolerations for it in claim.results):
                for by in claim.consumers:
                    self.machine.tenants.begins_to_end(by.name, self.machine.time)

    def _noexecute_never_comes_early(self, seen: NodeView, decision: NodeDecision) -> None:
        """Pods on each device get the whole time from the first request of their eviction on."""
        for step in decision.steps:
            if not isinstance(step, ChangeRule) or step.rule.effect != "NoExecute":
                continue
            if step.stored.effect == "NoExecute" or not self.plan.within:
                continue
            name, device = step.rule.incident, str(step.rule.device)
            of = self.calm.incidents[name].status.eviction.of(step.rule.device)
            since = of.start_time if of else None
            assert since is not None, "deleted without a request to leave"
            assert self._is_their_time(seen, step.rule), "deleted in the time of others"
            assert self.clock - since >= self.plan.within, "deleted before its time"
            since_request = self.requested.get((name, device), self.machine.now)
            waited = timedelta(seconds=self.machine.now - since_request)
            gained = min(max(self.plan.within / 10, COUNTS_LEAST), COUNTS_MOST) * self.jumps
            assert waited + gained >= self.plan.within, "deleted before its time by a wrong clock"

    def _what_noexecute_removes_counts(self, decision: NodeDecision) -> None:
        """No incident says that pods stay while NoExecute deletes one of them."""
        stays = {planned.uuid for _, planned in decision.pairs if planned.blocked_by == "PodsStay"}
        deletes = {
            rule.device
            for rule in self.calm.rules.values()
            if rule.effect == "NoExecute" and rule.gpu in stays
        }
        for claim in self.machine.tenants.claims.values():
            taken = {it.name for it in claim.results if not it.tolerations}
            ending = {by.name for by in claim.consumers} & self.machine.tenants.ending.keys()
            assert ending or not taken & deletes, "NoExecute still deletes them"

    def _is_their_time(self, seen: NodeView, raised: Rule) -> bool:
        """Whether a device is held by a claim of which pods were recorded, or by none."""
        status = self.calm.incidents[raised.incident].status
        listed = (*status.scope.affected, *status.eviction.evicted)
        named = {pod.claim for pod in listed if pod.device == str(raised.device)}
        held = {
            claim.metadata.name
            for claim in seen.usage.claims
            if any(it.name == raised.device and it.allocates for it in claim.results)
        }
        return not held or bool(held & named)

    def _only_holders_of_sick_devices_are_evicted(
        self, seen: NodeView, decision: NodeDecision
    ) -> None:
        hardware = {str(part.device): self.machine.board_of(part) for part in seen.slices.inventory}
        cases = {case.uuid: (case, planned) for case, planned in decision.pairs}
        rules = {str(taint_rule.device): taint_rule for taint_rule in self.calm.rules.values()}
        for step in decision.steps:
            if not isinstance(step, EvictPod):
                continue
            case, planned = cases[step.gpu]
            device = step.pod.device
            assert not isinstance(case.verdict, Unknown)
            assert step.pod.pod not in self.machine.tenants.ending, "it was told to end before"
            assert rules[device].effect in EVICTING, "the rule is stored before the request"
            assert rules[device].gpu == step.gpu
            assert hardware.get(device, step.gpu) == step.gpu, "other hardware has this name"
            assert rules[device].device in planned.granted.evicts
            assert not self.stopped
            assert "Hold" not in {
                intent.kind for intent in planned.record.intents if intent.state == "InForce"
            }
            tenant = [
                it
                for claim in self.machine.tenants.claims.values()
                if step.pod.pod in {by.name for by in claim.consumers}
                for it in claim.results
                if str(it.name) == device
            ]
            ever = [
                stated
                for it in tenant
                for stated in it.tolerations
                if stated.toleration_seconds is None
            ]
            assert not (tenant and ever), "who tolerates NoExecute is passed by"

    def _slurms_pods_are_left_to_it(self, seen: NodeView, decision: NodeDecision) -> None:
        slurm = self.machine.tenants.slurm
        theirs = {
            result.name
            for claim in seen.usage.claims
            if slurm & {by.name for by in claim.consumers}
            for result in claim.results
        }
        for step in decision.steps:
            if isinstance(step, EvictPod):
                assert step.pod.pod not in slurm
            elif isinstance(step, CreateRule):
                assert step.rule.device not in theirs or step.rule.effect not in EVICTING
            elif isinstance(step, ChangeRule):
                assert step.rule.device not in theirs or not raises(step)

    def _who_waits_is_never_deleted(self, decision: NodeDecision) -> None:
        deletes = [step for step in decision.steps if isinstance(step, EvictPod) and step.delete]
        assert self.plan.extended_resources == "delete" or not deletes
        if self.plan.then == "wait":
            assert "NoExecute" not in set(self.calm.effects().values())

    def _clocks_go_on(self) -> None:
        """What is stored is the same for a leader that dies, and only other claims set it back."""
        there = dict[tuple[str, str], tuple[timedelta, set[str]]]()
        for name, incident in self.calm.incidents.items():
            by_device = incident.status.eviction.by_device
            assert by_device == self.dying.incidents[name].status.eviction.by_device
            for of in by_device:
                if of.start_time is None or of.attempt_time is None:
                    assert of.start_time is of.attempt_time
                    continue
                assert of.start_time <= of.attempt_time <= self.latest
                key, lasted = (name, of.device), of.attempt_time - of.start_time
                affected = incident.status.scope.affected
                claims = {pod.claim for pod in affected if pod.device == of.device}
                before, theirs = self.clocks.get(key, (timedelta(), claims))
                if lasted < before:
                    assert claims.isdisjoint(theirs), "it is set back"
                    self.requested[key] = self.machine.now
                there[key] = lasted, claims
        self.clocks = there


TestEvictHistories = EvictHistory.TestCase
TestEvictHistories.settings = settings(
    max_examples=max(HISTORYS // 6, 10),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
