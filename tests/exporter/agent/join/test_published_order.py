"""Two threads that work out what is published: who looked last has the last word."""

import threading
from collections.abc import Mapping
from typing import cast

import msgspec
import pytest

from exporter.agent.join.published import PublishedDevices
from exporter.model.device import NVIDIAS
from exporter.model.resource_slices import ResourceSlice
from kubeapi.client import Client
from kubeapi.endpoint import Endpoint
from kubeapi.reflector import Reflector
from tests.exporter.agent.join.test_published import slice_of

Slices = Mapping[str, ResourceSlice]


def slices(*devices: str) -> Slices:
    return {"one": msgspec.json.decode(msgspec.json.encode(slice_of(*devices)), type=ResourceSlice)}


class Copy:
    """What a watch has: something old for who looks first and is slow, then something new."""

    synced = True

    def __init__(self) -> None:
        self.looked, self.go = threading.Event(), threading.Event()

    def stop(self) -> None: ...

    def items(self) -> Slices:
        if self.looked.is_set():
            return slices("gpu-0", "gpu-1")
        found = slices("gpu-0")
        self.looked.set()
        assert self.go.wait(60)
        return found


def test_what_was_seen_later_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(Endpoint(server="http://127.0.0.1:9"))
    published = PublishedDevices(client, "node-a", lambda: None, NVIDIAS)
    copy = Copy()
    monkeypatch.setattr(published, "_reflector", cast("Reflector[ResourceSlice]", copy))
    # As the watch's thread and the page's: both look while the first list is not worked out.
    first, second = (threading.Thread(target=published.devices) for _ in range(2))
    first.start()
    assert copy.looked.wait(60)
    second.start()
    second.join(0.3)
    copy.go.set()
    for thread in (first, second):
        thread.join()
    assert [device.device.device for device in published.devices()] == ["gpu-0", "gpu-1"]
    published.stop()
    client.close()
