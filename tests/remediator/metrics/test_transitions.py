"""What has happened to an incident, read from two stored versions of it: each thing once."""

from collections import Counter
from datetime import datetime, timedelta

import msgspec
import pytest

from remediator.metrics.lifecycle import LIFECYCLE_FAMILIES
from remediator.metrics.transitions import LifecycleEvent, change_events, opening_events
from remediator.model.claim import EXTENDED_RESOURCE
from remediator.model.incident import Incident
from remediator.model.incident_status import (
    AffectedPod,
    Condition,
    IncidentStatus,
    RuleRecord,
    TimelineEntry,
)
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import OpenIncident, Step, WriteStatus
from remediator.plan.view import Fleet, NodeView
from remediator.policy.table import Evict, Policy
from tests.remediator.builders import (
    SLICE_5,
    T0,
    Stored,
    action,
    at,
    gpu,
    incident,
    make_status,
    mig_gpu,
    policy,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, claim, pod, settle, tick

SICK = gpu(0, xid(95), recovery_action=action(1, 1, 1))
MENDED = gpu(0, xid(95), recovery_action=action(0, since=100, observed=100))
TAINT, DRAIN, REPAIR = (f"time_to_{word}_seconds" for word in ("taint", "drain", "repair"))
FAMILIES = {family.name: family for family in LIFECYCLE_FAMILIES}


class Reported(Stored):
    """A store that writes down what has happened with each of its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[LifecycleEvent] = []

    def take(self, step: Step, now: datetime) -> None:
        super().take(step, now)
        if isinstance(step, OpenIncident):
            self.reported += opening_events(step.incident)
        if isinstance(step, WriteStatus):
            after = self.incidents[step.incident.name]
            self.reported += change_events(step.incident, after, step.spared)

    def of(self, family: str) -> Counter[tuple[str, ...]]:
        found = Counter[tuple[str, ...]]()
        for happening in self.reported:
            found[happening.labels] += int(happening.amount) if happening.family == family else 0
        return +found

    def seconds(self, family: str) -> list[float]:
        return [happening.amount for happening in self.reported if happening.family == family]


def history(rows: Policy = ENFORCE) -> Reported:
    """Tell of a GPU that fails, is drained of a pod, and is healthy again."""
    stored = Reported()
    held = view(SICK, claims=(claim("gpu-0"),), pods=(pod(),))
    for second in (2, 5, 6):
        settle(stored, held, second, rows)
    gone = view(SICK, pods=())
    for second in (20, 31):
        settle(stored, gone, second, rows)
    for second in (100, 690, 699, 700, 800):
        settle(stored, view(MENDED, pods=()), second, rows)
    return stored


def with_status(status: IncidentStatus, fault: str = "gpu") -> Incident:
    status = with_fields(status, fault_class=fault)
    return msgspec.structs.replace(incident(), status=status)


def between(old: IncidentStatus, new: IncidentStatus, fault: str = "gpu") -> dict[str, float]:
    """Return what has happened, with the sum of each family."""
    found: dict[str, float] = {}
    for happening in change_events(with_status(old, fault), with_status(new, fault)):
        found[happening.family] = found.get(happening.family, 0) + happening.amount
    return found


def test_a_whole_history_is_reported_once_with_the_times_that_are_stored() -> None:
    stored = history()

    assert stored.of("incidents_opened") == {("gpu",): 1}
    assert stored.of("incidents_closed") == {("gpu", "Recovered"): 1}
    assert stored.of("pods_evicted") == {("gpu", "NoExecute"): 1}
    assert stored.seconds(TAINT) == [1], "from the driver's word at 1 s"
    assert stored.seconds(DRAIN) == [26], "from the NoExecute at 5 s to the second look at 31 s"
    assert stored.seconds(REPAIR) == [698], "opened at 2 s"


def test_every_label_is_one_that_the_table_knows_and_so_has_a_series_from_the_start() -> None:
    reported = [*history().reported, *_deferred(Fleet(stopped="ann")).reported]

    assert {happening.family for happening in reported} >= {"incidents_opened", TAINT, "deferrals"}
    for happening in reported:
        known = FAMILIES[happening.family].known
        assert len(happening.labels) == len(known)
        assert all(word in words for word, words in zip(happening.labels, known, strict=True)), (
            happening
        )


def test_nothing_has_happened_between_a_version_and_itself() -> None:
    (closed,) = history().incidents.values()

    assert list(change_events(closed, closed)) == []


def test_a_taint_that_comes_back_on_another_device_is_no_second_first_one() -> None:
    tainted = make_status(
        mode="enforce",
        tainted_at=at(1),
        seen_through=T0,
        rules=(RuleRecord("r", "u", "d", "None"),),
    )
    rule = RuleRecord("r", "u", "d", "NoSchedule")
    in_part = with_fields(tainted, tainted_at=None, rules=(rule,))
    again = with_fields(tainted, tainted_at=at(50), rules=(rule,))

    assert TAINT not in between(in_part, again)
    assert TAINT not in between(tainted, again)


@pytest.mark.parametrize(
    ("old", "signal", "seconds"),
    [
        (IncidentStatus(), at(2), 3),
        (make_status(mode="enforce", seen_through=at(1)), at(4), 4),
        (IncidentStatus(), at(9), 1),  # the node's clock is ahead: the first entry counts
        (IncidentStatus(), None, None),  # rules without an incident: nobody knows since when
        (make_status(mode="incident-only", seen_through=at(1)), at(1), None),
    ],
)
def test_the_time_to_taint_counts_from_the_first_signal_that_is_known(
    old: IncidentStatus, signal: datetime | None, seconds: float | None
) -> None:
    entry = TimelineEntry(at(4), "Tainted", "")
    new = make_status(mode="enforce", tainted_at=at(5), seen_through=signal, timeline=(entry,))

    assert between(old, new).get(TAINT) == seconds


def test_an_incident_that_ends_without_recovery_was_not_repaired() -> None:
    closed = make_status(phase="Closed", closed_at=at(90))
    other = with_fields(closed, duplicate_of="i-0")

    ends = [
        list(change_events(with_status(IncidentStatus()), with_status(status)))
        for status in (closed, other)
    ]
    assert ends == [
        [LifecycleEvent("incidents_closed", ("gpu", "Closed"))],
        [LifecycleEvent("incidents_closed", ("gpu", "Duplicate"))],
    ]


def test_a_class_of_another_version_makes_no_series_of_its_own() -> None:
    (reported,) = opening_events(with_status(IncidentStatus(), fault="tomorrow"))

    assert reported.labels == ("other",)


def test_a_pod_with_eight_devices_is_evicted_once_and_those_beyond_the_limit_are_counted() -> None:
    holds = tuple(AffectedPod("team", "train-0", "c", f"d-{n}", "u-0") for n in range(8))
    api = AffectedPod("team", "train-1", "c", "d-0", "u-1", EXTENDED_RESOURCE)
    old = make_status(evicted=holds[:1])
    new = make_status(evicted=(*holds, api), evicted_left_out=3)

    reported = {
        happening.labels: happening.amount
        for happening in change_events(with_status(IncidentStatus()), with_status(new))
    }
    assert reported == {("gpu", "NoExecute"): 4, ("gpu", "EvictionAPI"): 1}
    assert between(old, new) == {"pods_evicted": 4}


def test_a_pod_that_the_eviction_api_took_from_a_tainted_device_is_counted_as_such() -> None:
    rules = (RuleRecord("r-0", "u", "d-0", "Evict"), RuleRecord("r-1", "u", "d-1", "NoExecute"))
    gone = (
        AffectedPod("team", "a", "c", "d-0", "u-0"),
        AffectedPod("team", "b", "c", "d-1", "u-1"),
    )
    old = make_status(rules=rules)
    new = make_status(rules=rules, evicted=gone)

    reported = {
        happening.labels: happening.amount
        for happening in change_events(with_status(old), with_status(new))
    }
    assert reported == {("gpu", "NoExecute"): 1, ("gpu", "EvictionAPI"): 1}


def test_pods_on_other_slices_are_spared_when_an_eviction_begins() -> None:
    stored = Reported()
    claims = (
        claim(SLICE_5, "train-0"),
        claim("gpu-0-mig-1g10gb-19-2", "train-1"),
        claim("gpu-0-mig-1g10gb-19-3", "train-2"),
    )
    seen = view(mig_gpu(0, xid(94, gi=5)), claims=claims, pods=(pod("train-0"),))
    for second in (1, 5, 6, 7):
        settle(stored, seen, second)

    assert stored.effects() == {SLICE_5: "NoExecute"}
    assert stored.of("pods_spared") == {("contained", "NotInScope"): 2}


def test_pods_that_are_passed_by_are_spared_by_kind_when_evictions_begin() -> None:
    stored, rows = Reported(), policy(evict=Evict())
    pods = (pod("a", owner="DaemonSet/watch"), pod("b", mirror=True), pod("c"))
    seen = view(SICK, claims=tuple(claim("gpu-0", facts.name) for facts in pods), pods=pods)
    for second in (1, 1, 1, 5, 5, 5, 6):
        tick(stored, seen, second, rows)

    assert stored.effects() == {"gpu-0": "Evict"}
    assert stored.of("pods_spared") == {("gpu", "DaemonSet"): 1, ("gpu", "MirrorPod"): 1}


def _deferred(fleet: Fleet, seconds: float = 5) -> Reported:
    """Return a store in which a taint stands and its eviction is requested in such a fleet."""
    stored, held = Reported(), view(SICK, claims=(claim("gpu-0"),), pods=(pod(),))
    settle(stored, held, 1)
    for _ in range(4):
        _decide(stored, held, fleet, at(seconds))
    return stored


def _decide(stored: Reported, seen: NodeView, fleet: Fleet, now: datetime) -> None:
    known = msgspec.structs.replace(stored.fleet(), stopped=fleet.stopped)
    for step in decide_node(stored.over(seen), known, policy(), now).steps:
        stored.take(step, now)


def test_an_eviction_that_is_deferred_is_counted_once_however_often_it_is_decided() -> None:
    stored = _deferred(Fleet(stopped="ann: driver"))

    assert stored.of("deferrals") == {("Eviction", "EmergencyStop"): 1}
    assert stored.of("pods_deferred") == {("EmergencyStop",): 1}


def test_a_taint_that_is_deferred_defers_no_pods() -> None:
    stored, seen = Reported(), view(SICK, claims=(claim("gpu-0"),), pods=(pod(),))
    for _ in range(4):
        _decide(stored, seen, Fleet(stopped="ann"), at(1))

    assert stored.of("deferrals") == {("Taint", "EmergencyStop"): 1}
    assert stored.of("pods_deferred") == {}


def held(kind: str, reason: str, status: str = "True") -> Condition:
    return Condition(kind, "True" if status == "True" else "False", reason, T0)


@pytest.mark.parametrize(
    ("kind", "reason", "reported"),
    [
        ("Deferred", "Budget", ("Taint", "Budget")),
        ("RepairDeferred", "Correlation", ("Repair", "Correlation")),
        ("EvictionRefused", "EvictionAPI", ("Eviction", "EvictionRefused")),
    ],
)
def test_a_deferral_is_reported_when_its_condition_becomes_true_and_not_while_it_stays_so(
    kind: str, reason: str, reported: tuple[str, str]
) -> None:
    true = IncidentStatus(conditions=(held(kind, reason),))
    false = IncidentStatus(conditions=(held(kind, "AsExpected", "False"),))

    begins = list(change_events(with_status(false), with_status(true)))
    assert begins == [LifecycleEvent("deferrals", reported)]
    assert list(change_events(with_status(true), with_status(true))) == []
    assert list(change_events(with_status(true), with_status(false))) == []


def test_a_shorter_soak_time_makes_the_repair_shorter() -> None:
    stored = history(policy(soak=timedelta(seconds=590)))

    assert stored.seconds(REPAIR) == [688]
