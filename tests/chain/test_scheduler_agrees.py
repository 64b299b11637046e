"""On drawn clusters the real scheduler does what `draguard why` says, also after a change of it."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st

from allocation.answers import Answers
from allocation.layers.explanation import explain
from allocation.selectors.evaluator import Evaluator
from kubeapi.client import Client
from tests.allocation.clusters import cluster as drawn
from tests.chain.drawn_cluster import NAMESPACE, PLACED, DrawnCluster, NotTakenError
from tests.lab.cluster import CLASSES, Cluster, await_true
from tests.lab.examples import SEARCH

SEARCHING = settings.get_current_profile_name() == SEARCH
CLUSTERS = int(os.environ.get("PLACEMENTS", "20" if SEARCHING else "1"))
"""Beside the examples below."""
MOST_SKIPPED = 0.25
NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator() as one:
        yield one


@pytest.fixture(scope="module")
def classes(client: Client) -> Iterator[None]:
    """What drawn claims request, and a namespace where they may have adminAccess."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    client.create(NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": labels}})
    made = drawn(0)["classes"]
    for each in made:
        client.create(CLASSES, each)
    yield
    for each in made:
        client.delete(f"{CLASSES}/{each['metadata']['name']}")
    client.delete(f"{NAMESPACES}/{NAMESPACE}")


@pytest.fixture(scope="module")
def endings() -> Iterator[Counter[str]]:
    """How the clusters ended: few are skipped."""
    found: Counter[str] = Counter()
    yield found
    assert found["skipped"] <= 1 + MOST_SKIPPED * (found["placed"] + found["refused"])
    assert found["placed"]
    assert found["placed after a change"]


def last_decision(one: DrawnCluster) -> str:
    """Return what the scheduler has decided once it tries no more, or places the pod."""
    with suppress(AssertionError):
        await_true("it is placed", lambda: one.decision() == PLACED)
    return one.decision()


@settings(
    max_examples=CLUSTERS,
    # Another seed is no smaller cluster.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@example(seed=34)  # each change but one would meet a failing selector on another node
@example(seed=187)
@example(seed=742113)
@given(seed=st.integers(1, 2**32))
def test_a_pod_is_placed_where_why_says_so_and_else_after_a_change_that_it_offers(
    cluster: Cluster, classes: None, evaluator: Evaluator, endings: Counter[str], seed: int
) -> None:
    cluster.clean()
    try:
        one = DrawnCluster(cluster, seed)
    except NotTakenError:
        endings["skipped"] += 1
        return
    found = explain(one.known(), Answers(evaluator.evaluate))
    possible = found.summary is not None and found.summary.verdict == "Allocatable"
    one.open_gate()
    decision = last_decision(one) if possible else await_true("it is decided", one.decision)
    assert (decision == PLACED) == possible, (decision, found.summary)
    endings["placed" if possible else "refused"] += 1
    if found.changes:
        change = Random(seed).choice(found.changes)  # noqa: S311 - drawn again, not secret
        event(change.what)
        one.apply(change)
        assert (change, last_decision(one)) == (change, PLACED)
        endings["placed after a change"] += 1
