"""NVLinks as entities of DCGM: whose ids no call lists, made from the states of links."""

import mmap
from typing import Any

import pytest

from exporter.sensor.dcgm.abi import Kind, Status
from exporter.sensor.dcgm.entities import Place, Topology, link_entity
from exporter.sensor.dcgm.error import DcgmError
from exporter.sensor.dcgm.groups import Groups
from exporter.sensor.dcgm.library import Library
from exporter.sensor.dcgm.values import Entity
from exporter.sensor.dcgm.watch import Cadence, Watches
from exporter.sensor.supervisor import call_notes
from exporter.sensor.supervisor.call_notes import Slot
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.sensor.dcgm.running import REQUESTED, Supervised, simulated, uuid, values

FIRST, SECOND = 0, 1


class _NoLinks(Library):
    """A library whose engine takes no NVLink into a group."""

    def __init__(self) -> None:
        super().__init__(Slot(mmap.mmap(-1, call_notes.SIZE), call_notes.SAMPLING))
        self.calls: list[str] = []

    def _call(self, name: str, *arguments: Any) -> None:
        self.calls.append(name)
        if name == "dcgmGroupAddEntity" and arguments[2] == Kind.LINK:
            raise DcgmError(name, Status.BADPARAM)


@pytest.fixture
def dcgm(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> SimulatedDcgm:
    return simulated(node, monkeypatch)


def test_fields_of_nvlinks_are_reported_for_each_link(dcgm: SimulatedDcgm) -> None:
    dcgm.set_link_field(SECOND, 17, 585, 4)
    dcgm.set_link_field(SECOND, 17, 1532, 1000)
    dcgm.set_link_field(FIRST, 0, 585, 9)
    with Supervised(dcgm, "embedded", *REQUESTED, 585, 1532) as seen:
        reading = seen.reading()
    found = {
        (entity.uuid, entity.link): entity.values
        for entity in reading.entities
        if entity.link is not None
    }
    assert found == {
        (uuid(dcgm, SECOND), 17): {585: 4, 1532: 1000},
        (uuid(dcgm, FIRST), 0): {585: 9},
    }


def test_an_engine_older_than_4_4_is_not_queried_for_links(dcgm: SimulatedDcgm) -> None:
    dcgm.release.set_version("4.3.2")
    dcgm.set_link_field(SECOND, 17, 585, 4)
    with Supervised(dcgm, "embedded", *REQUESTED, 585) as seen:
        reading = seen.reading()
    assert reading.version == "4.3.2"
    assert [entity for entity in reading.entities if entity.link is not None] == []
    assert values(reading, uuid(dcgm, SECOND)).keys() == set(REQUESTED)


def test_a_link_that_is_down_has_its_counters(dcgm: SimulatedDcgm) -> None:
    with dcgm.node.scenario.edit() as scenario:
        scenario.gpus[SECOND].links = {17: {"state": 0}}
    dcgm.set_link_field(SECOND, 17, 585, 4)
    with Supervised(dcgm, "embedded", *REQUESTED, 585) as seen:
        reading = seen.reading()
    assert [
        (entity.link, entity.values) for entity in reading.entities if entity.link is not None
    ] == [(17, {585: 4})]


def test_an_engine_that_refuses_links_keeps_its_other_watches() -> None:
    library = _NoLinks()
    places: dict[Entity, Place] = {
        (Kind.GPU, 0): Place("GPU-a"),
        (Kind.LINK, link_entity(0, 3)): Place("GPU-a", link=3),
    }
    watches = Watches(Groups(library), Cadence(1, 1, 60, 1))
    assert watches.begin(Topology(places), (150, 585)) == (585,)
    assert watches.complete, "else every sample would begin all watches anew"
    assert "dcgmWatchFields" in library.calls
