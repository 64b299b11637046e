"""The leader's list of drivers of GPUs, and what is assumed where it is not known."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader, left_out
from exporter.model.device import NVIDIAS
from kubeapi.client import ApiError, Client, NotFound
from kubeapi.endpoint import Endpoint
from remediator.controller.agents import DRIVERS as NOTE
from tests.lab.foreign import DRIVERS, Board, foreign_slices

OTHER = DRIVERS[0]
BODIES = [
    body
    for body in foreign_slices("node-a", [Board("GPU-1", "0000:18:00.0")]).values()
    if body["spec"]["driver"] == OTHER
]


def lease(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "draguard-remediator", **metadata}}


class Served:
    """A client of an API server that has slices, and an answer about the leader's Lease."""

    endpoint = Endpoint(server="https://here")

    def __init__(self, answer: list[dict[str, Any]] | ApiError, slices: list[Any]) -> None:
        self.answer, self.slices = answer, slices

    def get(self, path: str, _: Mapping[str, str] | None = None, **__: str) -> bytes:
        if path.endswith("/leases"):
            if isinstance(self.answer, ApiError):
                raise self.answer
            return msgspec.json.encode({"items": self.answer})
        if path.endswith("/resourceslices"):
            return msgspec.json.encode({"items": self.slices})
        if path == "/apis/resource.k8s.io/v1":
            return msgspec.json.encode({"resources": [{"name": "resourceslices", "kind": "X"}]})
        raise NotFound(path, status=404)

    def create(self, *_: object, **__: object) -> bytes:
        raise ApiError("not served")


def read(answer: list[dict[str, Any]] | ApiError, slices: list[Any] = BODIES) -> Objects:
    return Reader(cast("Client", Served(answer, slices)), "draguard-system").objects("slices")


UNKNOWN: dict[str, list[dict[str, Any]] | ApiError] = {
    "no leader has recorded": [],
    "has recorded it": [lease(annotations={NOTE: ""})],
    "leases is forbidden": ApiError("leases is forbidden", status=403),
    "etcd is away": ApiError("etcd is away", status=500),
    "cannot be read": [lease(annotations={NOTE: OTHER}) | {"spec": {"renewTime": "z"}}],
}


@pytest.mark.parametrize("why", UNKNOWN)
def test_a_list_that_is_not_known_is_assumed_and_that_is_reported_once(why: str) -> None:
    found = read(UNKNOWN[why])

    assert found.gpu_drivers == NVIDIAS
    (sentence,) = found.unseen
    assert why in sentence
    assert f"gpu.nvidia.com is assumed, and {OTHER} counts as foreign" in sentence
    assert sentence in left_out(found)


@pytest.mark.parametrize("why", UNKNOWN)
def test_where_no_other_driver_publishes_anything_nothing_is_assumed(why: str) -> None:
    found = read(UNKNOWN[why], [])

    assert (found.gpu_drivers, found.unseen, left_out(found)) == (NVIDIAS, (), "")


def test_a_list_that_is_recorded_is_not_assumed() -> None:
    found = read([lease(annotations={NOTE: "gpu.nvidia.com"})])

    assert (found.gpu_drivers, found.unseen, left_out(found)) == (NVIDIAS, (), "")


def test_a_name_that_cannot_be_read_does_not_take_the_others_with_it() -> None:
    found = read([lease(annotations={NOTE: f"gpu.nvidia.com, {OTHER},no driver"})])

    assert found.gpu_drivers == NVIDIAS | {OTHER}
    assert found.unseen == ()
