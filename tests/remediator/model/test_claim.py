"""Who holds a device, as the API server's ResourceClaims tell it."""

from typing import Any

import msgspec
import pytest

from exporter.model.device import Device
from remediator.model.claim import (
    Claim,
    ClaimMeta,
    Owner,
    affected_pods,
    compute_domain,
    device_classes,
    unreported_claims,
)
from remediator.model.incident_status import AffectedPod
from remediator.model.pod import PodFacts
from tests.remediator.builders import DRIVER, NODE, T0
from tests.remediator.playing import pod

GPU = frozenset({Device(DRIVER, NODE, "gpu-0")})
TRAIN = {"resource": "pods", "name": "train-0", "uid": "u-0"}
IMEX = "compute-domain.nvidia.com"


def sent_claim(*reserved: dict[str, str], **fields: Any) -> Claim:
    """A claim of gpu-0; `result`, `config`, `requests` and `annotations` say more."""
    result = {"driver": DRIVER, "pool": NODE, "device": "gpu-0", "request": "gpu"}
    devices = {
        "results": [result | fields.get("result", {})],
        "config": fields.get("config", []),
    }
    raw = {
        "metadata": {
            "name": "c",
            "namespace": "team",
            "annotations": fields.get("annotations", {}),
        },
        "spec": {"devices": {"requests": fields.get("requests", [])}},
        "status": {"allocation": {"devices": devices}, "reservedFor": list(reserved)},
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=Claim)


def test_an_allocated_claim_keeps_nothing_that_only_a_waiting_one_needs() -> None:
    meta = {
        "name": "c",
        "creationTimestamp": T0.isoformat(),
        "ownerReferences": [{"kind": "Pod"}],
    }
    waits = msgspec.convert({"metadata": meta}, Claim)
    held = msgspec.convert({"metadata": meta, "status": {"allocation": {}}}, Claim)

    assert waits.metadata == ClaimMeta("c", creation_timestamp=T0, owner_references=(Owner("Pod"),))
    assert held.metadata == ClaimMeta("c")


def deferred_by(held: Claim, *pods: PodFacts) -> list[AffectedPod]:
    return list(affected_pods([held], GPU, pods))


def test_a_claim_that_is_not_allocated_holds_nothing() -> None:
    bare = msgspec.json.decode(b'{"metadata": {"name": "c"}}', type=Claim)

    assert affected_pods([bare], GPU) == ()
    assert (device_classes(bare), compute_domain(bare)) == (frozenset(), "")


def test_each_pod_of_a_shared_claim_holds_its_device() -> None:
    other = {"resource": "pods", "name": "train-1", "uid": "u-1"}

    assert [(pod.pod, pod.uid, pod.via) for pod in deferred_by(sent_claim(TRAIN, other))] == [
        ("train-0", "u-0", ""),
        ("train-1", "u-1", ""),
    ]


def test_a_claim_reserved_for_nobody_is_listed_without_a_pod() -> None:
    (one,) = deferred_by(sent_claim())

    assert (one.pod, one.claim) == ("", "c")


def test_a_claim_of_a_pod_group_is_held_by_the_groups_pods_here() -> None:
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "ring", "uid": "g"}
    members = [pod("w-0", pod_group="ring"), pod("w-1", pod_group="ring")]
    strangers = [pod("x-2", pod_group="other"), pod("x-3")]
    elsewhere = pod("w-9", namespace="other", pod_group="ring")

    found = deferred_by(sent_claim(group), *members, *strangers, elsewhere)

    assert [affected.pod for affected in found] == ["w-0", "w-1"]
    assert [affected.pod for affected in deferred_by(sent_claim(group))] == [""]


