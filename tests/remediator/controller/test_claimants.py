"""Which of the nodes that name one GPU decides about it: one, and the same for each of them."""

from collections.abc import Iterable
from itertools import chain, combinations, product

import pytest

from remediator.controller.claimants import Claimants

NODES = ("a", "b")


def claimants(*, stale: Iterable[str] = (), **groups: Iterable[str]) -> Claimants:
    names = ("reporting", "publishing", "published_last", "handling", "known")
    silent = frozenset(stale)
    return Claimants(
        **{name: frozenset(groups.get(name, ())) for name in names},
        why_stale=lambda node: "silent" if node in silent else "",
    )


@pytest.mark.parametrize(
    ("decides", "groups"),
    [
        ("b", {"reporting": "ab", "publishing": "ab", "handling": "a", "known": "a", "stale": "a"}),
        ("b", {"reporting": "ab", "published_last": "b"}),
        ("b", {"reporting": "ab", "published_last": "a", "handling": "a", "stale": "a"}),
        ("b", {"reporting": "ab", "publishing": "a", "handling": "a", "known": "a", "stale": "a"}),
        ("a", {"reporting": "b", "handling": "a", "stale": "ab"}),
        ("b", {"publishing": "a", "handling": "b", "known": "b", "stale": "ab"}),
        ("b", {"reporting": "ab", "handling": "b", "known": "b"}),
        ("a", {"reporting": "ab"}),
        ("", {}),
    ],
    ids=[
        "fresh and publishing, before the dead node of the incident",
        "of two that report it, the last to publish it",
        "fresh, before the dead one that published it last",
        "fresh, before a dead one that publishes",
        "of none that is fresh, that of the incident",
        "that of the incident, before a dead one that publishes",
        "of two that are equal, that of the incident",
        "else by name",
        "none",
    ],
)
def test_one_node_decides(decides: str, groups: dict[str, str]) -> None:
    assert claimants(**groups).deciding == decides


def test_where_a_node_can_know_how_the_gpu_is_one_that_can_decides() -> None:
    some = [*chain.from_iterable(combinations(NODES, size) for size in range(3))]
    for reporting, publishing, last, handling, stale in product(some, repeat=5):
        seen = claimants(
            reporting=reporting,
            publishing=publishing,
            published_last={*last} - {*publishing},
            handling=handling,
            known={*handling} & {*reporting},
            stale=stale,
        )
        able = {node for node in {*reporting, *publishing} - {*stale} if not seen.doubts(node)[0]}
        assert not able or seen.deciding in able, seen


def test_slices_that_a_live_node_keeps_without_reporting_the_board_dispute_nothing() -> None:
    """The driver there cannot start, so nobody takes its slices away."""
    seen = claimants(reporting="b", publishing="ab", handling="a", known="a")
    assert seen.doubts("b") == (frozenset(), {"a"})
    assert seen.doubts("a") == ({"b"}, frozenset())
    assert seen.deciding == "b"
