"""The node's ResourceSlices as watched on a real API server, in whichever version it has them."""

import contextlib
from collections.abc import Generator
from typing import Any

import pytest

from exporter.agent.join.published import PublishedDevices
from exporter.agent.report.ledger import Published
from exporter.model.device import NVIDIAS
from kubeapi.client import Client
from kubeapi.reflector import Pace
from tests.exporter.running import wait_for
from tests.kubeapi.hostile import Behaviour, Hostile, body, listing, refusal
from tests.lab.cluster import SLICES, Cluster

PACE = Pace(first_retry=0.05, longest_retry=0.2, missing_retry=0.1)
CONTENT = {
    "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-1"}},
    "capacity": {"memory": {"value": "80Gi"}},
}


def slice_of(
    *devices: str, node: str = "node-a", generation: int = 1, of: int = 1
) -> dict[str, Any]:
    """Build a slice whose name says what it is of."""
    made = [{"name": device} | CONTENT for device in devices]
    pool = {"name": node, "generation": generation, "resourceSliceCount": of}
    return {
        "metadata": {"name": f"{node}-{'-'.join(devices)}"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": made},
    }


def other_driver() -> dict[str, Any]:
    made = slice_of("nic-0")
    made["spec"]["driver"], made["spec"]["pool"]["name"] = "other.example", "nics"
    return made


class Watched(PublishedDevices):
    """Counts how often it was said that something changed."""

    def __init__(self, client: Client) -> None:
        self.news: list[int] = []
        super().__init__(client, "node-a", lambda: self.news.append(1), NVIDIAS, PACE)


@contextlib.contextmanager
def watching(client: Client) -> Generator[Watched]:
    watched = Watched(client)
    watched.start()
    try:
        yield watched
    finally:
        watched.stop()


def names(watched: PublishedDevices) -> list[str]:
    return [device.device.device for device in watched.devices()]


def test_only_this_nodes_slices_come_and_the_source_says_their_version(cluster: Cluster) -> None:
    for node in ("node-a", "node-b"):
        cluster.client.create(SLICES, slice_of("gpu-0", node=node))
    with watching(cluster.client) as watched:
        wait_for(lambda: watched.source().up, what="the watch")
        wait_for(lambda: names(watched) == ["gpu-0"])
        assert watched.devices()[0].node == "node-a"
        assert watched.source().message == "watched as resource.k8s.io/v1"
        offered = watched.published()
        assert offered is not None
        assert offered.uuids == {"GPU-1"}


def test_a_pool_mid_update_keeps_its_old_devices_until_the_new_are_whole(cluster: Cluster) -> None:
    cluster.client.create(SLICES, slice_of("gpu-0"))
    with watching(cluster.client) as watched:
        wait_for(lambda: names(watched) == ["gpu-0"])
        before = watched.devices()
        cluster.client.create(SLICES, slice_of("gpu-1", generation=2, of=2))
        cluster.client.delete(f"{SLICES}/node-a-gpu-0")
        cluster.client.create(SLICES, slice_of("gpu-9", node="node-b"))
        cluster.client.create(SLICES, other_driver())
        wait_for(lambda: "nic-0" in names(watched), what="what was written after")
        assert names(watched) == ["gpu-0", "nic-0"]
        assert before[0] in watched.devices()
        cluster.client.create(SLICES, slice_of("gpu-2", generation=2, of=2))
        wait_for(lambda: names(watched) == ["gpu-1", "gpu-2", "nic-0"])


def test_an_equal_generation_is_no_news(cluster: Cluster) -> None:
    cluster.client.create(SLICES, slice_of("gpu-0"))
    with watching(cluster.client) as watched:
        wait_for(lambda: names(watched) == ["gpu-0"])
        # Reported once, just after it can be seen.
        reported = wait_for(lambda: len(watched.news))
        again = slice_of("gpu-0", generation=2)
        again["metadata"]["name"] = "again"
        cluster.client.create(SLICES, again)
        cluster.client.delete(f"{SLICES}/node-a-gpu-0")
        cluster.client.create(SLICES, other_driver())
        wait_for(lambda: "nic-0" in names(watched), what="what was written after")
        wait_for(lambda: len(watched.news) > reported, what="its telling")
        assert len(watched.news) == reported + 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(404, "NotFound"), "NotServed"),
        (refusal(503), "Unreachable"),
        (refusal(403, "Forbidden"), "Forbidden"),
        (body(b"no json"), "Unreachable"),
        (body(b'{"resources": []}'), "NotServed"),
    ],
)
def test_what_cannot_be_watched_has_a_word_and_is_tried_again(
    answer: Behaviour, reason: str
) -> None:
    server = Hostile([answer])
    client = Client(server.endpoint, timeout=60.0)
    try:
        with watching(client) as watched:
            assert watched.published() is None
            wait_for(lambda: watched.source().reason == reason, what=reason)
            assert watched.source().message
            requested = len(server.requests)
            wait_for(lambda: len(server.requests) > requested, what="another attempt")
    finally:
        client.close()
        server.close()


def test_who_may_not_see_what_is_served_asks_for_the_newest_and_for_this_node_alone() -> None:
    server = Hostile([refusal(403, "Forbidden"), listing("7")])
    client = Client(server.endpoint, timeout=60.0)
    try:
        with watching(client) as watched:
            wait_for(lambda: watched.source().up, what="the watch")
            assert watched.published() == Published()
    finally:
        client.close()
        server.close()
    listed = server.requests[1].split()[1]
    assert listed.startswith("/apis/resource.k8s.io/v1/resourceslices?")
    assert "fieldSelector=spec.nodeName%3Dnode-a" in listed
