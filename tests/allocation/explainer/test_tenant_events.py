"""Which Events a pod and its claims get."""

from datetime import timedelta

import msgspec
import pytest

from allocation.explainer.tenant_events import (
    MOST_CLAIMS,
    QUIET,
    Reporter,
    TenantEvent,
    as_object,
)
from allocation.layers.finding import Finding, Layer, WaitReason
from allocation.model.pods import Pod
from tests.allocation.explainer.snapshots import at, claim, pod

LATER = QUIET.total_seconds() + 1


def finding(reason: WaitReason = "Allocated", layer: Layer = "Allocation") -> Finding:
    return Finding(layer=layer, reason=reason, message="none is free", todo=("wait", "or add"))


def events(
    reporter: Reporter, pods: list[Pod], given: Finding | None, seconds: float
) -> list[TenantEvent]:
    findings = {each.metadata.uid: given for each in pods} if given else {}
    return list(reporter.look(pods, {"team/job": claim()}, findings, at(seconds)))


def name_of(event: TenantEvent) -> str:
    _, made = as_object(event, at(0), {})
    return str(made["metadata"])


def test_pod_and_claim_get_one_warning() -> None:
    reporter = Reporter(timedelta(seconds=60))

    assert events(reporter, [pod()], finding(), 5000) == []
    assert events(reporter, [pod()], finding(), 5059) == []
    found = events(reporter, [pod()], finding(), 5061)

    assert [(each.kind, each.name, each.reason, each.type) for each in found] == [
        ("Pod", "train", "WaitsInAllocation", "Warning"),
        ("ResourceClaim", "job", "WaitsInAllocation", "Warning"),
    ]
    assert found[0].note == "Allocated: none is free; wait"
    assert found[1].note == "pod train: Allocated: none is free; wait"
    assert events(reporter, [pod()], finding(), 6000) == found, "the same again is posted once"


def test_a_wait_that_does_not_last_is_no_event() -> None:
    """As after the gate of a queue is lifted: the scheduler looks a moment later."""
    reporter = Reporter(timedelta(seconds=60))
    events(reporter, [pod()], finding("SchedulingGated", "Admission"), 4000)
    events(reporter, [pod()], finding("NoScheduler", "Scheduling"), 5000)

    assert events(reporter, [pod()], finding(), 5059) == []
    assert events(reporter, [pod()], finding("Allocatable", "Scheduling"), 5080) == []


