"""A pod as far as its own object says what PodResources does not: its UID and its labels.

Also which requests of a claim each container requested: the kubelet lists every
device of a claim with each container that uses any of it. Pure.
"""

from collections.abc import Collection, Mapping
from itertools import accumulate, islice, takewhile

import msgspec

from exporter.label_patterns import chooser
from kubeapi.types import NamespacedMeta, kubernetes_case

PodKey = tuple[str, str]
"""(namespace, name)."""


MOST_USES = 1024
"""Claims in all containers of one pod together that are kept; with more it is unknown which request
of a claim is whose."""
MOST_LABELS = 64
MOST_LABEL_BYTES = 4096
"""Of one pod, keys and values together. Its author may write a megabyte of them, and each series of
each of its devices has them all."""


class PodFact(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of this node."""

    uid: str
    labels: tuple[tuple[str, str], ...] = ()
    """Allowed ones, sorted, as on the pod, as far as the limits go."""
    labels_left_out: int = 0
    """Allowed ones beyond the limits."""
    requests: frozenset[tuple[str, str, str]] | None = None
    """(container, claim, request) that were requested, request "" for all of the claim. None when
    the pod's status does not yet name its claims."""
    extended: tuple[tuple[str, str, str], ...] = ()
    """(container, request, resource name) of the claim made for its extended resources."""

    def may_use(self, container: str, claim: str, request: str) -> bool:
        """Return whether a container may use a request of a claim; True while that is not known."""
        extended = {
            mapping[0] for mapping in self.extended if mapping[1] == request.partition("/")[0]
        }
        if extended:
            return container in extended
        known = {
            known_request[2]
            for known_request in self.requests or ()
            if known_request[:2] == (container, claim)
        }
        return not known or "" in known or request.partition("/")[0] in known

    def resource(self, container: str, request: str) -> str:
        """Return the extended resource that a request stands for, "" when it is none."""
        desired = (container, request.partition("/")[0])
        return next((name for *key, name in self.extended if tuple(key) == desired), "")


class Allowed:
    """Which labels may ride: those whose key a pattern is found in, all without patterns."""

    def __init__(self, patterns: Collection[str] = ()) -> None:
        """Read the patterns; raises PatternError."""
        self._chooses = chooser(patterns)

    def of(self, labels: Mapping[str, str]) -> tuple[tuple[tuple[str, str], ...], int]:
        """Return the first labels by the order of keys, and how many are beyond the limits."""
        allowed = sorted(pair for pair in labels.items() if self._chooses(pair[0]))
        first = first_within(allowed[:MOST_LABELS], MOST_LABEL_BYTES)
        return first, len(allowed) - len(first)


def first_within(
    labels: Collection[tuple[str, str]], most_bytes: int
) -> tuple[tuple[str, str], ...]:
    """Return labels from the first on, as many as fit together."""
    sizes = accumulate(len(f"{name}{value}".encode()) for name, value in labels)
    number = sum(1 for _ in takewhile(lambda size: size <= most_bytes, sizes))
    return tuple(islice(labels, number))


class _ClaimUse(msgspec.Struct, frozen=True):
    name: str
    request: str = ""


class _Resources(msgspec.Struct, frozen=True):
    claims: tuple[_ClaimUse, ...] | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str
    resources: _Resources = _Resources()


class _PodClaim(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str
    resource_claim_name: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] | None = None
    resource_claims: tuple[_PodClaim, ...] | None = None


class _Mapping(msgspec.Struct, frozen=True, rename=kubernetes_case):
    container_name: str
    resource_name: str
    request_name: str


class _Extended(msgspec.Struct, frozen=True, rename=kubernetes_case):
    request_mappings: tuple[_Mapping, ...] | None = None


class _Status(msgspec.Struct, frozen=True, rename=kubernetes_case):
    resource_claim_statuses: tuple[_PodClaim, ...] | None = None
    extended_resource_claim_status: _Extended | None = None


class RawPod(msgspec.Struct, frozen=True):
    """The object as the API server stores it, cut to what is read."""

    metadata: NamespacedMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


def fact_of(pod: RawPod, allowed: Allowed | None) -> PodFact:
    """Cut a pod down to what is shown; without `allowed` no label is kept."""
    extended = pod.status.extended_resource_claim_status or _Extended()
    labels, left_out = allowed.of(pod.metadata.labels) if allowed else ((), 0)
    return PodFact(
        uid=pod.metadata.uid,
        labels=labels,
        labels_left_out=left_out,
        requests=_requests(pod),
        extended=tuple(
            (mapping.container_name, mapping.request_name, mapping.resource_name)
            for mapping in extended.request_mappings or ()
        ),
    )


def _requests(pod: RawPod) -> frozenset[tuple[str, str, str]] | None:
    made = (*(pod.spec.resource_claims or ()), *(pod.status.resource_claim_statuses or ()))
    names = {claim.name: claim.resource_claim_name for claim in made if claim.resource_claim_name}
    uses = [
        (container.name, use)
        for container in (*pod.spec.containers, *(pod.spec.init_containers or ()))
        for use in container.resources.claims or ()
    ]
    if len(uses) > MOST_USES or any(use.name not in names for _, use in uses):
        return None
    return frozenset((container, names[use.name], use.request) for container, use in uses)
