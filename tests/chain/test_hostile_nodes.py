"""A node whose agent lies: it harms its own devices at most, and tainting elsewhere goes on."""

import itertools
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, NodeHealth, XidRecord
from kubeapi import clock
from kubeapi.client import ApiError
from remediator.plan.steps import MOST_OPEN
from tests.chain.scene import REPORTS, Scene, fresh
from tests.chain.test_taint_and_move import now, off_the_bus, with_xids
from tests.lab.cluster import await_true
from tests.remediator import builders
from tests.remediator.builders import gpu, uuid

LIAR, VICTIM = "node-a", "node-b"
GPUS = 8
YEAR = timedelta(days=365)
SECONDS = 30.0
"""In which a broken GPU of an honest node is tainted while another lies; it takes one or two."""
MEMORY = 200
"""MiB; an idle one has about 60."""
WRITES = 30
"""Lies that are told before the honest node has a fault, and more until that is tainted."""
Lie = Callable[[int], NodeHealth]
"""The report by the number of its write."""


def own() -> list[GpuHealth]:
    return [gpu(index, node=LIAR, recovery_action=fresh()) for index in range(GPUS)]


def reported(*gpus: GpuHealth, ahead: timedelta = timedelta()) -> NodeHealth:
    return msgspec.structs.replace(builders.report(*gpus), observed_at=clock.now() + ahead)


def boards_of_another(_: int) -> NodeHealth:
    return reported(*own(), *(off_the_bus(gpu(index, node=VICTIM)) for index in range(GPUS)))


def endless_boards(number: int) -> NodeHealth:
    indexes = range(100 * (number + 1), 100 * (number + 2))
    return reported(*own(), *(off_the_bus(gpu(index, node=LIAR)) for index in indexes))


def flapping(number: int) -> NodeHealth:
    return reported(*(off_the_bus(health) if number % 2 else health for health in own()))


def huge(number: int) -> NodeHealth:
    """At least 256 KiB, which is as large as an honest agent lets it grow."""
    words = f"{number} " + "x" * 200
    codes = range(1000, 1125)
    noise = [msgspec.structs.replace(now(code), message=words) for code in codes]
    return reported(*(with_xids(health, *noise) for health in own()))


def a_year_off(ahead: timedelta) -> NodeHealth:
    """All of its GPUs want a reset, by a clock that is wrong."""
    at = clock.now() + ahead
    action = msgspec.structs.replace(fresh(1), since=at, observed_at=at)
    record: XidRecord = msgspec.structs.replace(now(95), first_seen=at, last_seen=at)
    since = {"presence_since": at - timedelta(hours=5), "epoch_started": at - timedelta(hours=5)}
    sick = (with_xids(health, record, recovery_action=action, **since) for health in own())
    return reported(*sick, ahead=ahead)


def a_year_ahead(_: int) -> NodeHealth:
    return a_year_off(YEAR)


def a_year_behind(_: int) -> NodeHealth:
    return a_year_off(-YEAR)


@contextmanager
def telling(scene: Scene, lie: Lie) -> Generator[Callable[[], int]]:
    """Let the liar write as fast as the server takes it; gives the number of writes so far."""
    stop = threading.Event()
    counted = itertools.count()
    written = [0]

    def run() -> None:
        while not stop.wait(0.05):
            written[0] = next(counted)
            with suppress(ApiError):  # a server that is busy gets the request again
                scene.write(LIAR, lie(written[0]))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: written[0]
    finally:
        stop.set()
        thread.join()


def of_others(scene: Scene) -> list[str]:
    return [
        incident["spec"]["uuid"]
        for incident in scene.incidents()
        if incident["spec"]["node"] != LIAR
    ]


@pytest.mark.parametrize(
    "lie", [boards_of_another, endless_boards, flapping, huge, a_year_ahead, a_year_behind]
)
def test_a_liar_harms_its_own_devices_at_most_and_others_are_tainted(
    scene: Scene, lie: Lie
) -> None:
    honest = [gpu(index, node=VICTIM) for index in range(GPUS)]
    scene.node(LIAR, *own())
    scene.node(VICTIM, *honest)
    remediator = scene.remediator()
    began = remediator.memory
    with telling(scene, lie) as lies:
        await_true("it has lied for a while", lambda: lies() >= WRITES)
        assert all(device.startswith(LIAR) for device in scene.rules())

        honest[3] = off_the_bus(honest[3])
        broke_at = time.monotonic()
        scene.report(VICTIM, *honest)
        await_true("the honest node's GPU is tainted", lambda: f"{VICTIM}/gpu-3" in scene.rules())
        took = time.monotonic() - broke_at
        size = len(scene.cluster.client.get(f"{REPORTS}/{LIAR}"))
        memory = remediator.memory
        of_liar = [incident for incident in scene.incidents() if incident["spec"]["node"] == LIAR]
        print(  # noqa: T201 - figures of a test that bounds them
            f"\n{lie.__name__}: {lies()} reports of {size >> 10} KiB, the other node's GPU tainted "
            f"in {took:.2f} s, {len(of_liar)} incidents, {began} -> {memory} MiB"
        )
    harmed = {device for device in scene.rules() if not device.startswith(LIAR)}
    assert harmed == {f"{VICTIM}/gpu-3"}
    await_true("it is reported, and no other", lambda: of_others(scene) == [uuid(3, VICTIM)])
    assert len(of_liar) <= MOST_OPEN
    assert memory < MEMORY
    assert took < SECONDS
    assert "this is a bug" not in remediator.logged()
