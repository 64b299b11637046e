"""The pods of each device are asked to leave before they are deleted, for the whole time."""

from datetime import timedelta

from remediator.plan.node_decision import decide_node
from remediator.plan.steps import EvictPod
from remediator.plan.view import NodeView
from remediator.policy.table import Evict
from tests.remediator.builders import Stored, action, at, mig_gpu, policy, report, view, xid
from tests.remediator.playing import claim, pod

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
