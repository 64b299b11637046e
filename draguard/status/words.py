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


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """`unknown` counts what is published by unwatched nodes too."""

    healthy: int = 0
    storied: int = 0
    """Of the healthy ones, those with an open incident: not released yet."""
    sick: int = 0
    unknown: int = 0


class OpenIncident(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    node: str
    fault: str
    cause: str
    phase: str
    hit: int
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
    """Published GPUs and slices; `fenced`: a rule, anybody's, keeps new work away."""

    published: int
    held: int
    fenced: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    dra: str
    """Version of resource.k8s.io, "" without Dynamic Resource Allocation."""
    nodes: Nodes
    gpus: Gpus
    unknown: tuple[UnknownGpu, ...]
    devices: Devices
    sources_down: tuple[SourceDown, ...]
    rules: Rules
    incidents: tuple[OpenIncident, ...]
    modes: dict[str, str]
    """Mode of each class of fault in the policy, outside of its overrides."""
    policy: str
    """Where that policy comes from."""
    policy_problems: tuple[str, ...]
    leader: str
    """Who held the remediator's Lease last, "" when nobody did."""
    leader_renewed: datetime | None
    stopped: str
    unseen: tuple[str, ...]
    """Rights that the caller lacks; what they would show is left out."""
    unreadable: tuple[str, ...]
