"""One moment of a cluster into `Status`: nodes, GPUs, taint rules, incidents, leader. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec

from draguard.cluster.cordon_rule import is_maintenance
from draguard.cluster.decide import Deciding
from draguard.cluster.incident_lines import Line, incident_lines
from draguard.cluster.incidents import index_of
from draguard.cluster.installation import Installation
from draguard.cluster.leader import leader_of
from draguard.cluster.objects import Objects
from draguard.cluster.policy_in_force import judged
from remediator.controller.cache import Cache
from remediator.diagnose.fault import Healthy, Sick, Unknown
from remediator.metrics.devices import FOREIGN, State, TaintedBy, admit_unknown
from remediator.model.claim import Claim
from remediator.model.taint_rule import TAINT_EFFECTS, is_ours
from remediator.plan.board import Board
from remediator.policy.table import MODES

T = TypeVar("T")
_WAITING_OWNERS = frozenset({"Pod", "PodGroup"})


class SourceDown(msgspec.Struct, frozen=True):
    node: str
    source: str
    reason: str


class UnknownGpu(msgspec.Struct, frozen=True):
    node: str
    uuid: str
    why: str
    index: int | None = None
    """N of /dev/nvidiaN, by its report, else by its published name; None: not known."""


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    reporting: int
    """Number of nodes whose report is current."""
    stale: tuple[str, ...]
    """Nodes whose last report is stale."""
    unwatched: tuple[str, ...]
    """Nodes that publish GPUs and have no report at all."""
    gone: tuple[str, ...] = ()
    """Deleted nodes whose stale reports still exist. Their GPUs are counted only if an incident is
    open."""


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """`unknown` counts what is published by unwatched nodes too."""

    healthy: int = 0
    with_incident: int = 0
    """Of the healthy ones, those with an open incident: not untainted yet."""
    sick: int = 0
    unknown: int = 0


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    served: str
    """Version of DeviceTaintRule, "" where rules are not served."""
    ours: dict[str, int]
    """By effect."""
    maintenance: int
    others: int


class DeviceCount(msgspec.Struct, frozen=True, order=True):
    state: State
    taint: TaintedBy
    type: str
    number: int


class Devices(msgspec.Struct, frozen=True):
    """Published devices, as `draguard_devices` counts them."""

    published: int | None
    """None: not known, because some slices cannot be read."""
    counts: tuple[DeviceCount, ...]
    """What is published, or at least that; what is not there is 0."""


class PendingClaims(msgspec.Struct, frozen=True):
    """Claims without an allocation that a pod or a PodGroup owns."""

    pending: int
    oldest: datetime | None
    """When the oldest of them was made."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """None stands for what is not known, because the caller may not read it."""

    server: str
    cluster: str
    """Its name for the remediator, "" without one."""
    dra: str
    """Version of resource.k8s.io, "" without Dynamic Resource Allocation."""
    nodes: Nodes | None
    gpus: Gpus | None
    unknown: tuple[UnknownGpu, ...] | None
    devices: Devices | None
    claims: PendingClaims | None
    sources_down: tuple[SourceDown, ...] | None
    rules: Rules | None
    incidents: tuple[Line, ...] | None
    modes: dict[str, str] | None
    """Mode of each class of fault in the policy, outside of its overrides. None: not known, also
    where the policy cannot be read."""
    policy: str
    """Where that policy comes from."""
    policy_doubt: str
    """Why the leader may obey another one, "" where it does not."""
    policy_problems: tuple[str, ...]
    leader: str | None
    """The last holder of the remediator's Lease, "" if there was none."""
    leader_renewed: datetime | None
    stopped: str | None
    unseen: tuple[str, ...]
    """Rights that the caller lacks; what they would show is left out."""
    missing: tuple[str, ...]
    """Collections that are unknown because these rights are missing, by the names in `Reader`."""
    unreadable: tuple[str, ...]


def fleet_status(objects: Objects, installed: Installation) -> Status:
    """Return the whole status; of a collection that may not be read, None."""
    deciding = Deciding(objects, installed.settings.stale_after)
    unanswered = tuple(
        report.metadata.name for report in objects.reports if deciding.stale(report.metadata.name)
    )
    existing = {node.metadata.name for node in objects.nodes}
    gone = frozenset(unanswered) - existing if existing else frozenset[str]()
    stale = tuple(node for node in unanswered if node not in gone)
    cases = [
        board for board in deciding.bind_boards() if board.node not in gone or _has_incident(board)
    ]
    unwatched = _unwatched(objects, deciding)
    unknown = tuple(_unknown(objects, cases, unwatched))
    healthy = [board for board in cases if isinstance(board.verdict, Healthy)]
    leader = leader_of(objects.leases, objects.at)
    policy = judged(installed.policy, leader)
    reports = _Readable(objects, "reports")
    return Status(
        server=objects.server,
        cluster=installed.settings.cluster_name,
        dra=objects.dra_version or "",
        nodes=reports(
            Nodes(
                reporting=len(objects.reports) - len(unanswered),
                stale=stale,
                unwatched=tuple(unwatched),
                gone=tuple(sorted(gone)),
            )
        ),
        gpus=reports(
            Gpus(
                healthy=len(healthy),
                with_incident=sum(map(_has_incident, healthy)),
                sick=sum(isinstance(board.verdict, Sick) for board in cases),
                unknown=len(unknown),
            )
        ),
        unknown=reports(unknown),
        devices=_Readable(objects, "slices")(_devices(objects, deciding.cache)),
        claims=_Readable(objects, "claims")(_pending(objects.claims)),
        sources_down=reports(tuple(_sources_down(objects, stale))),
        rules=_Readable(objects, "rules")(_rules(objects)),
        incidents=_Readable(objects, "incidents")(incident_lines(objects.incidents)),
        modes=policy.modes,
        policy=policy.source,
        policy_doubt=policy.doubt,
        policy_problems=installed.policy.problems,
        leader=_Readable(objects, "leases")(leader.holder),
        leader_renewed=leader.renewed,
        stopped=_Readable(objects, "stop")(objects.stopped),
        unseen=objects.unseen,
        missing=tuple(sorted(objects.missing)),
        unreadable=objects.unreadable,
    )


