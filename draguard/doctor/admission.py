"""Admission policies into checks: whether they limit what a stolen token can write."""

from collections.abc import Iterator

import msgspec

from draguard.cluster.listing import listed
from draguard.doctor.check import Check, ok, warn
from kubeapi.client import Client
from kubeapi.types import ObjectMeta, kubernetes_case

_GROUP = "/apis/admissionregistration.k8s.io/v1"
GUARDED = {
    "nodedevicehealths": "any node's token can write the report of every node",
    "devicetaintrules": "anyone who can write DeviceTaintRules can use Draguard's key, or taint "
    "the whole cluster",
}
"""By resource: what is possible without a policy."""


class _Rule(msgspec.Struct, frozen=True):
    resources: tuple[str, ...] = ()


class _Match(msgspec.Struct, frozen=True, rename=kubernetes_case):
    resource_rules: tuple[_Rule, ...] | None = ()


class _PolicySpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    match_constraints: _Match | None = None


class Policy(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _PolicySpec = _PolicySpec()

    @property
    def resources(self) -> frozenset[str]:
        rules = self.spec.match_constraints.resource_rules if self.spec.match_constraints else ()
        return frozenset(
            resource.partition("/")[0] for rule in rules or () for resource in rule.resources
        )


class _BindingSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    policy_name: str = ""
    validation_actions: tuple[str, ...] | None = ()


class Binding(msgspec.Struct, frozen=True):
    spec: _BindingSpec = _BindingSpec()


def admission(client: Client) -> Iterator[Check]:
    """Check which resources admission policies guard. Raises ApiError."""
    policies, _ = listed(client, f"{_GROUP}/validatingadmissionpolicies", Policy)
    bindings, _ = listed(client, f"{_GROUP}/validatingadmissionpolicybindings", Binding)
    yield from judged(policies, bindings)


def judged(policies: list[Policy], bindings: list[Binding]) -> Iterator[Check]:
    """Judge policies with the bindings that put them in force. Pure."""
    denying = {
        binding.spec.policy_name
        for binding in bindings
        if "Deny" in (binding.spec.validation_actions or ())
    }
    for resource, without in GUARDED.items():
        about = f"admission of {resource}"
        guards = [policy.metadata.name for policy in policies if resource in policy.resources]
        bound = sorted(denying.intersection(guards))
        if bound:
            yield ok(about, f"guarded by {', '.join(bound)}")
        else:
            why = "a policy exists, but no binding denies" if guards else "no policy"
            yield warn(
                about, f"{why}: {without}", "the chart installs the policies; see docs/security.md"
            )
