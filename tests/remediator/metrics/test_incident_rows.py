"""Open incidents on the page: what is stored of each, and nothing of what is not known."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kubeapi.types import ObjectMeta
from remediator.controller.metrics import Metrics
from remediator.metrics.families import CLUSTER_FAMILIES
from remediator.metrics.incidents import incident_rows
from remediator.model.claim import ADMIN, EXTENDED_RESOURCE, GANG
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.incident_status import AffectedPod, Condition
from remediator.model.intent import IntentRecord
from remediator.plan.view import Fleet
from serving.families import Labels, Rows
from tests.remediator.builders import T0, Stored, dead, gpu, incident, make_status, uuid, view
from tests.remediator.playing import claim, pod, settle

HELD = Condition("Deferred", "True", "Budget", T0, "one GPU at a time")
ALONE = Condition("FaultUnconfirmed", "True", "DriverTooOld", T0, "only the kernel log")
BLOCKED = Condition("EvictionBlocked", "True", "DisruptionBudget", T0, "t/web (Ready): budget web")
UNKNOWN = Condition("DeviceStateUnknown", "True", "ReportUnusable", T0, "silent")


def of(rows: Rows, family: str) -> set[Labels]:
    """Return the labels of a family's samples, without which incident it is of."""
    return {key[3:] for key in rows.get(f"incident_{family}", {})}


def test_an_incident_that_was_really_decided_is_reported_as_it_is_stored() -> None:
    stored = Stored()
    seen = view(dead(0), gpu(1), claims=(claim("gpu-0"),), pods=(pod(),))
    for seconds in (60, 61, 70):
        settle(stored, seen, seconds)
    rows = incident_rows(stored.incidents.values(), stored.rules.values())
    (one,) = stored.incidents.values()
    key = (one.name, "node-a", uuid(0))

    assert of(rows, "info") == {("lost", "xid-79", "whole GPU")}
    assert of(rows, "phase") == {("Evicting",)}
    assert of(rows, "mode") == {("enforce",)}
    assert of(rows, "needs") == {("node-reboot",)}
    assert of(rows, "deferred") == set()
    assert of(rows, "consumer_info") == {("team", "claim-of-train-0", "train-0", "claim")}
    assert {kind: rows["incident_rules"][*key, kind] for kind in ("None", "NoExecute")} == {
        "None": 0,
        "NoExecute": 1,
    }
    assert rows["incident_recurrence"] == {key: 1}


def test_every_sample_has_the_labels_of_its_family() -> None:
    families = {family.name: family for family in CLUSTER_FAMILIES}
    affected = (AffectedPod("team", "train-0", "claim-0", "d"),)
    conditions = (HELD, ALONE, BLOCKED)
    one = incident(
        phase_since=T0,
        needs="GPUReset",
        affected=affected,
        conditions=conditions,
        recurrence=2,
    )
    rows = incident_rows([one], ())

    assert set(rows) == {name for name in families if name.startswith("incident")}
    for name, samples in rows.items():
        assert {len(key) for key in samples} == {len(families[name].labels)}, name


def test_what_is_not_written_yet_has_no_sample() -> None:
    fresh = Incident(ObjectMeta(name="i-1"), IncidentSpec("node-a", "GPU-1"))
    rows = incident_rows([fresh], ())
    reported = {name for name, samples in rows.items() if samples}

    assert reported == {
        "incident_info",
        "incident_rules",
        "incident_evicted_pods",
        "incidents_omitted",
    }


def test_only_what_is_held_back_now_is_held() -> None:
    over = msgspec.structs.replace(HELD, status="False", reason="AsExpected")

    assert of(incident_rows([incident(conditions=(HELD, UNKNOWN))], ()), "deferred") == {
        ("Budget",)
    }
    assert of(incident_rows([incident(conditions=(over,))], ()), "deferred") == set()


@pytest.mark.parametrize(("state", "held"), [("InForce", [("Human",)]), ("Expired", [])])
def test_what_a_person_ignores_is_held_for_whoever_is_paged(
    state: str, held: list[tuple[str]]
) -> None:
    stated = IntentRecord(kind="Ignore", by="ana", reason="a test", state=state, seen_time=T0)

    assert sorted(of(incident_rows([incident(intents=(stated,))], ()), "deferred")) == held


@pytest.mark.parametrize(
    ("foreign", "held"),
    [
        ("rule draguard-maintenance-1: draguard.dev/maintenance:NoSchedule", [("Maintenance",)]),
        ("rule draguard-maintenance-1: draguard.dev/maintenance:NoExecute", [("Maintenance",)]),
        ("rule draguard-maintenance-1: draguard.dev/maintenance:None", []),
        ("rule mine: example.com/maintenance:NoSchedule", []),
        ("taint draguard.dev/maintenance=x:NoSchedule on gpu-0", []),
    ],
)
def test_what_a_person_has_tainted_by_hand_is_held_for_whoever_is_paged(
    foreign: str, held: list[tuple[str]]
) -> None:
    assert sorted(of(incident_rows([incident(foreign=(foreign,))], ()), "deferred")) == held


def test_a_fault_that_nothing_can_confirm_is_reported_with_the_reason_while_it_is_so() -> None:
    over = msgspec.structs.replace(ALONE, status="False", reason="AsExpected")

    assert of(incident_rows([incident(conditions=(ALONE,))], ()), "unconfirmed") == {
        ("DriverTooOld",)
    }
    assert of(incident_rows([incident(conditions=(over,))], ()), "unconfirmed") == set()


