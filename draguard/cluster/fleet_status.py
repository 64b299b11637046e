"""The cluster in one sheet: what is watched, what is sick, what was done about it. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from draguard.cluster.cordon_rule import is_maintenance
from draguard.cluster.decide import Deciding
from draguard.cluster.installation import Installation
from draguard.cluster.leader import leading
from draguard.cluster.objects import Objects
from draguard.cluster.status_values import (
    Devices,
    Gpus,
    Nodes,
    OpenIncident,
    Rules,
    SourceDown,
    Status,
    UnknownGpu,
)
from exporter.model.device import Device
from exporter.model.resource_slices import inventory
from remediator.diagnose.fault import SEVERITY, Healthy, Sick, Unknown
from remediator.model.incident import Incident
from remediator.model.taint_rule import TAINT_EFFECTS, foreign_rule, is_ours
from remediator.plan.case import Case
from remediator.policy.table import MODES, Policy

T = TypeVar("T")
KINDS = ("gpu", "mig")
"""Of published devices, what is counted; a VFIO twin is the same hardware again."""


def status(objects: Objects, installed: Installation) -> Status:
    deciding = Deciding(objects, installed.settings.stale_after)
    unwatched = _unwatched(objects, deciding)
    silent = tuple(
        one.metadata.name for one in objects.reports if deciding.stale(one.metadata.name)
    )
    gone = _gone(objects, silent)
    stale = tuple(one for one in silent if one not in gone)
    judged = [one for one in deciding.cases() if one.node not in gone or _is_storied(one)]
    unknown = (*_unknown(judged), *_of_unwatched(unwatched))
    lead = leading(objects.leases, objects.at)
    reports = _Seen(objects, "reports")
    return Status(
        server=objects.server,
        dra=objects.dra_version or "",
        nodes=reports(
            Nodes(
                reporting=len(objects.reports) - len(silent),
                stale=stale,
                unwatched=tuple(unwatched),
                gone=tuple(sorted(gone)),
            )
        ),
        gpus=reports(_gpus(judged, len(unknown))),
        unknown=reports(unknown),
        devices=_Seen(objects, "slices")(_devices(objects)),
        sources_down=reports(tuple(_sources_down(objects, stale))),
        rules=_Seen(objects, "rules")(_rules(objects)),
        incidents=_Seen(objects, "incidents")(open_incidents(objects.incidents)),
        modes=modes(installed.policy.policy) if installed.policy.known else None,
        policy=installed.policy.source,
        policy_problems=installed.policy.problems,
        leader=_Seen(objects, "leases")(lead.holder),
        leader_renewed=lead.renewed,
        stopped=_Seen(objects, "stop")(objects.stopped),
        unseen=objects.unseen,
        missing=tuple(sorted(objects.missing)),
        unreadable=objects.unreadable,
    )


class _Seen:
    """Lets through what was made of a collection; None where that may not be read."""

    def __init__(self, objects: Objects, collection: str) -> None:
        self._seen = collection not in objects.missing

    def __call__(self, made: T) -> T | None:
        return made if self._seen else None


def _gone(objects: Objects, silent: Iterable[str]) -> frozenset[str]:
    """Return those whose Node is no more; none where Nodes could not be read."""
    there = {one.metadata.name for one in objects.nodes}
    return frozenset(silent) - there if there else frozenset()


def _is_storied(one: Case) -> bool:
    return any(incident.open for incident in one.incidents)


def _gpus(judged: Sequence[Case], unknown: int) -> Gpus:
    healthy = [one for one in judged if isinstance(one.verdict, Healthy)]
    return Gpus(
        healthy=len(healthy),
        storied=sum(map(_is_storied, healthy)),
        sick=sum(isinstance(one.verdict, Sick) for one in judged),
        unknown=unknown,
    )


def _unknown(judged: Iterable[Case]) -> Iterator[UnknownGpu]:
    for one in judged:
        if isinstance(one.verdict, Unknown):
            yield UnknownGpu(one.node, one.uuid, one.verdict.why)


def _of_unwatched(unwatched: Mapping[str, set[str]]) -> Iterator[UnknownGpu]:
    for node, uuids in unwatched.items():
        for uuid in sorted(uuids):
            yield UnknownGpu(node, uuid, f"{node} publishes it but has no report")


def modes(policy: Policy) -> dict[str, str]:
    return {row.fault_class: row.mode for row in policy.rows}


def modes_in_words(found: Mapping[str, str]) -> str:
    """Say the modes from the strongest, the most common one as `all others`."""
    by_mode = {mode: [one for one, its in found.items() if its == mode] for mode in MODES}
    if len(found) in map(len, by_mode.values()):
        return f"{next(mode for mode in MODES if by_mode[mode])}: every class"
    common = max(by_mode, key=lambda mode: len(by_mode[mode]))
    parts = [
        f"{mode}: {', '.join(by_mode[mode])}"
        for mode in reversed(MODES)
        if by_mode[mode] and mode != common
    ]
    return "; ".join([*parts, f"{common}: all others"])


def open_incidents(incidents: Iterable[Incident]) -> tuple[OpenIncident, ...]:
    """Return the open ones, the worst class first."""
    found = sorted((one for one in incidents if one.open), key=severity)
    return tuple(map(_line, found))


def severity(one: Incident) -> tuple[int, str]:
    """Order incidents from the worst class; a class of another version comes first."""
    worst_first: tuple[str, ...] = SEVERITY[::-1]
    known = one.status.fault in worst_first
    return worst_first.index(one.status.fault) + 1 if known else 0, one.name


def _line(one: Incident) -> OpenIncident:
    held = (c.reason for c in one.status.conditions if c.type == "Held" and c.status == "True")
    return OpenIncident(
        name=one.name,
        node=one.node,
        fault=one.status.fault,
        cause=one.status.cause,
        phase=one.status.phase,
        affected=len({(hold.namespace, hold.pod) for hold in one.status.affected if hold.pod}),
        message=one.status.message,
        held=next(held, ""),
        opened=one.metadata.creation_timestamp,
    )


def _unwatched(objects: Objects, deciding: Deciding) -> dict[str, set[str]]:
    """Return the GPUs that nodes without a report publish, by node."""
    reported = {one.metadata.name for one in objects.reports}
    found: dict[str, set[str]] = {}
    for uuid, place in deciding.cache.census.places.items():
        if place.node not in reported:
            found.setdefault(place.node, set()).add(uuid)
    return dict(sorted(found.items()))


def _devices(objects: Objects) -> Devices:
    published = {one.device for one in inventory(objects.slices) if one.kind in KINDS}
    claimed = (one for claim in objects.claims for one in claim.results)
    held = {one.name for one in claimed if not one.admin_access}
    return Devices(
        published=len(published),
        held=_Seen(objects, "claims")(len(published & held)),
        tainted=_Seen(objects, "rules")(_tainted(published, objects)),
    )


def _tainted(published: set[Device], objects: Objects) -> int:
    """Count devices that a rule keeps new work from; one that names no device means many."""
    rules = [
        foreign_rule(one) for one in objects.rules if one.spec.taint.effect in TAINT_EFFECTS[1:]
    ]
    exact = {Device(one.driver, one.pool, one.device) for one in rules}
    broad = [one for one in rules if not (one.driver and one.pool and one.device)]
    found = published & exact
    found |= {one for one in published if any(rule.selects(one) for rule in broad)}
    return len(found)


def _sources_down(objects: Objects, stale: tuple[str, ...]) -> Iterable[SourceDown]:
    """Give what reports say; a silent agent's report says nothing of now."""
    for report in objects.reports:
        if report.metadata.name not in stale:
            for source in report.status.sources:
                if not source.up:
                    yield SourceDown(report.metadata.name, source.name, source.reason)


def _rules(objects: Objects) -> Rules:
    taints = [one for one in objects.rules if is_maintenance(one)]
    mine = [one for one in objects.rules if is_ours(one) and not is_maintenance(one)]
    effects = Counter(one.spec.taint.effect for one in mine)
    return Rules(
        served=objects.rule_version or "",
        ours=dict.fromkeys(TAINT_EFFECTS, 0) | effects,
        maintenance=len(taints),
        others=len(objects.rules) - len(mine) - len(taints),
    )
