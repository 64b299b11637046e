"""Eviction of the pods of each device is requested for the whole time before they are deleted."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec
import pytest

from remediator.plan.node_decision import decide_node
from remediator.plan.steps import EvictPod
from remediator.plan.view import NodeView
from remediator.policy.limits import Cap, Caps, Limits
from remediator.policy.table import AT_ONCE, Evict, Policy
from tests.remediator.builders import (
    Stored,
    action,
    at,
    dead,
    evictions,
    gpu,
    mig_gpu,
    policy,
    report,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan import fleets
from tests.remediator.plan.evict_first import blocked
from tests.remediator.playing import claim, pod, tick

SLICES = {number: f"gpu-0-mig-1g10gb-19-{number - 1}" for number in (1, 2, 3, 5)}
"""Device by GPU instance."""
WITHIN = timedelta(minutes=2)
ASKS = policy(evict=Evict(within=WITHIN), soak=timedelta(hours=2))
HANGS_FROM, SECOND = 126.0, 200.0


class Played:
    """Slice 5 fails first. Each slice has a pod, and no budget allows an eviction."""

    def __init__(self, *, hangs: bool, second: float = SECOND, whole: bool = False) -> None:
        self.stored, self.hangs, self.second, self.whole = Stored(), hangs, second, whole
        self.requested: dict[str, float] = {}
        self.deleted: dict[str, float] = {}

    def seen(self, seconds: float) -> NodeView:
        """Instance 2, or the whole GPU, fails as well; the pod that was deleted may hang."""
        errors, answer = [xid(94, 0, gi=5)], action(observed=seconds)
        if seconds >= self.second:
            errors.append(xid(95, self.second) if self.whole else xid(94, self.second, gi=2))
            answer = action(1, self.second + 1, seconds + 1) if self.whole else answer
        board = mig_gpu(0, *errors, recovery_action=answer)
        hung = self.hangs and seconds > HANGS_FROM
        pods = tuple(
            pod(
                f"p-{number}",
                started=at(-100),
                terminating=hung and number == 5,
                grace_ends=at(HANGS_FROM + 30) if hung and number == 5 else None,
            )
            for number in SLICES
        )
        claims = tuple(claim(device, f"p-{number}") for number, device in SLICES.items())
        refusals = {f"u-p-{number}": "429 TooManyRequests" for number in SLICES}
        return view(
            board,
            claims=claims,
            pods=pods,
            refusals=refusals,
            report=report(board, observed_at=at(seconds)),
        )

    def play(self, until: float, every: float = 2.0) -> "Played":
        seconds = 0.0
        while seconds <= until:
            for _ in range(4):
                view_now = self.stored.over(self.seen(seconds))
                decision = decide_node(view_now, self.stored.fleet(), ASKS, at(seconds))
                for step in decision.steps:
                    self.stored.take(step, at(seconds))
                    if isinstance(step, EvictPod):
                        self.requested.setdefault(step.pod.pod, seconds)
            for device, effect in self.stored.effects().items():
                if effect == "NoExecute":
                    self.deleted.setdefault(device, seconds)
            seconds += every
        return self

    def had(self, number: int) -> float:
        """Return for how many seconds a pod's eviction was requested before it was deleted."""
        return self.deleted[SLICES[number]] - self.requested[f"p-{number}"]


def test_a_pod_that_hangs_under_noexecute_takes_no_time_of_another_slice() -> None:
    played = Played(hangs=True).play(400)

    assert played.had(5) >= WITHIN.total_seconds()
    assert played.had(2) >= WITHIN.total_seconds()


def test_nor_of_the_others_when_the_whole_gpu_fails_later() -> None:
    played = Played(hangs=True, whole=True).play(400)

    assert all(played.had(number) >= WITHIN.total_seconds() for number in SLICES)


def test_another_slice_that_fails_gives_the_first_no_second_time() -> None:
    played = Played(hangs=False, second=100).play(300)

    assert played.had(5) <= WITHIN.total_seconds() + 10
    assert WITHIN.total_seconds() <= played.had(2) <= WITHIN.total_seconds() + 10


def test_each_slice_gets_a_time_of_its_own() -> None:
    played = Played(hangs=False, second=100).play(300)

    assert played.deleted[SLICES[2]] - played.deleted[SLICES[5]] >= 90


