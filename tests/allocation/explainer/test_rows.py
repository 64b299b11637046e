"""Claims as rows of metrics: bounded, and sums stay right; steps are counted once each."""

from collections.abc import Iterable

import msgspec

from allocation.explainer import rows
from allocation.explainer.claim_states import ClaimState, State
from allocation.explainer.families import CLAIM_FAMILIES, CLAIMS, OTHER, ROWS
from allocation.explainer.rows import Progress, claim_rows
from allocation.layers.finding import WaitReason
from tests.allocation.explainer.snapshots import at


def state(
    name: str = "job",
    state: State = "Pending",
    reason: WaitReason = "Allocated",
    *,
    namespace: str = "team",
    device_class: str = "gpu",
    since: float | None = 0,
    uid: str = "",
) -> ClaimState:
    return ClaimState(
        namespace=namespace,
        name=name,
        uid=uid or f"uid-{name}",
        device_class=device_class,
        state=state,
        reason=reason,
        since=None if since is None else at(since),
    )


def rows_of(
    *states: ClaimState, now: float = 600, classes: Iterable[str] = ("gpu",)
) -> rows.ClaimRows:
    since = {each.key: each.since for each in states if each.since is not None}
    return claim_rows(states, since, at(now), classes)


def test_claims_are_counted_by_state_and_reason() -> None:
    found = rows_of(state("a"), state("b"), state("c", "Running", "Running")).rows["claims"]

    assert found == {
        ("team", "gpu", "", "Pending", "Allocated"): 2,
        ("team", "gpu", "", "Running", "Running"): 1,
    }


def test_each_age_that_a_claim_is_beyond_has_it() -> None:
    found = rows_of(state(since=0), state("runs", "Running", "Running"), now=1000)

    assert {key[-1] for key in found.rows["claims_older"]} == {"1m", "5m", "15m"}
    assert set(found.rows["claims_older"].values()) == {1}


def test_every_family_has_its_labels() -> None:
    found = rows_of(state()).rows

    for family in CLAIM_FAMILIES:
        assert {len(labels) for labels in found[family.name]} == {len(family.labels)}


def test_the_claims_that_wait_for_longest_are_named() -> None:
    found = rows_of(*[state(f"job-{n}", since=n) for n in range(CLAIMS + 2)])
    named = found.rows["claim_since_timestamp_seconds"]

    assert len(named) == CLAIMS
    assert {labels[1] for labels in named} == {f"job-{n}" for n in range(CLAIMS)}
    assert found.dropped["claim_since_timestamp_seconds"] == 2


def test_a_crowd_of_old_claims_hides_no_other_namespace() -> None:
    crowd = [state(f"job-{n}", since=n, namespace="crowd") for n in range(CLAIMS)]
    found = rows_of(*crowd, state("last", since=599)).rows["claim_since_timestamp_seconds"]

    assert len(found) == CLAIMS
    assert {labels[0] for labels in found} == {"crowd", "team"}
    assert f"job-{CLAIMS - 1}" not in {labels[1] for labels in found}


def test_a_claim_that_is_unused_waits_for_nothing() -> None:
    found = rows_of(state("left", "Unused", "Unused")).rows

    assert found["claim_since_timestamp_seconds"] == {}
    assert found["claims_older"]


def test_beyond_the_limit_sums_stay_right() -> None:
    large = [state(f"a-{n}", namespace="large") for n in range(3)]
    small = [state("b", namespace=f"n-{n:05}") for n in range(ROWS + 5)]

    found = rows_of(*large, *small)

    counts = found.rows["claims"]
    assert sum(counts.values()) == ROWS + 8
    assert counts["large", "gpu", "", "Pending", "Allocated"] == 3
    assert counts["", "", "", "Pending", "Allocated"] == 6
    assert found.dropped["claims"] == 6


def allocated(
    name: State = "Running", *, demanded: float = 10, at_second: float = 12, uid: str = "u"
) -> ClaimState:
    found = state(state=name, since=None, uid=uid)
    return msgspec.structs.replace(
        found, driver="gpu.nvidia.com", demanded=at(demanded), allocated=at(at_second)
    )


def steps(progress: Progress, states: Iterable[ClaimState], now: float) -> list[tuple[str, float]]:
    return [(family, seconds) for family, _, seconds in progress.look(states, at(now))]


ALLOCATION, START = "claim_allocation_seconds", "claim_start_seconds"


def test_each_step_of_a_claim_is_counted_once() -> None:
    progress = Progress()
    assert steps(progress, [state(uid="u")], 20) == []

    first = steps(progress, [allocated("Binding", at_second=40)], 50)
    second = steps(progress, [allocated(at_second=40)], 70)

    assert first == [(ALLOCATION, 30)]
    assert second == [(START, 30)]
    assert steps(progress, [allocated(at_second=40)], 90) == []


def test_a_claim_that_came_and_runs_between_two_looks_has_both_steps() -> None:
    progress = Progress()
    steps(progress, [], 5)

    assert steps(progress, [allocated()], 15) == [(ALLOCATION, 2), (START, 3)]


def test_what_was_there_at_the_start_is_not_counted() -> None:
    progress = Progress()
    steps(progress, [allocated("Preparing")], 15)

    assert steps(progress, [allocated()], 20) == []


def test_a_second_pod_of_a_claim_is_no_second_start() -> None:
    progress = Progress()
    steps(progress, [], 5)
    steps(progress, [allocated()], 15)
    steps(progress, [allocated("Preparing")], 3600)

    assert steps(progress, [allocated()], 36_000) == []


def test_a_claim_that_is_used_again_counts_from_its_new_pod() -> None:
    progress = Progress()
    steps(progress, [], 5)
    steps(progress, [allocated()], 15)
    steps(progress, [state(uid="u")], 86_390)

    again = steps(progress, [allocated(demanded=86_400, at_second=86_402)], 86_403)

    assert again == [(ALLOCATION, 2), (START, 1)]


def test_a_claim_of_the_same_name_is_another_one() -> None:
    progress = Progress()
    steps(progress, [], 5)
    steps(progress, [allocated()], 15)

    new = steps(progress, [allocated(uid="new", demanded=18, at_second=24)], 25)

    assert [seconds for _, seconds in new] == [6, 1]


def test_a_state_without_a_date_begins_when_it_is_seen() -> None:
    progress, left = Progress(), [state("job", "Unused", "Unused", since=None)]
    steps(progress, left, 20)
    steps(progress, left, 50)

    assert progress.since() == {"team/job": at(20)}


def test_namespaces_take_turns_before_the_limit() -> None:
    crowd = [state("a", namespace="crowd", device_class=f"class-{n}") for n in range(ROWS)]
    classes = [each.device_class for each in crowd]
    others = [state("b", namespace=f"team-{n}") for n in range(50)]

    counts = rows_of(*crowd, *others, classes=["gpu", *classes]).rows["claims"]

    assert {key[0] for key in counts} >= {f"team-{n}" for n in range(50)}
    assert sum(counts.values()) == ROWS + 50


def test_a_class_that_does_not_exist_is_one_of_others() -> None:
    invented = [state(f"job-{n}", device_class=f"class-{n}") for n in range(9)]

    (key,) = rows_of(*invented).rows["claims"]

    assert key[1] == OTHER


def test_claims_that_wait_for_nothing_take_no_room() -> None:
    found = rows_of(state("old", reason="NoPod"), state("gated", reason="SchedulingGated"))

    assert found.rows["claim_since_timestamp_seconds"] == {}
