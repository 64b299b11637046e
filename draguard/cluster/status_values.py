"""What is told of a cluster at one moment. Values only. Pure."""

from datetime import datetime

import msgspec


class SourceDown(msgspec.Struct, frozen=True):
    node: str
    source: str
    reason: str


class UnknownGpu(msgspec.Struct, frozen=True):
    node: str
    uuid: str
    why: str


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    reporting: int
    """Nodes whose report is believed."""
    stale: tuple[str, ...]
    """Nodes that have reported and whose agent is silent."""
    unwatched: tuple[str, ...]
    """Nodes that publish GPUs and have no report at all."""
    gone: tuple[str, ...] = ()
    """Names of silent reports whose Node is no more: nobody deletes those. Their GPUs are counted
    only where an incident is open."""


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """`unknown` counts what is published by unwatched nodes too."""

    healthy: int = 0
    storied: int = 0
    """Of the healthy ones, those with an open incident: not untainted yet."""
    sick: int = 0
    unknown: int = 0


class OpenIncident(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    node: str
    fault: str
    cause: str
    phase: str
    affected: int
    message: str
    held: str
    opened: datetime | None


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    served: str
    """Version of DeviceTaintRule, "" where rules are not served."""
    ours: dict[str, int]
    """By effect."""
    maintenance: int
    others: int


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """Published GPUs and slices; `tainted`: a rule, anybody's, keeps new work away.

    None where claims, or rules, may not be read.
    """

    published: int
    held: int | None
    tainted: int | None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """None stands for what is not known, because the caller may not read it."""

    server: str
    dra: str
    """Version of resource.k8s.io, "" without Dynamic Resource Allocation."""
    nodes: Nodes | None
    gpus: Gpus | None
    unknown: tuple[UnknownGpu, ...] | None
    devices: Devices | None
    sources_down: tuple[SourceDown, ...] | None
    rules: Rules | None
    incidents: tuple[OpenIncident, ...] | None
    modes: dict[str, str] | None
    """Mode of each class of fault in the policy, outside of its overrides. None: not known, also
    where the policy cannot be read."""
    policy: str
    """Where that policy comes from."""
    policy_problems: tuple[str, ...]
    leader: str | None
    """Who held the remediator's Lease last, "" when nobody did."""
    leader_renewed: datetime | None
    stopped: str | None
    unseen: tuple[str, ...]
    """Rights that the caller lacks; what they would show is left out."""
    missing: tuple[str, ...]
    """What is not known for want of them: collections, as this program calls them."""
    unreadable: tuple[str, ...]