def test_a_pod_whose_reason_changes_all_the_time_is_warned_as_others_are() -> None:
    reporter, warned = Reporter(timedelta(seconds=60)), list[float]()
    turns: tuple[WaitReason, ...] = ("Allocated", "TooFewTogether")
    known = set[str]()

    for seconds in range(0, 3 * 3600, 10):
        found = events(reporter, [pod()], finding(turns[seconds // 30 % 2]), seconds)
        if found and name_of(found[0]) not in known:
            known.add(name_of(found[0]))
            warned.append(seconds // 60)

    assert warned == [1, 56, 111, 166]


def test_a_reason_that_does_not_last_is_no_other_warning() -> None:
    reporter = Reporter(timedelta(seconds=60))
    events(reporter, [pod()], finding(), 0)
    first = events(reporter, [pod()], finding(), 60)

    assert events(reporter, [pod()], finding("NoScheduler"), 5000) == first
    assert events(reporter, [pod()], finding(), 5010)[0].waits_for == "Allocated"
    assert events(reporter, [pod()], finding("NoScheduler"), 9000)[0].waits_for == "Allocated"


def test_the_wait_for_the_kubelet_begins_when_the_pod_has_a_node() -> None:
    reporter, bound = Reporter(timedelta(seconds=60)), pod(node="node-a")
    events(reporter, [pod()], finding(), 5000)

    assert events(reporter, [bound], finding("Preparing", "Preparation"), 5100) == []
    assert events(reporter, [bound], finding("Preparing", "Preparation"), 5161)


def test_a_pod_that_waits_for_longer_than_events_are_kept_gets_another_one() -> None:
    reporter = Reporter(timedelta())
    first = events(reporter, [pod()], finding(), 1)

    second = events(reporter, [pod()], finding(), 3601)

    assert name_of(second[0]) != name_of(first[0])


def test_pods_that_share_a_claim_are_one_event_on_it() -> None:
    many = [pod(f"train-{n}") for n in range(3)]

    found = events(Reporter(timedelta()), many, finding(), 1)

    assert [each.kind for each in found].count("ResourceClaim") == 1


def test_a_claim_has_the_end_of_one_pod_beside_the_wait_of_another() -> None:
    reporter = Reporter(timedelta())
    events(reporter, [pod("first"), pod("second")], finding(), 1)
    runs = pod("first", node="node-a", phase="Running")

    found = events(reporter, [runs, pod("second")], finding(), 2)

    on_claim = [each.reason for each in found if each.kind == "ResourceClaim"]
    assert sorted(on_claim) == ["WaitIsOver", "WaitsInAllocation"]


def test_the_figures_of_a_reason_make_no_other_event() -> None:
    reporter = Reporter(timedelta())
    first = events(reporter, [pod()], finding(), 1)
    later = msgspec.structs.replace(finding(), message="two are free")

    assert events(reporter, [pod()], later, LATER + 5) == first


def test_who_begins_anew_repeats_no_event_at_once() -> None:
    (first, _) = events(Reporter(timedelta()), [pod()], finding(), 1)
    later = msgspec.structs.replace(finding(), message="two are free")

    (anew, _) = events(Reporter(timedelta()), [pod()], later, LATER - 2)

    assert name_of(anew) == name_of(first)


def test_who_begins_anew_posts_what_still_holds() -> None:
    (first, _) = events(Reporter(timedelta()), [pod()], finding(), 1)

    (anew, _) = events(Reporter(timedelta()), [pod()], finding(), 6 * 3600)

    assert anew != first, "so who posts each once posts it"
    assert name_of(anew) != name_of(first)


@pytest.mark.parametrize("begin", range(0, 3600, 600))
def test_a_reason_that_comes_back_is_the_newest_event(begin: int) -> None:
    reporter = Reporter(timedelta())
    (first, _) = events(reporter, [pod()], finding(), begin)
    events(reporter, [pod()], finding("Tainted"), begin + LATER)

    (back, _) = events(reporter, [pod()], finding(), begin + 2 * LATER)

    assert back != first
    assert name_of(back) != name_of(first)


def test_a_clock_that_is_set_back_delays_a_warning_by_no_more_than_a_wait() -> None:
    reporter = Reporter(timedelta(seconds=60))
    events(reporter, [pod()], finding(), 5000)
    events(reporter, [pod()], finding(), 1000)

    assert events(reporter, [pod()], finding(), 1061)


def test_another_reason_is_another_warning_but_not_at_once() -> None:
    reporter = Reporter(timedelta())
    first = events(reporter, [pod()], finding(), 1)

    assert events(reporter, [pod()], finding("Tainted"), 2) == first
    second = events(reporter, [pod()], finding("Tainted"), LATER + 1)
    assert name_of(second[0]) != name_of(first[0])
    assert second[0].note.startswith("Tainted")


def test_a_pod_that_runs_gets_one_normal_event_if_it_had_a_warning() -> None:
    reporter, runs = Reporter(timedelta()), pod(node="node-a", phase="Running")
    over = finding("Running", "Running")
    assert events(reporter, [runs], over, 1) == []
    events(reporter, [pod()], finding(), 2)

    found = events(reporter, [runs], over, 3)

    assert {(each.type, each.reason) for each in found} == {("Normal", "WaitIsOver")}
    assert found[0].note == "it runs on node-a; it waited for Allocated"
    assert events(reporter, [runs], over, 4) == found, "until it is surely posted"
    assert events(reporter, [runs], over, LATER + 4) == []


def test_a_pod_that_has_ended_before_it_was_seen_to_run_waits_no_more() -> None:
    reporter = Reporter(timedelta())
    events(reporter, [pod()], finding(), 1)

    found = events(reporter, [pod(phase="Succeeded")], None, 2)

    assert found[0].note == "it has ended (Succeeded); it waited for Allocated"


def test_a_pod_that_is_not_explained_at_one_look_keeps_its_event() -> None:
    reporter = Reporter(timedelta())
    first = events(reporter, [pod()], finding(), 1)

    assert events(reporter, [pod()], None, 2) == first
    assert events(reporter, [pod()], finding(), 3) == first


def test_a_pod_that_is_gone_is_forgotten() -> None:
    reporter = Reporter(timedelta())
    events(reporter, [pod()], finding(), 1)
    events(reporter, [], None, 2)

    assert events(reporter, [pod()], finding(), 3)


def test_what_a_queue_or_the_kubelet_says_is_not_repeated() -> None:
    reporter = Reporter(timedelta())

    assert events(reporter, [pod()], finding("SchedulingGated", "Admission"), 1) == []
    assert events(reporter, [pod()], finding("Crashing", "Runtime"), 2) == []
    assert events(reporter, [pod()], finding("Allocatable", "Scheduling"), 3) == []
    assert events(reporter, [pod()], finding("CdiDeviceMissing", "Runtime"), 4)


def test_only_so_many_claims_of_a_pod_get_its_event() -> None:
    names = [f"job-{n}" for n in range(9)]
    many = pod(
        claim="", resourceClaims=[{"name": name, "resourceClaimName": name} for name in names]
    )
    claims = {f"team/{name}": claim(name) for name in names}

    found = list(Reporter(timedelta()).look([many], claims, {many.metadata.uid: finding()}, at(1)))

    assert len(found) == 1 + MOST_CLAIMS


def test_an_event_lives_beside_its_object() -> None:
    (_, on_claim) = events(Reporter(timedelta()), [pod()], finding(), 1)

    namespace, made = as_object(on_claim, at(1), {"draguard.dev/cluster": "east"})

    assert namespace == "team"
    assert made["metadata"]["labels"] == {"draguard.dev/cluster": "east"}  # type: ignore[index] - of JSON
    assert made["regarding"] == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "name": "job",
        "namespace": "team",
        "uid": "uid-job",
    }
