"""Side by side, the same world under a policy that evicts first and one that deletes at once."""

from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.model.pod import PodFacts
from remediator.model.taint_rule import EVICTING
from remediator.plan.steps import EvictPod
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED, Cap, Caps, Limits
from remediator.policy.table import Evict, Policy
from tests.remediator.builders import Stored, policy, with_fields
from tests.remediator.histories.machines import Machine
from tests.remediator.playing import tick

ONE_AT_A_TIME = Limits(evict=Caps(cluster=Cap(1)))
plans = st.builds(
    Evict,
    within=st.sampled_from([timedelta(), timedelta(seconds=20), timedelta(minutes=10)]),
    then=st.sampled_from(["NoExecute", "wait"]),
)
gpus = st.integers(0, 1)
pods = st.sampled_from([f"pod-{number}" for number in range(10)])
acts = st.one_of(
    st.tuples(st.just("passes"), st.sampled_from([0.5, 1.0, 3.0, 5.0, 30.0, 601.0])),
    st.tuples(st.just("xid"), gpus, st.sampled_from([79, 95, 94, 31]), st.integers(1, 7)),
    st.tuples(st.just("wants"), gpus, st.sampled_from([0, 1, 2])),
    st.tuples(st.just("goes"), gpus, st.sampled_from(["Present", "Lost"])),
    st.tuples(st.just("is_reset"), gpus),
    st.tuples(st.just("is_claimed"), gpus, st.integers(0, 6), pods),
    st.tuples(st.just("is_let_go"), gpus, st.integers(0, 6)),
    st.tuples(st.just("silent"), st.booleans()),
    st.tuples(st.just("stopped"), st.booleans()),
    st.tuples(st.just("numbers_are_swapped")),
)


class World:
    """A node, and the pods that hold its devices."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.stopped = ""

    def does(self, act: tuple[object, ...]) -> None:
        name, *stated = act
        match name:
            case "silent":
                self.machine.silent = bool(stated[0])
            case "stopped":
                self.stopped = "ann: enough" if stated[0] else ""
            case _:
                getattr(self.machine, str(name))(*stated)

    def pods(self) -> tuple[PodFacts, ...]:
        return self.machine.tenants.pods()

    def view(self) -> NodeView:
        return with_fields(self.machine.view(), pods=self.pods())


def evicted_from(stored: Stored) -> set[object]:
    return {device for device, rule in stored.rules.items() if rule.effect in EVICTING}


@settings(max_examples=60, deadline=None)
@given(st.lists(acts, max_size=25), plans, st.sampled_from([LIFTED, ONE_AT_A_TIME]))
def test_who_is_evicted_first_is_never_disrupted_more_than_by_noexecute_alone(
    history: list[tuple[object, ...]], plan: Evict, limits: Limits
) -> None:
    world, asks, deletes = World(), Stored(), Stored()
    asking, deleting = policy(limits, evict=plan), policy(limits)
    for act in (*history, ("passes", 5.0), ("passes", 5.0)):
        world.does(act)
        for _ in range(2):
            seen = world.view()
            before = evicted_from(deletes)
            _decided(deletes, seen, world, deleting)
            harmed = {str(name) for name in before | evicted_from(deletes)}
            gone = _decided(asks, seen, world, asking)
            if limits is LIFTED:
                assert {str(name) for name in evicted_from(asks)} <= harmed
                assert gone <= harmed
            world.machine.passes(0.5)


def _decided(stored: Stored, seen: NodeView, world: World, rows: Policy) -> set[str]:
    """Decide once; return the devices whose pods are evicted by request."""
    stopped = msgspec.structs.replace(rows, stopped=world.stopped)
    decision = tick(stored, seen, world.machine.now, stopped)
    gpus = {rule.gpu for rule in stored.rules.values() if rule.effect in EVICTING}
    allowed = 1 if rows.limits is ONE_AT_A_TIME else len(gpus)
    begun = {
        incident.spec.uuid
        for incident in stored.incidents.values()
        if incident.status.eviction.started_at
    }
    waits = {
        incident.spec.uuid
        for incident in stored.incidents.values()
        for stated in incident.status.conditions
        if (stated.type, stated.status) == ("EvictionBlocked", "True")
    }
    assert len(begun - waits) <= allowed or rows.limits is LIFTED
    return {step.pod.device for step in decision.steps if isinstance(step, EvictPod)}
