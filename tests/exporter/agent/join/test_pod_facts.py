"""What a pod's own object adds."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.join.pod_facts import (
    MOST_LABEL_BYTES,
    MOST_LABELS,
    MOST_USES,
    Allowed,
    PodFact,
    RawPod,
    fact_of,
)

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


def labelled(labels: dict[str, str], allowed: Allowed | None = None) -> PodFact:
    metadata = {"name": "p", "namespace": "team", "uid": "u", "labels": labels}
    return fact_of(pod(metadata=metadata), allowed or Allowed())


def test_of_thousands_of_labels_the_first_by_key_stay_and_the_others_are_counted() -> None:
    many = {f"key-{n:04d}": "v" for n in range(9000)}

    fact = labelled(many)

    assert fact.labels == tuple(sorted(many.items()))[:MOST_LABELS]
    assert fact.labels_left_out == 9000 - MOST_LABELS
    # A map has no order: another one must not show other labels.
    assert labelled(dict(reversed(many.items()))) == fact


def test_labels_stay_as_far_as_their_bytes_fit_keys_and_values() -> None:
    each = MOST_LABEL_BYTES // 8
    whole = {f"{n:09d}": "v" * (each - 9) for n in range(9)}
    assert (len(labelled(whole).labels), labelled(whole).labels_left_out) == (8, 1)

    # Bytes, not letters; and none behind the first that does not fit.
    wide = whole | {"000000007": "\u00e9" * (each - 9), "000000008": ""}
    assert (len(labelled(wide).labels), labelled(wide).labels_left_out) == (7, 2)


def test_labels_that_the_allow_list_leaves_out_take_no_room() -> None:
    many = {f"a-{n:04d}": "v" for n in range(9000)} | {"team": "blue"}

    fact = labelled(many, Allowed(["^team$"]))

    assert (fact.labels, fact.labels_left_out) == ((("team", "blue"),), 0)


def test_an_ordinary_pod_keeps_all_its_labels() -> None:
    assert labelled(LABELS).labels_left_out == 0
    thirty = {f"app.example.com/label-{n}": f"value-of-train-{n}" for n in range(30)}
    assert labelled(thirty).labels == tuple(sorted(thirty.items()))


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


def test_thousands_of_requests_of_one_pod_are_not_kept_and_stay_unknown() -> None:
    spec = {
        "containers": [
            uses(*({"name": "gpus", "request": f"r-{n}"} for n in range(MOST_USES + 1)))
        ],
        "resourceClaims": [{"name": "gpus", "resourceClaimName": "claim"}],
    }
    assert fact_of(pod(spec=spec), None).requests is None