def _pending(claims: Iterable[Claim]) -> PendingClaims:
    """Count the claims that wait for a device; `why` tells whether a pod uses any other."""
    pending = [
        claim.metadata
        for claim in claims
        if not claim.allocated
        and any(owner.kind in _WAITING_OWNERS for owner in claim.metadata.owner_references)
    ]
    dates = (meta.creation_timestamp for meta in pending)
    return PendingClaims(len(pending), min(filter(None, dates), default=None))


def _sources_down(objects: Objects, stale: Collection[str]) -> Iterator[SourceDown]:
    """Yield the sources that are down; a stale report does not describe the present."""
    for report in objects.reports:
        if report.metadata.name not in stale:
            yield from (
                SourceDown(report.metadata.name, source.name, source.reason)
                for source in report.status.sources
                if not source.up
            )


def _unknown(
    objects: Objects, cases: Iterable[Board], unwatched: Mapping[str, set[str]]
) -> Iterator[UnknownGpu]:
    """Give the unknown GPUs, with their indexes by reports, however old, or by published names."""
    found = [
        (board.node, board.uuid, board.verdict.why)
        for board in cases
        if isinstance(board.verdict, Unknown)
    ]
    for node, uuids in unwatched.items():
        why = f"{node} publishes it but has no report"
        found += [(node, uuid, why) for uuid in sorted(uuids)]
    index: dict[str | None, int | None] = {}
    for part in objects.gpus() if found else ():
        index[part.parent_uuid or part.uuid] = index_of(part.device.device)
    for report in objects.reports if found else ():
        index |= {gpu.uuid: gpu.minor for gpu in report.status.gpus if gpu.minor is not None}
    for node, uuid, why in found:
        yield UnknownGpu(node, uuid, why, index.get(uuid))


class _Readable:
    """Passes a value on if its collection may be read, else None."""

    def __init__(self, objects: Objects, collection: str) -> None:
        self._readable = collection not in objects.missing

    def __call__(self, value: T) -> T | None:
        return value if self._readable else None


def _has_incident(board: Board) -> bool:
    return any(incident.open for incident in board.incidents)


def _unwatched(objects: Objects, deciding: Deciding) -> dict[str, set[str]]:
    """Return the GPUs that nodes without a report publish, by node."""
    reported = {report.metadata.name for report in objects.reports}
    found: dict[str, set[str]] = {}
    for uuid, place in deciding.cache.gpu_index.places.items():
        if place.node not in reported:
            found.setdefault(place.node, set()).add(uuid)
    return dict(sorted(found.items()))


def modes_in_words(found: Mapping[str, str]) -> str:
    """Return the modes from the strongest down, and the most common one last as `all others`."""
    by_mode = {mode: [name for name, its in found.items() if its == mode] for mode in MODES}
    if len(found) in map(len, by_mode.values()):
        return f"{next(mode for mode in MODES if by_mode[mode])}: every class"
    common = max(by_mode, key=lambda mode: len(by_mode[mode]))
    parts = [
        f"{mode}: {', '.join(by_mode[mode])}"
        for mode in reversed(MODES)
        if by_mode[mode] and mode != common
    ]
    return "; ".join([*parts, f"{common}: all others"])


def _devices(objects: Objects, cache: Cache) -> Devices:
    """Count what drivers of GPUs publish, whatever its product."""
    counts = Counter[tuple[State, TaintedBy, str]]()
    unread = objects.unread()
    for ((_, kind, *_), state, taint), number in admit_unknown(cache.stock(), unread).items():
        if kind != FOREIGN:
            counts[state, taint, kind] += number
    rows = (DeviceCount(*group, number) for group, number in counts.items())
    return Devices(None if "slices" in unread else counts.total(), tuple(sorted(rows)))


def _rules(objects: Objects) -> Rules:
    maintenance = [raw for raw in objects.rules if is_maintenance(raw)]
    mine = [raw for raw in objects.rules if is_ours(raw) and not is_maintenance(raw)]
    effects = Counter(raw.spec.taint.effect for raw in mine)
    return Rules(
        served=objects.rule_version or "",
        ours=dict.fromkeys(TAINT_EFFECTS, 0) | effects,
        maintenance=len(maintenance),
        others=len(objects.rules) - len(mine) - len(maintenance),
    )
