"""What a pod's own object adds."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.join.pod_facts import Allowed, PodFact, PodLabelsError, RawPod, fact_of

LABELS = {"app.kubernetes.io/name": "train", "team": "blue", "pod-template-hash": "x1"}


def pod(**fields: Any) -> RawPod:
    raw = {"metadata": {"name": "p", "namespace": "team", "uid": "u", "labels": LABELS}, **fields}
    return msgspec.json.decode(msgspec.json.encode(raw), type=RawPod)


def uses(*claims: dict[str, str]) -> dict[str, Any]:
    return {"name": "main", "resources": {"claims": list(claims)}}


def test_labels_ride_by_an_allow_list_and_all_of_them_without_one() -> None:
    assert fact_of(pod(), None).labels == ()
    assert fact_of(pod(), Allowed(["^team$", "name"])).labels == (
        ("app.kubernetes.io/name", "train"),
        ("team", "blue"),
    )
    assert dict(fact_of(pod(), Allowed()).labels) == LABELS


def test_a_pattern_that_is_none_is_refused_with_a_sentence() -> None:
    with pytest.raises(PodLabelsError, match="'\\(' in the allow-list") as caught:
        Allowed(["ok", "("])
    assert caught.value.reason == "BadPattern"


def test_a_container_holds_only_the_requests_that_it_names() -> None:
    fact = fact_of(
        pod(
            spec={
                "containers": [uses({"name": "gpus", "request": "big"}), {"name": "side"}],
                "initContainers": [uses({"name": "whole"}) | {"name": "init"}],
                "resourceClaims": [
                    {"name": "gpus", "resourceClaimTemplateName": "t"},
                    {"name": "whole", "resourceClaimName": "shared"},
                ],
            },
            status={"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "p-gpus-x"}]},
        ),
        None,
    )
    assert fact.may_use("main", "p-gpus-x", "big")
    assert fact.may_use("main", "p-gpus-x", "big/alternative")
    assert not fact.may_use("main", "p-gpus-x", "small")
    assert fact.may_use("init", "shared", "anything")


def test_until_a_pod_names_its_claims_nothing_is_left_out() -> None:
    early = fact_of(
        pod(spec={"containers": [uses({"name": "gpus", "request": "big"})]}, status={}), None
    )
    assert early.requests is None
    assert early.may_use("main", "p-gpus-x", "small")


def test_an_extended_resource_is_of_the_container_that_requested_it() -> None:
    mapping = {
        "containerName": "main",
        "resourceName": "nvidia.com/gpu",
        "requestName": "container-0-request-0",
    }
    status = {"extendedResourceClaimStatus": {"requestMappings": [mapping]}}
    fact = fact_of(pod(status=status), None)
    assert fact.resource("main", "container-0-request-0") == "nvidia.com/gpu"
    assert fact.resource("side", "container-0-request-0") == ""
    assert fact.may_use("main", "p-extended", "container-0-request-0")
    assert not fact.may_use("side", "p-extended", "container-0-request-0")


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_nothing_known_leaves_nothing_out(container: str, claim: str, request: str) -> None:
    assert PodFact(uid="u").may_use(container, claim, request)
    assert PodFact(uid="u").resource(container, request) == ""