class TestABudgetThatIsUsedUp:
    """A PodDisruptionBudget blocks slice 5's pod, and slice 2 has been drained: no GPU counts."""

    def decide_at(self, stored: Stored, seconds: float, *pods: str) -> list[str]:
        board = mig_gpu(0, xid(95), recovery_action=action(1, 1, seconds))
        places = {"blocked": SLICES[5], "first": SLICES[2], "joins": SLICES[2]}
        one_at_once = policy(
            Limits(evict=Caps(cluster=Cap(1))),
            evict=Evict(within=WITHIN, then="wait"),
            soak=timedelta(hours=5),
        )
        now = view(
            board,
            claims=tuple(claim(places[name], name) for name in pods),
            pods=tuple(pod(name, started=at(-100)) for name in pods),
            refusals={"u-blocked": "429 TooManyRequests"},
            report=report(board, observed_at=at(seconds)),
        )
        goes_on = fleets.an_incident("b0", evicting_at=at(0), by_device=evictions(at(0)))
        found: list[str] = []
        for _ in range(4):
            fleet = stored.fleet()
            if seconds > 200:
                other = fleets.stored(fleets.rule("b0", "Evict"))
                fleet = with_fields(
                    fleet, rules=(*fleet.rules, *other), incidents=(*fleet.incidents, goes_on)
                )
            decision = decide_node(stored.over(now), fleet, one_at_once, at(seconds))
            for step in decision.steps:
                stored.take(step, at(seconds))
            found += [step.pod.pod for step in decision.steps if isinstance(step, EvictPod)]
        return found

    def test_evicts_no_pod_that_comes_to_a_drained_slice_beside_a_blocked_one(self) -> None:
        stored = Stored()
        for seconds in (2.0, 4.0, 8.0, 12.0):
            self.decide_at(stored, seconds, "blocked", "first")
        for seconds in range(20, 200, 5):
            self.decide_at(stored, seconds, "blocked")

        late = [self.decide_at(stored, 210 + number, "blocked", "joins") for number in (0, 5)]

        assert "joins" not in {name for each in late for name in each}


@pytest.mark.parametrize("by_policy", [True, False], ids=["the policy", "a milder class"])
def test_a_pod_that_noexecute_does_not_reach_is_deleted_after_its_time_only(
    *, by_policy: bool
) -> None:
    """NoExecute stands for a class, or a policy, that gave no time."""
    hour = Evict(within=timedelta(hours=1), extended_resources="delete")
    rows = {"gpu": hour, "lost": hour} if by_policy else {"gpu": hour}
    later = with_evict(rows)
    stored, deleted = Stored(), list[float]()
    for seconds in (0.0, 2.0, 4.0, 6.0, *(float(number) for number in range(30, 4000, 10))):
        back = seconds >= 30 and not by_policy
        board = dead(0)
        if back:
            board = gpu(
                0,
                xid(79),
                xid(95, 29, epoch=2),
                epoch=2,
                epoch_started=at(28),
                presence_since=at(28),
                recovery_action=action(1, 29.5, seconds),
            )
        now = view(
            board,
            claims=(claim("gpu-0", "train-0", extended=True),),
            pods=(pod(started=at(-500), extended_claim="claim-of-train-0"),),
            refusals={"u-train-0": "429 TooManyRequests"},
            report=report(board, observed_at=at(seconds)),
        )
        asks = later if seconds >= 30 or not by_policy else with_evict({})
        for _ in range(4):
            for step in decide_node(stored.over(now), stored.fleet(), asks, at(seconds)).steps:
                stored.take(step, at(seconds))
                deleted += [seconds] if isinstance(step, EvictPod) and step.delete else []

    assert min(deleted) >= 3600


def with_evict(plans: Mapping[str, Evict]) -> Policy:
    rows = policy().rows
    return Policy(
        rows=tuple(
            msgspec.structs.replace(row, evict=plans.get(row.fault_class, AT_ONCE)) for row in rows
        ),
        limits=policy().limits,
    )


def test_a_pod_that_will_be_deleted_is_not_reported_as_left() -> None:
    """No answer to its eviction is known, and its time is not over."""
    hour = Evict(within=timedelta(hours=1), extended_resources="delete")
    asks, stored = with_evict({"lost": hour, "gpu": hour}), Stored()
    now = view(
        dead(0),
        claims=(claim("gpu-0", "train-0", extended=True),),
        pods=(pod(started=at(-500), extended_claim="claim-of-train-0"),),
    )
    for seconds in (0.0, 2.0, 4.0, 6.0):
        tick(stored, now, seconds, with_evict({}))
    assert stored.effects() == {"gpu-0": "NoExecute"}
    for device, taint in stored.rules.items():
        stored.rules[device] = with_fields(taint, time_added=at(6))

    for seconds in (30.0, 700.0, 1400.0):
        tick(stored, now, seconds, asks)

    assert not blocked(stored)


@pytest.mark.parametrize("shares", [False, True], ids=["another claim", "the same claim"])
def test_a_pod_of_another_claim_gets_the_whole_time(*, shares: bool) -> None:
    """It tolerates NoSchedule, and takes the GPU between two looks, as the pod before it ends."""
    stored = Stored()

    def look(seconds: float, name: str) -> str:
        claimed = claim("gpu-0", "first" if shares else name, reserved=(name,))
        now = view(
            dead(0),
            claims=(claimed,),
            pods=(pod(name),),
            refusals={f"u-{name}": "429 TooManyRequests"},
        )
        for _ in range(4):
            tick(stored, now, seconds, ASKS)
        return stored.effects()["gpu-0"]

    for seconds in range(0, 110, 5):
        look(seconds, "first")
    deleted = next(now for now in range(110, 300, 5) if look(now, "second") == "NoExecute")

    assert (deleted - 110 >= WITHIN.total_seconds()) is not shares
