"""Claims as rows of metrics: bounded, and sums stay right; steps are counted once each."""

from collections.abc import Iterable

import msgspec

from allocation.explainer import rows
from allocation.explainer.claim_states import ClaimState, State
from allocation.explainer.families import CLAIM_FAMILIES, CLAIMS, OTHER, ROWS
from allocation.explainer.rows import Progress, claim_rows
from allocation.layers.finding import WaitReason
from allocation.model.claims import Claim
from tests.allocation.explainer.snapshots import at, claim


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


def rows_of(*states: ClaimState, now: float = 600) -> rows.ClaimRows:
    since = {each.key: each.since for each in states if each.since is not None}
    return claim_rows(states, since, at(now))


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


def steps(
    progress: Progress, states: Iterable[ClaimState], now: float, **claims: Claim
) -> list[tuple[str, str, float]]:
    return list(
        progress.look(states, {f"team/{name}": each for name, each in claims.items()}, at(now))
    )


def test_each_step_of_a_claim_is_counted_once() -> None:
    progress, allocated = Progress(), claim(device_name="gpu-0", created=10, allocated=40)
    assert steps(progress, [state()], 20, job=claim(created=10)) == []

    first = steps(progress, [state(state="Binding")], 50, job=allocated)
    second = steps(progress, [state(state="Running", since=None)], 70, job=allocated)

    assert first == [("claim_allocation_seconds", "gpu", 30)]
    assert second == [("claim_start_seconds", "gpu", 30)]
    assert steps(progress, [state(state="Running", since=None)], 90, job=allocated) == []


def test_a_claim_that_came_and_runs_between_two_looks_has_both_steps() -> None:
    progress, runs = Progress(), claim(device_name="gpu-0", created=10, allocated=12)
    steps(progress, [], 5)

    found = steps(progress, [state(state="Running", since=None)], 15, job=runs)

    assert [(family, seconds) for family, _, seconds in found] == [
        ("claim_allocation_seconds", 2),
        ("claim_start_seconds", 3),
    ]


def test_what_was_there_at_the_start_is_not_counted() -> None:
    runs = claim(device_name="gpu-0", created=10, allocated=12)

    assert steps(Progress(), [state(state="Running", since=None)], 15, job=runs) == []


def test_a_claim_of_the_same_name_is_another_one() -> None:
    progress = Progress()
    runs = claim(device_name="gpu-0", created=10, allocated=12)
    steps(progress, [state(state="Running", since=None)], 15, job=runs)
    steps(progress, [state(uid="new")], 20, job=claim(created=18))
    again = claim(device_name="gpu-0", created=18, allocated=24)

    found = steps(progress, [state(state="Running", since=None, uid="new")], 25, job=again)

    assert [seconds for _, _, seconds in found] == [6, 1]


def test_a_state_without_a_date_begins_when_it_is_seen() -> None:
    progress, left = Progress(), [state(state="Unused", since=None)]
    steps(progress, left, 20)
    steps(progress, left, 50)

    assert progress.since() == {"team/job": at(20)}


def test_classes_beyond_the_limit_are_counted_together() -> None:
    progress = Progress()
    steps(progress, [], 0)
    states = [state(f"j-{n}", "Running", "Running", device_class=f"class-{n}") for n in range(105)]
    claims = {f"j-{n}": claim(f"j-{n}", "gpu-0", created=0, allocated=1) for n in range(105)}

    found = steps(progress, states, 5, **claims)

    assert len({name for _, name, _ in found}) == 101
    assert OTHER in {name for _, name, _ in found}


def test_rows_are_values() -> None:
    assert msgspec.to_builtins(rows_of(state()).dropped) == {
        "claims": 0,
        "claims_older": 0,
        "claim_since_timestamp_seconds": 0,
    }
