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
    due = view.pod.templates_due({claim.key for claim in view.claims.values()})
    for claim in spec.resource_claims:
        if claim.name in names:
            template = due.get(claim.name)
            found = (
                _claim(view, names[claim.name])
                if template is None
                else _not_made(view, claim.name, template)
            )
            if found is not None:
                return found
    return None


def _not_made(view: PodView, in_pod: str, template: str) -> Finding:
    """Return why a claim was not made from its template."""
    namespace, since = view.pod.metadata.namespace, view.pod.metadata.creation_timestamp
    if view.templates.get(template) is False:
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


def _claim(view: PodView, name: str) -> Finding | None:
    namespace, since = view.pod.metadata.namespace, view.pod.metadata.creation_timestamp
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
