"""Dates of a report that nothing can be reckoned with, at the door where reports are decoded."""

import msgspec
import pytest

from exporter.model.node_health import NodeDeviceHealth, NodeHealth
from kubeapi.store import Store
from kubeapi.types import ObjectMeta
from tests.remediator.builders import NODE, T0, action, dead, gpu, report, xid

BEYOND = ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z")


def wrong_clock(moment: str) -> bytes:
    """Return a report of a GPU with an XID, all of it dated as a node's clock says."""
    one = gpu(0, xid(95), recovery_action=action(1, 0, 0))
    return of(report(one), "1").replace(b"2026-01-05T12:00:00Z", moment.encode())


def of(status: NodeHealth, version: str) -> bytes:
    meta = ObjectMeta(name=NODE, resource_version=version)
    return msgspec.json.encode(NodeDeviceHealth(meta, status))


@pytest.mark.parametrize("moment", BEYOND)
@pytest.mark.parametrize(
    "field",
    ["lastSeenTime", "firstSeenTime", "presenceTransitionTime", "observedTime", "sinceTime"],
)
def test_a_report_with_a_date_beyond_the_calendar_is_refused_and_counted(
    moment: str, field: str
) -> None:
    store = Store(NodeDeviceHealth)
    whole = of(report(dead(0), gpu(1, xid(95))), "2")
    at = whole.index(f'"{field}":"'.encode()) + len(field) + 4
    odd = whole[:at] + moment.encode() + whole[whole.index(b'"', at) :]

    assert store.put(msgspec.Raw(odd)) == []
    assert store.undecodable == 1


@pytest.mark.parametrize("moment", ["1970-01-01T00:00:00Z", "2262-04-11T23:47:16Z"])
def test_a_clock_that_is_only_wrong_is_believed(moment: str) -> None:
    (change,) = Store(NodeDeviceHealth).put(msgspec.Raw(wrong_clock(moment)))

    assert change.new is not None
    assert change.new.status.gpus[0].xids[0].last_seen != T0
