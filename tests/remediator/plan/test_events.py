"""What is reported on the incident, the node and the pods, once, and never in floods."""

from datetime import timedelta

import msgspec
import pytest

from remediator.model.claim import (
    Toleration,
)
from remediator.model.taint_rule import labels_of_cluster
from remediator.plan.events import POD_EVENTS_AT_ONCE, Event, manifest
from remediator.policy.table import Evict
from tests.remediator.builders import (
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    until,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import claim, evicts_later, pod, settle, tick


def events_of(stored: Stored, seconds: float, **fields: object) -> list[Event]:
    """Everything that is posted while a dead GPU is reconciled until nothing is left to do."""
    seen = with_fields(view(dead()), **fields)
    return [event for _ in range(4) for event in tick(stored, seen, seconds).events]


def name_of(event: Event) -> str:
    """Name of the Event object: the same for the same words."""
    made = msgspec.json.decode(msgspec.json.encode(manifest(event, at(0), {})))
    return made["metadata"]["name"]


def reasons(events: list[Event], kind: str) -> list[str]:
    return [event.reason for event in events if event.kind == kind]


def test_a_phase_is_reported_on_the_incident_and_on_the_node() -> None:
    stored = Stored()
    events = [event for second in (1, 5) for event in events_of(stored, second)]

    assert reasons(events, "DeviceIncident") == ["DeviceTainted", "DeviceEvicting"]
    assert reasons(events, "Node") == ["DeviceTainted", "DeviceEvicting"]
    assert {event.name for event in events} == {"node-a", stored.incident.name}


def test_a_pod_gets_a_warning_when_it_is_tainted_and_an_event_when_it_was_evicted() -> None:
    stored = Stored()
    tainted = events_of(stored, 1, claims=(claim("gpu-0"),))
    (warned,) = [event for event in tainted if event.kind == "Pod"]
    assert (warned.reason, warned.namespace, warned.uid) == (
        "PodEvictionPlanned",
        "team",
        "u-train-0",
    )
    assert "xid-79 was seen" in warned.message

    again = events_of(stored, 5, claims=(claim("gpu-0"),), pods=(pod(),))
    assert {name_of(event) for event in again if event.kind == "Pod"} == {name_of(warned)}
    assert reasons(events_of(stored, 6, pods=()), "Pod") == ["PodEvicted"]


def test_who_would_not_be_evicted_is_not_warned() -> None:
    stored = Stored()
    seen = view(dead(), claims=(claim("gpu-0"),))
    reported = [
        event
        for _ in range(4)
        for event in tick(stored, seen, 1, policy(mode="incident-only")).events
    ]
    reported += [
        event
        for _ in range(4)
        for event in tick(Stored(), seen, 1, policy(ceiling="NoSchedule")).events
    ]

    assert reasons(reported, "Pod") == []


@pytest.mark.parametrize(
    ("key", "seconds", "expected_reasons"),
    [
        ("draguard.dev/lost", None, []),
        ("", None, []),
        ("draguard.dev/gpu", None, ["PodEvictionPlanned", "PodEvicted"]),
        ("draguard.dev/lost", 60, ["PodEvictionPlanned", "PodEvicted"]),
    ],
)
def test_who_tolerates_it_and_ends_by_itself_was_not_evicted(
    key: str, seconds: int | None, expected_reasons: list[str]
) -> None:
    stays = Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)
    held = claim("gpu-0", tolerations=(stays,))
    stored = Stored()

    reported = [
        event for at_ in (1, 5) for event in events_of(stored, at_, claims=(held,), pods=(pod(),))
    ]
    reported += events_of(stored, 40, pods=(pod(running=False),))

    assert list(dict.fromkeys(reasons(reported, "Pod"))) == expected_reasons
    assert [affected.pod for affected in stored.incident.status.eviction.evicted] == ["train-0"]


def test_each_pod_that_the_incident_names_has_its_event_and_no_other() -> None:
    claims = tuple(claim("gpu-0", f"train-{index}") for index in range(300))

    assert len(reasons(events_of(Stored(), 1, claims=claims), "Pod")) == POD_EVENTS_AT_ONCE


PLANS = [
    (Evict(within=timedelta()), "; not before 2026-01-05T12:00:04Z"),
    (
        Evict(),
        "; by the Eviction API, not before 2026-01-05T12:00:04Z; "
        "deleted not before 2026-01-05T12:10:04Z",
    ),
    (Evict(then="wait"), "; by the Eviction API, not before 2026-01-05T12:00:04Z"),
]


