"""What is read of pods one by one: a few at each look, the oldest first, each namespace in turn."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, cast

import msgspec
import pytest

from allocation.explainer.observe import Observer
from allocation.explainer.remarks import AT_ONCE, PodRemarks
from allocation.model.pods import ClaimStatusOfPod, Pod
from kubeapi.client import ApiError, Client, NotFound
from tests.allocation.explainer.snapshots import at, pod

EVENTS = (
    b'{"items": [{"metadata": {"name": "e"}, "reason": "Failed", "message": "m"},'
    b'{"metadata": {"name": "odd"}, "lastTimestamp": "0000-00-00T00:00:00Z"}]}'
)
"""The second cannot be read, and hides no other."""


class Server:
    """Answers each reading; notes what was read."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.error = error
        self.read: list[str] = []
        self.dra = "/apis/resource.k8s.io/v1"

    def sibling(self, _: float) -> "Server":
        return self

    def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        self.read.append((params or {}).get("fieldSelector", path))
        if self.error is not None:
            raise self.error
        return EVENTS


def remarks(server: Server) -> PodRemarks:
    return PodRemarks(cast("Client", server), cast("Observer", server))


def of_template(name: str = "train", *, made: str = "", **spec: Any) -> Pod:
    """Return a pod of a template; `made` is the claim that its status names."""
    named = [{"name": "gpu", "resourceClaimTemplateName": "large"}]
    found = pod(name, "", resourceClaims=named, **spec)
    statuses = (ClaimStatusOfPod("gpu", made),) if made else ()
    status = msgspec.structs.replace(found.status, resource_claim_statuses=statuses)
    return msgspec.structs.replace(found, status=status)


def look(found: PodRemarks, *pods: Pod, seconds: float = 100, claims: Sequence[str] = ()) -> None:
    found.read(pods, claims, at(seconds))


def test_the_events_of_a_pod_that_hangs_are_read() -> None:
    server, hangs = Server(), pod(node="node-a")
    found = remarks(server)

    look(found, hangs)

    assert [each.reason for each in found.events(hangs)] == ["Failed"]
    look(found, hangs, seconds=120)
    assert len(server.read) == 1
    look(found, hangs, seconds=140)
    assert len(server.read) == 2


@pytest.mark.parametrize(
    "other", [pod(), pod(node="node-a", phase="Running"), pod(node="node-a", created=95)]
)
def test_nothing_is_read_of_other_pods(other: Pod) -> None:
    server = Server()

    look(remarks(server), other)

    assert server.read == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, {"large": True}),
        (NotFound("gone", status=404), {"large": False}),
        (ApiError("forbidden", status=403), None),
        (ApiError("busy", status=429), None),
    ],
)
def test_a_template_exists_or_not_or_is_unknown(
    error: ApiError | None, expected: dict[str, bool] | None
) -> None:
    found = remarks(Server(error))

    look(found, of_template())

    assert found.templates(of_template(), ()) == expected


def test_a_template_that_was_not_read_yet_is_unknown() -> None:
    assert remarks(Server()).templates(of_template(), ()) is None


def test_the_template_of_a_claim_that_is_gone_is_read_with_the_events() -> None:
    """A quota may keep the claim from being made anew."""
    server, waits = Server(), of_template(made="train-gpu-x7")
    found = remarks(server)

    look(found, waits, claims=["team/train-gpu-x7"])
    assert server.read == []
    look(found, waits)

    assert found.templates(waits, ()) == {"large": True}
    assert [each.reason for each in found.events(waits)] == ["Failed"]


@pytest.mark.parametrize(
    "other", [of_template(made="gone", node="node-a"), of_template(made="gone", phase="Failed")]
)
def test_no_template_is_read_of_a_pod_that_gets_no_claim_any_more(other: Pod) -> None:
    server = Server()

    look(remarks(server), other, seconds=1)

    assert server.read == []


def test_a_crowd_takes_no_turn_of_another_namespace() -> None:
    crowd = [pod(f"train-{n}", node="node-a", namespace="crowd") for n in range(3 * AT_ONCE)]
    server, other = Server(), pod(node="node-a")

    look(remarks(server), *crowd, other)

    assert len(server.read) == AT_ONCE
    assert "involvedObject.uid=uid-team-train" in server.read


def test_all_of_a_crowd_have_their_turn() -> None:
    crowd = [pod(f"train-{n}", node="node-a") for n in range(3 * AT_ONCE)]
    server = Server()
    found = remarks(server)

    for seconds in (100, 102, 104):
        look(found, *crowd, seconds=seconds)

    assert len({*server.read}) == 3 * AT_ONCE


def test_what_is_read_of_pods_that_are_gone_is_forgotten() -> None:
    found, hangs = remarks(Server()), pod(node="node-a")
    look(found, hangs)
    look(found)

    assert found.events(hangs) == ()


def test_a_server_that_hangs_costs_a_look_no_more_than_one_reading_after_five_seconds() -> None:
    """Each reading of the clock is two seconds later."""
    crowd = [pod(f"train-{n}", node="node-a") for n in range(AT_ONCE)]
    server, ticks = Server(), count(0, 2)
    found = PodRemarks(cast("Client", server), cast("Observer", server), lambda: next(ticks))

    look(found, *crowd)
    assert len(server.read) == 2
    look(found, *crowd, seconds=102)

    assert len({*server.read}) == 4
