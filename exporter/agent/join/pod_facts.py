"""A pod as far as its own object says what PodResources does not: its UID and its labels.

Also which requests of a claim each container requested: the kubelet lists every
device of a claim with each container that uses any of it. Pure.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from kubeapi.types import NamespacedMeta, kubernetes_case

PodKey = tuple[str, str]
"""(namespace, name)."""


class PodLabelsError(Exception):
    """An allow-list that cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.reason = "BadPattern"


class PodFact(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of this node."""

    uid: str
    labels: tuple[tuple[str, str], ...] = ()
    """Allowed ones, sorted, as on the pod."""
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

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        compiled: list[re.Pattern[str]] = []
        for pattern in patterns:
            try:
                compiled.append(re.compile(pattern))
            except (re.error, OverflowError, RecursionError) as error:
                raise PodLabelsError(
                    f"{pattern!r} in the allow-list of pod labels is not a regular expression: "
                    f"{error}"
                ) from error
        self._patterns = tuple(compiled)

    def of(self, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        return tuple(
            sorted(
                (key, value)
                for key, value in labels.items()
                if not self._patterns or any(pattern.search(key) for pattern in self._patterns)
            )
        )


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
    return PodFact(
        uid=pod.metadata.uid,
        labels=allowed.of(pod.metadata.labels) if allowed else (),
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
    if any(use.name not in names for _, use in uses):
        return None
    return frozenset((container, names[use.name], use.request) for container, use in uses)