@pytest.mark.parametrize(("plan", "when"), PLANS)
def test_a_pod_gets_an_event_when_it_is_evicted_and_only_once(plan: Evict, when: str) -> None:
    stored, asks = Stored(), policy(evict=plan)
    seen = view(dead(), claims=(claim("gpu-0"),), pods=(pod(),))

    reported = [
        event
        for seconds in (1, 1, 1, 1, 5, 5, 10, 20, 30, 700, 900)
        for event in tick(stored, seen, seconds, asks).events
        if event.reason == "PodEvictionPlanned"
    ]

    assert {name_of(event) for event in reported} == {name_of(reported[0])}
    assert reported[0].message.endswith(when)
    assert len(reported) <= 2, "when it is tainted, and when the eviction begins"


def test_a_pod_that_joins_later_gets_an_event_too() -> None:
    stored, asks = Stored(), policy(evict=Evict())
    first = view(dead(), claims=(claim("gpu-0", "a"),), pods=(pod("a"),))
    for seconds in (1, 1, 1, 5, 10):
        tick(stored, first, seconds, asks)

    both = (claim("gpu-0", "a"), claim("gpu-0", "b"))
    later = view(dead(), claims=both, pods=(pod("a"), pod("b")))
    reported = [
        event for seconds in (15, 20, 25) for event in tick(stored, later, seconds, asks).events
    ]

    assert [event.name for event in reported if event.kind == "Pod"] == ["b"]


def test_who_is_passed_by_for_good_is_not_warned() -> None:
    stored, asks = Stored(), policy(evict=Evict(then="wait"))
    both = (claim("gpu-0", "a"), claim("gpu-0", "b"))
    pods = (pod("a", owner="DaemonSet/watch"), pod("b"))

    seen = view(dead(), claims=both, pods=pods)
    reported = [
        event for _ in range(4) for event in tick(stored, seen, 1, evicts_later(asks)).events
    ]

    assert [event.name for event in reported if event.kind == "Pod"] == ["b"]


def test_what_becomes_of_an_intent_has_its_reason() -> None:
    stored = Stored()
    events_of(stored, 1)
    stored.intend("Hold", until(20))
    held = events_of(stored, 2)
    assert {"IntentInForce", "ActionDeferred"} <= {*reasons(held, "DeviceIncident")}

    assert "IntentExpired" in reasons(events_of(stored, 30), "DeviceIncident")


def test_a_fault_in_probation_is_reported_as_a_relapse() -> None:
    stored = Stored()
    settle(stored, view(gpu(0, recovery_action=RESET)), 1)
    for second in (10, 700):
        settle(stored, view(gpu(0, recovery_action=action(0, 9, 9))), second)

    again = view(gpu(0, xid(95, seen=800), recovery_action=action(1, 800, 801)))
    reported = [event for _ in range(4) for event in tick(stored, again, 802).events]

    assert reasons(reported, "Node").count("DeviceRelapsed") == 1


def test_an_event_on_a_pod_lives_in_its_namespace() -> None:
    event = Event("Pod", "train-0", "u-1", "PodEvicted", "gone", namespace="team")
    made = manifest(event, at(0), labels_of_cluster("east-1"))

    labels = {"draguard.dev/cluster": "east-1"}
    assert made["metadata"] == {"name": name_of(event), "namespace": "team", "labels": labels}
    assert made["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "train-0",
        "namespace": "team",
        "uid": "u-1",
    }


def test_an_event_on_a_node_is_found_by_kubectl() -> None:
    """`kubectl describe node` looks for the node's name as the UID, as kubelets write it."""
    stored = Stored()
    events = [event for second in (1, 5) for event in events_of(stored, second)]
    tainted, evicting = [event for event in events if event.kind == "Node"]

    assert tainted.uid == evicting.uid == "node-a"
    assert tainted.posted_in == evicting.posted_in == "kube-system"


def test_a_message_is_cut_to_the_bytes_of_an_event_and_never_inside_a_character() -> None:
    event = Event("Node", "node-a", "node-a", "DeviceTainted", "x" + "ä" * 1000)
    note = manifest(event, at(0), {})["note"]

    assert note == "x" + "ä" * 511