@pytest.mark.parametrize("reason", ["DisruptionBudget", "PodsJoin"])
def test_evictions_that_are_blocked_are_reported_with_the_reason_while_they_are(
    reason: str,
) -> None:
    blocked = msgspec.structs.replace(BLOCKED, reason=reason)
    over = msgspec.structs.replace(blocked, status="False", reason="AsExpected")

    assert of(incident_rows([incident(conditions=(blocked,))], ()), "eviction_blocked") == {
        (reason,)
    }
    assert of(incident_rows([incident(conditions=(over,))], ()), "eviction_blocked") == set()
    assert of(incident_rows([incident()], ()), "eviction_blocked") == set()


def test_where_the_node_is_gone_nothing_is_left_to_be_kept_away() -> None:
    assert of(incident_rows([incident(node_gone_since=T0)], ()), "deferred") == {("NodeGone",)}


def test_a_closed_incident_is_gone_from_every_family() -> None:
    rows = incident_rows([incident(closed_at=T0)], ())

    assert {name: samples for name, samples in rows.items() if samples} == {
        "incidents_omitted": {(): 0.0}
    }


def test_of_too_many_the_worst_classes_and_then_the_oldest_are_reported_and_the_rest_counted() -> (
    None
):
    incidents = [incident(number, fault_class="suspect", made=number) for number in range(5)]
    incidents += [incident(number, fault_class="lost", made=number) for number in range(5, 8)]
    rows = incident_rows(reversed(incidents), (), most=4)

    assert {key[0] for key in rows["incident_info"]} == {
        incidents[number].name for number in (5, 6, 7, 0)
    }
    assert rows["incidents_omitted"] == {(): 4.0}


def test_a_pod_gets_one_event_however_many_devices_it_holds_and_one_of_its_eviction() -> None:
    holds = tuple(AffectedPod("team", "train-0", "claim-0", f"d-{n}", "u-0") for n in range(8))
    rows = incident_rows([incident(affected=holds, evicted=holds)], ())

    assert [key[-1] for key in rows["incident_consumer_info"]] == ["claim", "evicted"]
    assert set(rows["incident_evicted_pods"].values()) == {1.0}


def test_who_is_hit_is_bounded_and_evictions_beyond_the_limit_are_counted() -> None:
    affected = tuple(AffectedPod("team", f"train-{n:03}", "c", "d", f"u-{n}") for n in range(100))
    rows = incident_rows([incident(affected=affected, evicted=affected, evicted_left_out=7)], ())

    assert len(rows["incident_consumer_info"]) == 64
    assert set(rows["incident_evicted_pods"].values()) == {107.0}


def test_many_incidents_share_the_rows_for_who_is_hit() -> None:
    affected = tuple(AffectedPod("team", f"train-{n:03}", "c", "d", f"u-{n}") for n in range(20))
    rows = incident_rows([incident(number, affected=affected) for number in range(1000)], ())
    reported = Counter(key[0] for key in rows["incident_consumer_info"])

    assert len(reported) == 1000
    assert set(reported.values()) == {8}


@pytest.mark.parametrize(
    ("via", "shown"),
    [("", "claim"), (ADMIN, "admin"), (EXTENDED_RESOURCE, "extended"), (GANG, "gang")],
)
def test_how_a_pod_holds_is_never_an_empty_label(via: str, shown: str) -> None:
    hold = AffectedPod("team", "train-0", "claim-0", "d", via=via)

    assert of(incident_rows([incident(affected=(hold,))], ()), "consumer_info") == {
        ("team", "claim-0", "train-0", shown)
    }


TEXT = st.text(st.characters(exclude_categories=()), max_size=300)
INCIDENTS = st.lists(
    st.builds(
        Incident,
        st.builds(ObjectMeta, name=TEXT, creation_timestamp=st.none() | st.just(T0)),
        st.builds(IncidentSpec, TEXT, TEXT),
        st.builds(
            make_status,
            fault_class=TEXT,
            cause=TEXT,
            phase=TEXT,
            phase_since=st.none() | st.just(T0),
            mode=TEXT,
            needs=TEXT,
            closed_at=st.none() | st.just(T0),
            recurrence=st.integers(0, 9),
            affected=st.lists(st.builds(AffectedPod, TEXT, TEXT, TEXT, TEXT), max_size=3).map(
                tuple
            ),
            conditions=st.just((HELD,)),
        ),
    ),
    max_size=4,
)


@settings(deadline=None)
@given(INCIDENTS)
def test_whatever_is_written_into_incidents_the_page_can_be_read(incidents: list[Incident]) -> None:
    rows = incident_rows(incidents, ())
    metrics = Metrics()
    metrics.set_cluster(rows)
    page = metrics.page(openmetrics=False).decode()
    read = Counter(
        sample.name for family in text_string_to_metric_families(page) for sample in family.samples
    )

    assert metrics.page(openmetrics=True).endswith(b"# EOF\n")
    for name, samples in rows.items():
        assert read[f"draguard_{name}"] == len(samples)


def test_an_idle_fleet_tells_that_nothing_is_left_out() -> None:
    assert incident_rows(Fleet().incidents, ())["incidents_omitted"] == {(): 0.0}
