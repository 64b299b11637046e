"""Which nodes the scheduler leaves to a pod, before it looks at devices."""

from typing import Any

import msgspec
import pytest

from allocation.model.nodes import Node
from allocation.model.pods import Pod

OURS = {"key": "team", "value": "ml", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


def kept(node: dict[str, Any], **spec: Any) -> tuple[str, str] | None:
    pod = msgspec.convert({"metadata": {"name": "train"}, "spec": spec}, Pod)
    return pod.why_not_on(msgspec.convert({"name": "node-a", "labels": {"zone": "a"}} | node, Node))


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({}, None),
        ({"unschedulable": True}, ("NodeCordoned", "")),
        ({"taints": [OURS]}, ("NodeTainted", "team")),
        ({"taints": [OURS | {"effect": "PreferNoSchedule"}]}, None),
        ({"taints": [NOT_READY]}, ("NodeNotReady", "node.kubernetes.io/not-ready")),
    ],
)
def test_what_a_node_has_against_every_pod(
    node: dict[str, Any], reason: tuple[str, str] | None
) -> None:
    assert kept(node) == reason


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "value": "ml"}, True),
        ({"key": "team", "value": "web"}, False),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_taint_that_the_pod_tolerates(toleration: dict[str, str], tolerated: bool) -> None:
    assert (kept({"taints": [OURS]}, tolerations=[toleration]) is None) is tolerated


def test_a_daemon_may_run_on_a_cordoned_node() -> None:
    cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}

    assert kept({"unschedulable": True}, tolerations=[cordon]) is None


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"zone": "a"}}, None),
        ({"nodeSelector": {"zone": "b"}}, ("NodeAffinity", "zone=b")),
        ({"nodeSelector": {"gpu": "yes"}}, ("NodeAffinity", "gpu=yes")),
    ],
)
def test_a_node_selector(spec: dict[str, Any], reason: tuple[str, str] | None) -> None:
    assert kept({}, **spec) == reason


@pytest.mark.parametrize(("zone", "reason"), [("a", None), ("b", ("NodeAffinity", "nodeAffinity"))])
def test_a_required_affinity(zone: str, reason: tuple[str, str] | None) -> None:
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    assert kept({}, affinity=affinity) == reason
