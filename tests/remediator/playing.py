"""Tells an incident to the pure core: views in at a moment, steps taken by a store in memory."""

import msgspec

from exporter.model.device import Device
from remediator.model.claim import (
    Allocation,
    Choice,
    Claim,
    ClaimMarks,
    ClaimMeta,
    ClaimSpec,
    ClaimStatus,
    ConsumerReference,
    DeviceAllocation,
    DeviceResult,
    Request,
    Requests,
)
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import Step
from remediator.plan.view import NodeView
from remediator.policy.table import Policy
from tests.remediator.builders import DRIVER, NODE, Stored, at, policy, with_fields

ENFORCE = policy()


def evicts_later(rows: Policy) -> Policy:
    """Return a policy that taints and lets no eviction begin yet: another leader had another one.

    For what happens to a GPU that is tainted and that pods are about to be evicted from.
    """
    return msgspec.structs.replace(rows, disagrees="another leader's")


EVICTS_LATER = evicts_later(ENFORCE)


def claim(
    device: str | tuple[str, ...],
    pod: str = "train-0",
    *,
    namespace: str = "team",
    driver: str = DRIVER,
    pool: str = NODE,
    through: str = "",
    extended: bool = False,
    reserved: tuple[str, ...] | None = None,
    resource: str = "pods",
    **result: object,
) -> Claim:
    """The claim of a pod on devices, allocated `through` a DeviceClass.

    It is `reserved` for the pod alone, unless for others; `result` has more about each device.
    """
    request = "gpu" if through else ""
    devices = (device,) if isinstance(device, str) else device
    results = (DeviceResult(driver, pool, name, request=request) for name in devices)
    given = tuple(with_fields(one, **result) for one in results)
    names = (pod,) if reserved is None else reserved
    marks = ClaimMarks(extended="true") if extended else ClaimMarks()
    return Claim(
        ClaimMeta(name=f"claim-of-{pod}", namespace=namespace, annotations=marks),
        ClaimStatus(
            Allocation(DeviceAllocation(given)),
            tuple(ConsumerReference(name, resource, f"u-{name}") for name in names),
        ),
        ClaimSpec(Requests((Request(request, Choice(through)),) if through else ())),
    )


def pod(name: str = "train-0", **fields: object) -> PodFacts:
    """A running pod of the node, the one that `claim` speaks of."""
    standard = PodFacts(namespace="team", name=name, uid=f"u-{name}", started=at(-1000))
    return with_fields(standard, **fields)


def tick(stored: Stored, seen: NodeView, seconds: float, rows: Policy = ENFORCE) -> NodeDecision:
    """Reconcile once at T0 + seconds."""
    now = at(seconds)
    decision = decide_node(stored.over(seen), stored.fleet(), rows, now)
    for step in decision.steps:
        stored.take(step, now)
    return decision


def settle(stored: Stored, seen: NodeView, seconds: float, rows: Policy = ENFORCE) -> NodeDecision:
    """Reconcile until nothing is left to do at this moment."""
    for _ in range(8):
        decision = tick(stored, seen, seconds, rows)
        if not decision.steps:
            return decision
    raise AssertionError(f"never settles: {stored.taken[-3:]}")


def effect_of(step: Step) -> str:
    return getattr(getattr(step, "rule", None), "effect", "")


def only_names_moved(before: dict[Device, Rule], stored: Stored, seen: NodeView) -> None:
    """Check that rules have changed as far as hardware has other names now, and no further."""
    tainted = {
        incident.spec.uuid
        for incident in stored.incidents.values()
        if incident.status.scope.hardware
    }
    published = {
        device.device: device.parent_uuid or device.uuid for device in seen.slices.inventory
    }
    for device, rule in stored.rules.items():
        if device not in before or before[device].gpu != rule.gpu:
            assert (rule.effect, published.get(device)) == ("NoSchedule", rule.gpu)
            assert rule.gpu in tainted
        elif rule.effect != before[device].effect:
            raise AssertionError(f"{rule} was {before[device].effect}")
    for device in before.keys() - stored.rules.keys():
        assert published.get(device) not in (None, before[device].gpu), f"{device} was set free"
