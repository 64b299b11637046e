"""Whether the pod's claims exist, and whether the scheduler may look at it yet. Pure."""

from allocation.layers.finding import Finding, PodView

NOT_CREATED = "FailedResourceClaimCreation"
"""Reason of the event of the resource claim controller, such as for a quota."""


def admission(view: PodView) -> Finding | None:
    """Return why the scheduler does not look at a pod yet."""
    spec = view.pod.spec
    if spec.node_name:
        return None
    if spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in spec.scheduling_gates)
        return Finding(
            layer="Admission",
            reason="SchedulingGated",
            message=f"its scheduling gates keep it from the scheduler: {gates}",
            since=view.pod.metadata.creation_timestamp,
            todo=("who has set a gate lifts it: a queue such as Kueue does so at admission",),
        )
    names = view.pod.claim_names()
    for claim in spec.resource_claims:
        if claim.name in names:
            found = _claim(view, claim.name, names[claim.name], claim.resource_claim_template_name)
            if found is not None:
                return found
    return None


def _claim(view: PodView, in_pod: str, name: str, template: str) -> Finding | None:
    namespace, since = view.pod.metadata.namespace, view.pod.metadata.creation_timestamp
    # One that was made and is gone is made anew, under another name.
    if not name or (template and name not in view.claims):
        if template not in view.templates:
            return Finding(
                layer="Admission",
                reason="TemplateMissing",
                message=f"there is no ResourceClaimTemplate {template} in namespace {namespace}",
                since=since,
                todo=(f"create ResourceClaimTemplate {template} there, or correct the pod's",),
            )
        event = view.last_event(NOT_CREATED)
        return Finding(
            layer="Admission",
            reason="ClaimNotCreated",
            message=f"no ResourceClaim was made from template {template} for its claim {in_pod}",
            since=since,
            evidence=(event.message,) if event else (),
            todo=() if event else ("check that kube-controller-manager runs: it makes the claims",),
        )
    claim = view.claims.get(name)
    if claim is None:
        return Finding(
            layer="Admission",
            reason="ClaimMissing",
            message=f"there is no ResourceClaim {name} in namespace {namespace}",
            since=since,
            todo=(f"create ResourceClaim {name} there, or correct the pod's",),
        )
    if claim.metadata.deletion_timestamp is not None:
        users = ", ".join(each.name for each in claim.status.reserved_for)
        return Finding(
            layer="Admission",
            reason="ClaimDeleting",
            message=f"ResourceClaim {name} is being deleted",
            since=claim.metadata.deletion_timestamp,
            evidence=(f"still reserved for {users}",) if users else (),
            todo=("it goes with its last pod; create another claim for this one",),
        )
    return None
