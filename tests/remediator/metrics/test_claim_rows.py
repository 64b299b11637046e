"""Claims on the page: by state, and which are waited for and why."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.metrics.claims import (
    STATES,
    Claims,
    Reason,
    Room,
    claim_rows,
    state,
    why_pending,
)
from remediator.model.claim import Claim
from tests.remediator.builders import DRIVER, at

GPU, MIG = (DRIVER, "gpu"), (DRIVER, "mig")
ALLOCATION = {"devices": {"results": [{"driver": DRIVER, "pool": "node-a", "device": "gpu-0"}]}}
POD = {"resource": "pods", "name": "train-0", "uid": "u"}


def exactly(device_class: str = "gpu.nvidia.com", **rest: object) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": device_class, "count": 1, **rest}}


def any_of(*classes: str) -> dict[str, Any]:
    choices = [{"name": name, "deviceClassName": name, "count": 1} for name in classes]
    return {"name": "r", "firstAvailable": choices}


def sent_claim(
    *requests: dict[str, Any],
    owner: str = "Pod",
    name: str = "claim-0",
    made: float = 0,
    **status: object,
) -> Claim:
    """A claim as the API server sends it."""
    owners = [{"apiVersion": "v1", "kind": owner, "name": "p", "uid": "u"}] if owner else []
    body = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "creationTimestamp": at(made).isoformat(),
            "ownerReferences": owners,
        },
        "spec": {"devices": {"requests": list(requests or (exactly(),))}},
        "status": status,
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Claim)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (sent_claim(), "pending"),
        (sent_claim(owner="PodGroup"), "pending"),
        (sent_claim(owner=""), "unowned"),
        (sent_claim(owner="Notebook"), "unowned"),
        (sent_claim(allocation=ALLOCATION), "allocated"),
        (sent_claim(allocation=ALLOCATION, owner=""), "allocated"),
        (sent_claim(allocation=ALLOCATION, reservedFor=[POD]), "in-use"),
    ],
)
def test_a_claim_waits_only_for_somebody(one: Claim, expected: str) -> None:
    assert state(one) == expected


def test_an_allocated_claim_keeps_nothing_that_only_a_waiting_one_needs() -> None:
    kept = sent_claim(allocation=ALLOCATION).metadata

    assert kept.creation_timestamp is None
    assert kept.owner_references == ()
    assert (kept.namespace, kept.name) == ("team", "claim-0")


ROOMS = {GPU: Room(free=1, without_taints=2), MIG: Room(free=0, without_taints=0)}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ((exactly(),), "Other"),  # one is free: what else is missing is not known here
        ((exactly(count=2),), "Tainted"),
        ((exactly(), exactly()), "Tainted"),  # one node has to have both
        ((exactly(count=3),), "NoneFree"),
        ((exactly("mig.nvidia.com"),), "NoneFree"),
        ((exactly("vfio.gpu.nvidia.com"),), "NoneFree"),  # none is published
        ((exactly(count=2), exactly("mig.nvidia.com")), "NoneFree"),
        ((any_of("mig.nvidia.com", "gpu.nvidia.com"),), "Other"),
        ((any_of("mig.nvidia.com", "vfio.gpu.nvidia.com"),), "NoneFree"),
        ((exactly("own-class"),), "Other"),
        ((exactly(count=3), exactly("own-class")), "Other"),
        ((any_of("mig.nvidia.com", "own-class"),), "Other"),
        ((exactly(count=0, allocationMode="All"),), "Other"),
    ],
)
def test_why_a_claim_waits_is_reported_as_far_as_counting_tells(
    requests: tuple[dict[str, Any], ...], expected: Reason
) -> None:
    assert why_pending(sent_claim(*requests), ROOMS) == expected


def test_a_claim_without_requests_waits_for_something_else() -> None:
    body = {"metadata": {"name": "c", "namespace": "n"}, "spec": {}}

    assert why_pending(msgspec.convert(body, Claim), {}) == "Other"


def test_the_oldest_are_reported_one_by_one_and_all_are_counted() -> None:
    index = Claims()
    for number in range(7):
        index.put(f"team/c-{number}", None, sent_claim(name=f"c-{number}", made=-number))
    states, pending = index.counts()
    rows = claim_rows(states, pending, ROOMS, most=3)

    assert rows["claims"] == {
        ("pending",): 7,
        ("allocated",): 0,
        ("in-use",): 0,
        ("unowned",): 0,
    }
    assert rows["claim_pending_since_timestamp_seconds"] == {
        ("team", f"c-{number}", "Other"): at(-number).timestamp() for number in (6, 5, 4)
    }


def test_a_pending_claim_of_unknown_age_is_counted_and_has_no_date() -> None:
    body = {
        "metadata": {"name": "c", "ownerReferences": [{"kind": "Pod"}], "creationTimestamp": None}
    }
    index = Claims()
    index.put("c", None, msgspec.convert(body, Claim))
    rows = claim_rows(*index.counts(), {})

    assert rows["claims"]["pending",] == 1
    assert rows["claim_pending_since_timestamp_seconds"] == {}


STAGES = [
    sent_claim(),
    sent_claim(owner=""),
    sent_claim(allocation=ALLOCATION),
    sent_claim(allocation=ALLOCATION, reservedFor=[POD]),
    None,
]
CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(STAGES)), max_size=30)


@settings(deadline=None)
@given(CHANGES)
def test_counting_change_by_change_is_counting_all(changes: list[tuple[str, Claim | None]]) -> None:
    index, known = Claims(), dict[str, Claim]()
    for key, new in changes:
        index.put(key, known.pop(key, None), new)
        if new is not None:
            known[key] = new
    counted = [state(claim) for claim in known.values()]

    states, pending = index.counts()
    assert states == {name: counted.count(name) for name in STATES}
    assert len(pending) == counted.count("pending")
