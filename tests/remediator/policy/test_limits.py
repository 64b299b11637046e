"""What the `budget` of a policy may say, and its errors when it is wrong."""

from datetime import timedelta

import pytest

from remediator.policy.budget import FLAT
from remediator.policy.error import PolicyError
from remediator.policy.limits import KEYS, LIFTED, Cap, Limits, Rate, describe_limits
from tests.remediator.policy.budgets import limits_of


def test_what_is_not_in_the_file_stays_as_shipped() -> None:
    assert limits_of({}) == Limits()
    stated = limits_of({"evict": {"node": 3, "rate": {"count": 5}}})

    assert stated.evict.node == Cap(3)
    assert stated.evict.rate == Rate(5, timedelta(minutes=10))
    assert stated.evict.cluster == Limits().evict.cluster
    assert stated.taint == Limits().taint


@pytest.mark.parametrize("key", KEYS.values())
@pytest.mark.parametrize("raw", [2, "2000000", "25%", "2.5%", "0%", "100%", "none"])
def test_each_ground_takes_a_number_a_part_or_none(key: str, raw: object) -> None:
    stated = {path: value for path, value, _ in describe_limits(limits_of({"taint": {key: raw}}))}

    assert stated[f"budget.taint.{key}"] == str(raw)


@pytest.mark.parametrize("name", FLAT)
def test_the_flat_keys_of_the_first_release_mean_what_they_meant(name: str) -> None:
    harm, ground = FLAT[name]

    assert limits_of({name: 7}) == limits_of({harm: {ground: 7}})


def test_the_correlation_hold_is_set_and_lifted() -> None:
    stated = limits_of(
        {"correlation": {"nodes": 0, "within": "5m", "after_change": "0s"}}
    ).correlation

    assert (stated.nodes, stated.within, stated.after_change) == (
        0,
        timedelta(minutes=5),
        timedelta(),
    )


@pytest.mark.parametrize(
    ("raw", "reported"),
    [
        ({"evict": 3}, r"budget.evict: 3 is not a mapping with any of node, pool, deviceClass"),
        (
            {"evit": {}},
            r"budget.evit: no such key; did you mean evict\? .* evict, taint, correlation",
        ),
        ({"evict": {"class": 1}}, r"budget.evict.class: no such key; .*deviceClass"),
        ({"evict": {"node": -1}}, r"budget.evict.node: -1 is not a number of GPUs; write 2, 25%"),
        ({"evict": {"node": True}}, r"budget.evict.node: True is not a number"),
        ({"evict": {"node": 1.5}}, r"budget.evict.node: 1.5 is not a number"),
        ({"evict": {"node": [1]}}, r"budget.evict.node: a list is not a number"),
        ({"taint": {"pool": "101%"}}, r"budget.taint.pool: '101%' is not a number"),
        (
            {"evict": {"rate": 8}},
            r"budget.evict.rate: 8 is not a mapping with any of count, within",
        ),
        ({"evict": {"rate": {"count": -1}}}, r"budget.evict.rate.count: -1 is not a count"),
        ({"evict": {"rate": {"within": "0s"}}}, r"budget.evict.rate.within: 0s is no time at all"),
        ({"evict": {"rate": {"within": "soon"}}}, r"budget.evict.rate.within: 'soon'"),
        ({"taint": {"rate": {"within": "1m"}}}, r"budget.taint.rate.count: is missing"),
        ({"correlation": {"nodes": 1}}, r"budget.correlation.nodes: 1 would let any node defer"),
        ({"correlation": {"within": 10}}, r"budget.correlation.within: 10 is not a duration"),
        ({"evict_gpus_per_node": "many"}, r"budget.evict_gpus_per_node: 'many' is not a number"),
        ({"taint": {"node": {"share": 2}}}, r"budget.taint.node.share: 2 is not a percentage"),
        ({"taint": {"node": {"atLeast": 2}}}, r"budget.taint.node.share: is missing"),
        (
            {"taint": {"node": {"share": "5%", "atLeast": 2, "atMost": 1}}},
            r"budget.taint.node: atMost \(1\) is less than atLeast \(2\)",
        ),
        (
            {"taint": {"node": {"part": "5%"}}},
            r"budget.taint.node.part: no such key\. .*share, atLeast, atMost",
        ),
        ({"evict": {"rate": {"within": "25h"}}}, r"budget.evict.rate.within: 25h is longer than"),
        ({"7": 1}, r"budget.7: no such key"),
    ],
)
def test_a_mistake_is_named_with_its_path_and_what_may_be_written(
    raw: dict[str, object], reported: str
) -> None:
    with pytest.raises(PolicyError, match=reported):
        limits_of(raw)


def part(value: str) -> object:
    """Return `5%, at least 4, at most 16` as a file has it."""
    share, *bounds = value.split(", ")
    if not bounds:
        return value
    keys = {"at least": "atLeast", "at most": "atMost"}
    read = (bound.rpartition(" ") for bound in bounds)
    return {"share": share, **{keys[what]: int(number) for what, _, number in read}}


@pytest.mark.parametrize(
    ("raw", "cap"),
    [
        ({"share": "5%"}, Cap(5, percent=True)),
        ({"share": "5%", "atLeast": 4}, Cap(5, percent=True, least=4)),
        ({"share": "5%", "atMost": 16}, Cap(5, percent=True, most=16)),
        ({"share": "5%", "atLeast": 4, "atMost": 4}, Cap(5, percent=True, least=4, most=4)),
    ],
)
def test_a_part_may_have_bounds_and_what_is_left_out_is_none(raw: object, cap: Cap) -> None:
    assert limits_of({"evict": {"cluster": raw}}).evict.cluster == cap
    assert limits_of({"correlation": {"taint": raw}}).correlation.taint == cap


@pytest.mark.parametrize(("total", "most"), [(0, 4), (8, 4), (100, 5), (320, 16), (80_000, 16)])
def test_a_part_with_bounds_is_never_outside_of_them(total: int, most: int) -> None:
    assert Cap(5, percent=True, least=4, most=16).of(total) == most


def test_what_is_described_reads_back_as_the_same_limits() -> None:
    for limits in (Limits(), LIFTED):
        raw: dict[str, dict[str, object]] = {"evict": {}, "taint": {}, "correlation": {}}
        for path, value, _ in describe_limits(limits):
            _, section, key = path.split(".")
            count, _, within = value.partition(" in ")
            rate = {"count": int(count), "within": within} if within else part(value)
            raw[section][key] = int(value) if key == "nodes" else rate
        assert limits_of(dict(raw)) == limits
