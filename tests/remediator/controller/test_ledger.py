"""Transitions are counted when they are stored, each once, whichever replica leads."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from kubeapi.client import ApiError, Client, Conflict
from kubeapi.types import ObjectMeta
from kubeapi.versions import Versioned
from remediator.controller.apply import INCIDENTS, Writer
from remediator.controller.cache import Cache
from remediator.controller.metrics import Metrics
from remediator.controller.rate_limit import Pace
from remediator.controller.rejected_fields import Unstored
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.incident_status import IncidentStatus
from remediator.plan.steps import OpenIncident, WriteStatus
from tests.remediator.builders import T0, at, make_status, with_fields
from tests.remediator.controller.api import apply_merge_patch
from tests.remediator.controller.test_metrics import samples

NEW = Incident(
    ObjectMeta(name="gpu-a-1"), IncidentSpec("node-a", "GPU-a"), make_status(fault_class="gpu")
)
TAINTED = make_status(
    fault_class="gpu", mode="Enforce", phase="Tainted", tainted_at=at(2), seen_through=at(1)
)
CLOSED = with_fields(TAINTED, phase="Recovered", closed_at=at(700))


class Server:
    """Stores one incident, with preconditions; answers get lost where it is told so."""

    def __init__(self) -> None:
        self.stored: Incident | None = None
        self.version = 0
        self.silent = False
        self.refuses = False

    def create(self, _path: str, body: Mapping[str, Any]) -> bytes:
        return self._keep(Incident(NEW.metadata, body["spec"]))

    def merge_patch(self, path: str, body: Mapping[str, Any]) -> bytes:
        assert path == f"{INCIDENTS}/gpu-a-1/status"
        assert self.stored is not None
        if body["metadata"]["resourceVersion"] != self.stored.metadata.resource_version:
            raise Conflict("somebody was first", status=409)
        given = msgspec.json.decode(msgspec.json.encode(body["status"]))
        status = msgspec.convert(apply_merge_patch({}, given), IncidentStatus)
        return self._keep(msgspec.structs.replace(self.stored, status=status))

    def _keep(self, new: Incident) -> bytes:
        if self.refuses:
            raise ApiError("etcd has no leader", status=500)
        self.version += 1
        meta = ObjectMeta(
            name="gpu-a-1", uid="u", resource_version=str(self.version), creation_timestamp=T0
        )
        self.stored = msgspec.structs.replace(new, metadata=meta)
        if self.silent:
            raise ApiError("connection reset", status=None)
        return msgspec.json.encode(self.stored)


class Served:
    version, switches, path = "v1", 1, "/rules"


class Replica:
    """A replica's world, writer and page."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.leading = True
        self.metrics = Metrics()
        self.cache = Cache(lambda _: None)
        self.writer = Writer(
            cast("Client", server),
            self.cache,
            cast("Versioned[Any]", Served()),
            Pace(1e3, 1e3, clock=lambda: 0.0, has_urgent=lambda: False),
            lambda: self.leading,
            unstored=Unstored(),
            count=self.metrics.count_events,
        )

    def hears(self) -> Incident:
        """Have the watch tell what is stored."""
        assert self.server.stored is not None
        self.cache.put_incident("gpu-a-1", self.server.stored)
        return self.server.stored

    def writes(self, status: IncidentStatus) -> None:
        """Write a status over what this replica knows, as a decision does."""
        self.writer.turn_to("node-a")
        (known,) = self.cache.incidents()
        self.writer.apply(WriteStatus(known, status))

    def opens(self) -> None:
        self.writer.turn_to("node-a")
        self.writer.apply(OpenIncident(NEW))


def counted(*replicas: Replica) -> dict[str, float]:
    """Return what `sum` makes of the pages."""
    names = ("incidents_opened_total", "incidents_closed_total", "time_to_taint_seconds_count")
    pages = [samples(replica.metrics) for replica in replicas]
    return {
        name: sum(value for page in pages for key, value in page.items() if key[0] == name)
        for name in names
    }


def totals(opened: int, tainted: int, closed: int) -> dict[str, float]:
    return {
        "incidents_opened_total": opened,
        "incidents_closed_total": closed,
        "time_to_taint_seconds_count": tainted,
    }


@pytest.fixture
def server() -> Server:
    return Server()


def test_each_transition_counts_once_in_the_sum_when_the_leader_dies_in_between(
    server: Server,
) -> None:
    first, second = Replica(server), Replica(server)
    first.opens()
    first.writes(TAINTED)
    assert counted(first) == totals(1, 1, 0)

    first.leading = False
    second.hears()
    second.writer.turn_to("node-a")
    assert counted(second) == totals(0, 0, 0), "what was read is no transition"
    second.writes(CLOSED)

    assert counted(first, second) == totals(1, 1, 1)


def test_the_page_has_every_series_before_anything_has_happened(server: Server) -> None:
    page = samples(Replica(server).metrics)

    assert page["incidents_opened_total", "gpu"] == 0
    assert page["incidents_closed_total", "gpu", "Recovered"] == 0
    assert page["time_to_taint_seconds_count", "gpu"] == 0
    assert page["time_to_taint_seconds_bucket", "gpu", "0.01"] == 0
    assert page["pods_spared_total", "contained", "NotInScope"] == 0
    assert page["deferrals_total", "Blindness", "Eviction"] == 0


def test_a_write_that_is_superseded_counts_nothing_and_its_repetition_counts_once(
    server: Server,
) -> None:
    first = Replica(server)
    first.opens()
    other = Replica(server)
    other.hears()
    other.writes(IncidentStatus(message="written by another replica"))

    with pytest.raises(Conflict):
        first.writes(TAINTED)
    assert counted(first) == totals(1, 0, 0)
    first.hears()
    first.writes(TAINTED)

    assert counted(first) == totals(1, 1, 0)


def test_a_write_that_was_stored_without_an_answer_counts_when_the_watch_delivers_it(
    server: Server,
) -> None:
    leader = Replica(server)
    leader.opens()
    server.silent = True
    with pytest.raises(ApiError):
        leader.writes(TAINTED)
    server.silent = False

    leader.writer.turn_to("node-a")
    assert counted(leader) == totals(1, 0, 0), "not observed yet"
    leader.hears()
    leader.writer.turn_to("node-a")
    leader.writer.turn_to("node-a")

    assert counted(leader) == totals(1, 1, 0)


def test_an_incident_that_was_opened_without_an_answer_counts_when_the_watch_delivers_it(
    server: Server,
) -> None:
    leader = Replica(server)
    server.silent = True
    with pytest.raises(ApiError):
        leader.opens()
    leader.hears()
    leader.writer.turn_to("node-a")

    assert counted(leader) == totals(1, 0, 0)


def test_a_write_that_was_not_stored_counts_when_its_repetition_is(server: Server) -> None:
    leader = Replica(server)
    leader.opens()
    server.refuses = True
    with pytest.raises(ApiError):
        leader.writes(TAINTED)
    server.refuses = False
    leader.writes(TAINTED)
    leader.writer.turn_to("node-a")

    assert counted(leader) == totals(1, 1, 0)


def test_what_another_replica_stored_after_a_lost_answer_is_not_counted_here(
    server: Server,
) -> None:
    first, second = Replica(server), Replica(server)
    first.opens()
    second.hears()
    server.refuses = True
    with pytest.raises(ApiError):
        first.writes(TAINTED)
    server.refuses = False
    first.leading = False
    first.writer.turn_to("node-a")
    second.writes(TAINTED)
    first.leading = True
    first.hears()
    first.writer.turn_to("node-a")

    assert counted(first, second) == totals(1, 1, 0)
