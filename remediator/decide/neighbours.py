"""Which pods stand in the way of an act that stops their whole node.

Two witnesses count: who a claim is reserved for, and who names the claim and
runs. Admin access is no use of a GPU: those pods watch it and never leave by
themselves. Pure.
"""

from collections.abc import Iterable

from exporter.device import Device
from remediator.decide.view import NodeView
from remediator.objects.claims import Claim
from remediator.objects.incident import Incident


def neighbours(view: NodeView, incidents: Iterable[Incident]) -> tuple[str, ...] | None:
    """Return the pods that hold a GPU of the node, as `namespace/name`; None when not known.

    Devices of the node are those that it publishes, that our rules name, and
    that the incidents had in scope: a GPU that died may be published no more.
    """
    if view.pods is None:
        return None
    devices = {one.device for one in view.inventory}
    devices |= {rule.device for rule in view.rules}
    devices |= {one.name for each in incidents for one in each.spec.scope.devices}
    held = [claim for claim in view.claims if _holds(claim, devices)]
    names = {(claim.metadata.namespace, claim.metadata.name) for claim in held}
    finished = {(one.namespace, one.name) for one in view.pods if not one.running}
    reserved = {
        (claim.metadata.namespace, one.name)
        for claim in held
        for one in (claim.status.reserved_for if claim.status else ())
    }
    running = {
        (pod.namespace, pod.name)
        for pod in view.pods
        if pod.running
        and any((pod.namespace, one) in names for one in (*pod.claims, pod.extended_claim))
    }
    return tuple(f"{space}/{name}" for space, name in sorted(reserved - finished | running))


def _holds(claim: Claim, devices: set[Device]) -> bool:
    if claim.status is None or claim.status.allocation is None:
        return False
    results = claim.status.allocation.devices.results
    return any(
        Device(one.driver, one.pool, one.device) in devices
        for one in results
        if not one.admin_access
    )