@pytest.mark.parametrize(
    "fields", [{"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}, {}]
)
def test_an_extended_resource_is_known_by_the_claims_annotation_or_the_pods_status(
    fields: dict[str, Any],
) -> None:
    (one,) = deferred_by(sent_claim(TRAIN, **fields), pod(uid="u-0", extended_claim="c"))

    assert one.via == "ExtendedResource"


def test_an_extended_claim_of_the_same_name_in_another_namespace_is_not_meant() -> None:
    stranger = pod(namespace="other", uid="u-0", extended_claim="c")

    (one,) = deferred_by(sent_claim(TRAIN), stranger)

    assert one.via == ""


def test_admin_access_is_reported_as_such() -> None:
    (one,) = deferred_by(sent_claim(TRAIN, result={"adminAccess": True}))

    assert one.via == "AdminAccess"


@pytest.mark.parametrize(
    ("toleration", "words"),
    [
        ({"operator": "Exists"}, "NoSchedule"),
        ({"operator": "Exists", "effect": "NoExecute"}, "NoExecute"),
        (
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            "NoExecute for 300s",
        ),
        (
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1},
            "NoExecute for 0s",
        ),
        (
            {"key": "draguard.dev/gpu", "operator": "Exists", "effect": "NoSchedule"},
            "NoSchedule of draguard.dev/gpu",
        ),
        (
            {"key": "draguard.dev/gpu", "value": "xid-79", "effect": "NoExecute"},
            "NoExecute of draguard.dev/gpu=xid-79",
        ),
        ({"key": "draguard.dev/gpu", "effect": "NoSchedule"}, "NoSchedule of draguard.dev/gpu"),
        ({"key": "gpu.nvidia.com/xid", "operator": "Exists"}, ""),
        ({"key": "", "operator": "Equal"}, ""),
    ],
)
def test_what_is_tolerated_is_shown_as_the_eviction_controller_reads_it(
    toleration: dict[str, Any], words: str
) -> None:
    (one,) = deferred_by(sent_claim(TRAIN, result={"tolerations": [toleration]}))

    assert one.tolerates == words


def test_several_tolerations_are_all_shown() -> None:
    both = [
        {"operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ]

    (one,) = deferred_by(sent_claim(TRAIN, result={"tolerations": both}))

    assert one.tolerates == "NoExecute for 60s, NoSchedule"


def test_a_class_counts_through_the_alternative_that_was_taken() -> None:
    requests = [
        {
            "name": "gpu",
            "firstAvailable": [
                {"name": "big", "deviceClassName": "h200"},
                {"name": "small", "deviceClassName": "l4"},
            ],
        },
        {"name": "nic", "exactly": {"deviceClassName": "rdma"}},
    ]

    taken = sent_claim(result={"request": "gpu/small"}, requests=requests)

    assert device_classes(taken) == {"l4"}
    assert device_classes(sent_claim(result={"request": "nic"}, requests=requests)) == {"rdma"}


class TestUnreported:
    """Claims that pods name, and that no watched claim shows."""

    def test_one_that_is_reserved_for_its_pod_or_for_its_group_is_shown(self) -> None:
        group = {"resource": "podgroups", "name": "gang", "uid": "u-gang"}
        member = pod("train-1", claims=("c",), pod_group="gang")
        assert unreported_claims([sent_claim(TRAIN)], [pod(uid="u-0", claims=("c",))]) == ()
        assert unreported_claims([sent_claim(group)], [member]) == ()

    def test_one_of_another_pod_of_that_name_is_not(self) -> None:
        late = pod("train-0", uid="u-late", claims=("c",), extended_claim="d")
        assert unreported_claims([sent_claim(TRAIN)], [late]) == (("team", "c"), ("team", "d"))

    def test_a_pod_that_has_ended_names_none(self) -> None:
        assert unreported_claims([], [pod("train-0", claims=("c",), running=False)]) == ()

    def test_the_namespaces_take_turns(self) -> None:
        many = pod("a", namespace="aaa", claims=("c-0", "c-1", "c-2"))
        one = pod("b", namespace="team", claims=("c-9",))
        assert unreported_claims([], [many, one])[:2] == (("aaa", "c-0"), ("team", "c-9"))


class TestComputeDomain:
    CONFIG = [{"opaque": {"driver": IMEX, "parameters": {"kind": "X", "domainID": "cd-1"}}}]

    def test_is_known_by_the_channel_that_was_given(self) -> None:
        channel = {"driver": IMEX, "device": "channel-0"}

        assert compute_domain(sent_claim(result=channel, config=self.CONFIG)) == "cd-1"

    @pytest.mark.parametrize(
        "result", [{}, {"driver": IMEX, "device": "daemon-0"}, {"device": "channel-0"}]
    )
    def test_is_of_no_claim_without_a_channel(self, result: dict[str, str]) -> None:
        assert compute_domain(sent_claim(result=result, config=self.CONFIG)) == ""

    @pytest.mark.parametrize(
        "parameters", [{"domainID": 5}, {"domainID": {"a": []}}, {"domainID": None}, {}]
    )
    def test_parameters_of_any_shape_make_no_claim_unreadable(
        self, parameters: dict[str, Any]
    ) -> None:
        config = [{}, {"opaque": {"driver": IMEX, "parameters": parameters}}]
        channel = {"driver": IMEX, "device": "channel-0"}

        assert compute_domain(sent_claim(result=channel, config=config)) == ""
