"""The explainer into checks: its rights, and whether its pods are ready."""

from collections.abc import Iterator

from draguard.cluster.installation import EXPLAINER_ACCOUNT, Workload, find_explainer
from draguard.doctor.check import Check, bad, ok
from draguard.doctor.rights import EXPLAINER, POSTS, Reviews
from kubeapi.client import Client

_SILENT = "--no-events"


def explainer(client: Client, namespace: str) -> Iterator[Check]:
    """Check the explainer; one that is not installed is no finding. Raises ApiError."""
    found = find_explainer(client, namespace)
    if found is not None:
        needed = [right for right in EXPLAINER if right != POSTS or _SILENT not in found.words]
        yield Reviews(client, namespace).account(EXPLAINER_ACCOUNT, needed)
        yield readiness(found, namespace)


def readiness(found: Workload, namespace: str) -> Check:
    """Judge the explainer's Deployment."""
    desired, ready = found.spec.replicas, found.status.ready_replicas
    says = f"Deployment {found.metadata.name}: {ready} of {desired} ready"
    if ready < desired:
        remedy = f"kubectl -n {namespace} describe deployment {found.metadata.name}"
        return bad("explainer", f"{says}; metrics of claims and Events may be missing", remedy)
    return ok("explainer", says)
