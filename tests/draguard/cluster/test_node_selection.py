"""A DaemonSet selects the nodes on which the scheduler would run its pods."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from draguard.cluster.installation import Workload
from kubeapi.decoding import Decoder
from kubeapi.types import ObjectMeta
from tests.lab.cluster import Json


def exporter(*, terms: Sequence[Json] = (), selector: Mapping[str, str] | None = None) -> Workload:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        "nodeSelector": selector or {},
        "affinity": {"nodeAffinity": required} if terms else None,
    }
    stated = {"metadata": {}, "spec": {"template": {"spec": spec}}}
    return Decoder(Workload).decode(msgspec.json.encode(stated))


@pytest.mark.parametrize(
    ("key", "operator", "values", "selected"),
    [
        ("pool", "In", ["a", "b"], True),
        ("pool", "In", ["b"], False),
        ("pool", "NotIn", ["b"], True),
        ("pool", "NotIn", ["a"], False),
        ("none", "NotIn", ["a"], True),
        ("pool", "Exists", [], True),
        ("none", "Exists", [], False),
        ("none", "DoesNotExist", [], True),
        ("pool", "DoesNotExist", [], False),
        ("gpus", "Gt", ["7"], True),
        ("gpus", "Gt", ["8"], False),
        ("gpus", "Lt", ["9"], True),
        ("gpus", "Lt", ["8"], False),
        ("pool", "Gt", ["7"], False),
        ("none", "Lt", ["7"], False),
    ],
)
def test_a_requirement_of_a_node_affinity_is_read_as_the_scheduler_reads_it(
    key: str, operator: str, values: list[str], *, selected: bool
) -> None:
    found = ObjectMeta(name="gpu-7", labels={"pool": "a", "gpus": "8"})
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}

    assert exporter(terms=[term]).selects(found) == selected
    assert exporter(terms=[term, {"matchExpressions": None}]).selects(found) == selected


def test_all_of_a_term_and_one_of_the_terms_is_required_beside_the_selector() -> None:
    found = ObjectMeta(name="gpu-7", labels={"pool": "a"})
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-7"]}]}
    other = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["b"]}]}

    assert exporter(terms=[named]).selects(found)
    assert exporter(terms=[other, named]).selects(found)
    assert not exporter(terms=[{**named, **other}]).selects(found)
    assert not exporter(terms=[named], selector={"pool": "b"}).selects(found)
