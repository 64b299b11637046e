"""What the `budget` of a policy may say, and what it is told when it is wrong."""

from datetime import timedelta

import pytest

from remediator.policy.error import PolicyError
from remediator.policy.limits import (
    FLAT,
    KEYS,
    LIFTED,
    Cap,
    Limits,
    Rate,
    described,
    limits_of,
)


def test_what_is_not_said_stays_as_shipped() -> None:
    assert limits_of({}) == Limits()
    said = limits_of({"evict": {"node": 3, "rate": {"count": 5}}})

    assert said.evict.node == Cap(3)
    assert said.evict.rate == Rate(5, timedelta(minutes=10))
    assert said.evict.cluster == Limits().evict.cluster
    assert said.fence == Limits().fence


@pytest.mark.parametrize("key", KEYS.values())
@pytest.mark.parametrize("raw", [2, "2000000", "25%", "2.5%", "0%", "none"])
def test_each_ground_takes_a_number_a_part_or_none(key: str, raw: object) -> None:
    said = {path: value for path, value, _ in described(limits_of({"fence": {key: raw}}))}

    assert said[f"budget.fence.{key}"] == str(raw)


@pytest.mark.parametrize("name", FLAT)
def test_the_flat_keys_of_the_first_release_mean_what_they_meant(name: str) -> None:
    harm, ground = FLAT[name]

    assert limits_of({name: 7}) == limits_of({harm: {ground: 7}})


def test_the_correlation_hold_is_set_and_lifted() -> None:
    said = limits_of(
        {"correlation": {"nodes": 0, "within": "5m", "after_change": "0s"}}
    ).correlation

    assert (said.nodes, said.within, said.after_change) == (0, timedelta(minutes=5), timedelta())


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"evict": 3}, r"budget.evict: 3 is no mapping; write any of node, pool, deviceClass"),
        ({"evit": {}}, r"budget.evit is not known; write any of evict, fence, correlation"),
        ({"evict": {"class": 1}}, r"budget.evict.class is not known; .*deviceClass"),
        ({"evict": {"node": -1}}, r"budget.evict.node: -1 is no number of GPUs; write 2, 25%"),
        ({"evict": {"node": True}}, r"budget.evict.node: True is no number"),
        ({"evict": {"node": 1.5}}, r"budget.evict.node: 1.5 is no number"),
        ({"evict": {"node": [1]}}, r"budget.evict.node: \[1\] is no number"),
        ({"fence": {"pool": "101%"}}, r"budget.fence.pool: '101%' is no number"),
        ({"evict": {"rate": 8}}, r"budget.evict.rate: 8 is no mapping; write any of count, within"),
        ({"evict": {"rate": {"count": -1}}}, r"budget.evict.rate.count: -1 is no count"),
        ({"evict": {"rate": {"within": "0s"}}}, r"budget.evict.rate.within is no time at all"),
        ({"evict": {"rate": {"within": "soon"}}}, r"budget.evict.rate.within: 'soon'"),
        ({"fence": {"rate": {"within": "1m"}}}, r"budget.fence.rate.count is missing"),
        ({"correlation": {"nodes": 1}}, r"budget.correlation.nodes: 1 would let any one node hold"),
        ({"correlation": {"within": 10}}, r"budget.correlation.within: '10' is no duration"),
        ({"evict_gpus_per_node": "many"}, r"budget.evict_gpus_per_node: 'many' is no number"),
        ({7: 1}, r"budget.7 is not known"),
    ],
)
def test_a_mistake_is_named_with_its_path_and_what_may_be_written(
    raw: dict[str, object], told: str
) -> None:
    with pytest.raises(PolicyError, match=told):
        limits_of(raw)


def test_what_is_described_reads_back_as_the_same_limits() -> None:
    for limits in (Limits(), LIFTED):
        raw: dict[str, dict[str, object]] = {"evict": {}, "fence": {}, "correlation": {}}
        for path, value, _ in described(limits):
            _, section, key = path.split(".")
            count, _, within = value.partition(" in ")
            rate = {"count": int(count), "within": within} if within else value
            raw[section][key] = int(value) if key == "nodes" else rate
        assert limits_of(dict(raw)) == limits
