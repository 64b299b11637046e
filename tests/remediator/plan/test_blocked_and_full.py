"""Who waits for a PodDisruptionBudget has no place in the budget, whatever the policy says next."""

from remediator.policy.limits import Cap, Caps, Limits
from remediator.policy.table import Evict, Policy, Then
from tests.remediator.builders import Stored, dead, gpu, policy, view
from tests.remediator.plan.evict_first import REFUSED, WITHIN, play
from tests.remediator.playing import claim, pod, tick

ONE = Limits(evict=Caps(cluster=Cap(1)))
CLAIMS = claim("gpu-0", "web"), claim("gpu-1", "big")
PODS = pod("web"), pod("big")


def asks(then: Then) -> Policy:
    return policy(ONE, evict=Evict(within=WITHIN, then=then))


def test_a_blocked_gpu_whose_policy_becomes_noexecute_waits_for_room_at_every_look() -> None:
    stored = Stored()
    first = view(dead(0), gpu(1), claims=CLAIMS, pods=PODS, refusals={"u-web": REFUSED})
    play(stored, first, asks("wait"), 0, 700)
    refusals = {"u-web": REFUSED, "u-big": REFUSED}
    both = view(dead(0), dead(1), claims=CLAIMS, pods=PODS, refusals=refusals)
    play(stored, both, asks("wait"), 705, 750)
    assert stored.fleet_evicts() == 1, "the second has the only place"

    for second in (755, 756, 760, 765):
        tick(stored, both, second, asks("NoExecute"))
        assert stored.effects() == {"gpu-0": "Evict", "gpu-1": "Evict"}
        assert stored.fleet_evicts() == 1
