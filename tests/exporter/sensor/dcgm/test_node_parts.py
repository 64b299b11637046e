"""NVSwitches with their links, CPUs with their cores: as DCGM tells them, where rows name them."""

import mmap
from collections.abc import Mapping
from typing import Any

import pytest

from exporter.model.device_option import parse_devices
from exporter.model.readings import DcgmReading, NodePart
from exporter.sensor.dcgm import node_parts
from exporter.sensor.dcgm.abi import Kind, Status
from exporter.sensor.dcgm.cpus import CpuInfo
from exporter.sensor.dcgm.engine import cadence_of
from exporter.sensor.dcgm.entities import Topology
from exporter.sensor.dcgm.error import DcgmError
from exporter.sensor.dcgm.groups import Groups
from exporter.sensor.dcgm.library import Library
from exporter.sensor.dcgm.listing import LinkTable, Listing
from exporter.sensor.dcgm.node_parts import NO_PARTS, NodeParts
from exporter.sensor.dcgm.options import Chosen, Options
from exporter.sensor.dcgm.requested_fields import CONNECTX_FIELDS, NODE_FIELDS
from exporter.sensor.dcgm.vendor import NOT_LISTED
from exporter.sensor.dcgm.watch import Cadence, Watches
from exporter.sensor.supervisor import call_notes
from exporter.sensor.supervisor.call_notes import Slot
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.sensor.dcgm.running import REQUESTED, Supervised, simulated, uuid, values

SWITCH_TEMPERATURE, LINK_SENT, CPU_TEMPERATURE, CORE_BUSY = 858, 780, 1110, 1100
Reported = tuple[str, int, int | None]


@pytest.fixture
def dcgm(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> SimulatedDcgm:
    return simulated(node, monkeypatch)


def reported(reading: DcgmReading) -> Mapping[Reported, Mapping[int, float | str]]:
    return {(part.kind, part.id, part.of): part.values for part in reading.node_parts}


def test_switches_and_their_links_are_reported_under_their_own_numbers(dcgm: SimulatedDcgm) -> None:
    dcgm.parts.add_switch(0, links=2, fields={SWITCH_TEMPERATURE: 41})
    dcgm.parts.add_switch(3, links=2, fields={SWITCH_TEMPERATURE: 45, 1524: "1.2.3"})
    dcgm.parts.set_switch_link(0, 1, {LINK_SENT: 7})
    dcgm.parts.set_switch_link(3, 0, {LINK_SENT: 12}, up=False)
    dcgm.parts.set_switch_link(3, 1, {LINK_SENT: "error=-8"})
    with Supervised(dcgm, "embedded", *REQUESTED, SWITCH_TEMPERATURE, LINK_SENT, 1524) as seen:
        state = seen.wait(lambda candidate: candidate.reading is not None)
    assert state.reading is not None
    assert reported(state.reading) == {
        ("switch", 0, None): {SWITCH_TEMPERATURE: 41},
        ("switch", 3, None): {SWITCH_TEMPERATURE: 45, 1524: "1.2.3"},
        ("link", 1, 0): {LINK_SENT: 7},
        ("link", 0, 3): {LINK_SENT: 12},
    }, "a link that cannot be read is not there, one that is down is"
    assert values(state.reading, uuid(dcgm, 0)).keys() == set(REQUESTED)
    assert state.reading.unsupported == ()
    assert (state.source.up, state.source.reason) == (True, "")


def test_cpus_and_their_cores_are_reported(dcgm: SimulatedDcgm) -> None:
    dcgm.parts.add_cpu(
        0, first=0, cores=2, serial="0x1A", fields={CPU_TEMPERATURE: 47.5, CORE_BUSY: 0.5}
    )
    dcgm.parts.add_cpu(1, first=72, cores=1)
    dcgm.parts.set_core(1, {CORE_BUSY: 0.75})
    dcgm.parts.set_core(72, {CORE_BUSY: "blank"})
    with Supervised(dcgm, "embedded", *REQUESTED, CPU_TEMPERATURE, CORE_BUSY) as seen:
        reading = seen.reading()
    assert reported(reading) == {
        ("cpu", 0, None): {CPU_TEMPERATURE: 47.5, CORE_BUSY: 0.5},
        ("core", 1, 0): {CORE_BUSY: 0.75},
    }
    assert [part.serial for part in reading.node_parts] == ["0x1A", ""]


def test_an_engine_that_knows_no_serial_numbers_tells_its_cpus(dcgm: SimulatedDcgm) -> None:
    dcgm.parts.add_cpu(0, first=0, cores=1, serial="0x1A", fields={CPU_TEMPERATURE: 47.5})
    dcgm.release.without_cpu_serials()
    with Supervised(dcgm, "embedded", *REQUESTED, CPU_TEMPERATURE) as seen:
        reading = seen.reading()
    assert reading.node_parts == (NodePart(kind="cpu", id=0, values={CPU_TEMPERATURE: 47.5}),)


def test_the_options_choose(dcgm: SimulatedDcgm) -> None:
    for switch in (0, 1):
        dcgm.parts.add_switch(switch, links=2, fields={SWITCH_TEMPERATURE: 41})
        for link in (0, 1):
            dcgm.parts.set_switch_link(switch, link, {LINK_SENT: 1})
    dcgm.parts.add_cpu(0, first=0, cores=2, fields={CPU_TEMPERATURE: 40, CORE_BUSY: 0.5})
    dcgm.parts.set_core(1, {CORE_BUSY: 0.75})
    desired = (*REQUESTED, SWITCH_TEMPERATURE, LINK_SENT, CPU_TEMPERATURE, CORE_BUSY)
    with Supervised(
        dcgm, "embedded", *desired, switch_devices="g:1+i:0", cpu_devices="i:1,5"
    ) as seen:
        state = seen.wait(lambda candidate: candidate.reading is not None)
    assert state.reading is not None
    assert set(reported(state.reading)) == {("switch", 1, None), ("link", 0, 1), ("core", 1, 0)}
    assert (state.source.up, state.source.reason) == (True, NOT_LISTED)
    assert state.source.message == "DCGM lists no CPU core 5, as --cpu-devices names"


def test_a_switch_that_comes_later_is_reported(dcgm: SimulatedDcgm) -> None:
    with Supervised(dcgm, "embedded", *REQUESTED, SWITCH_TEMPERATURE) as seen:
        assert seen.reading().node_parts == ()
        dcgm.parts.add_switch(2, fields={SWITCH_TEMPERATURE: 39})
        reading = seen.reading(lambda state: state.node_parts != ())
        assert reported(reading) == {("switch", 2, None): {SWITCH_TEMPERATURE: 39}}
        dcgm.parts.remove_switch(2)
        seen.reading(lambda state: state.node_parts == ())


def test_what_cannot_be_listed_is_reported_and_costs_nothing_else(dcgm: SimulatedDcgm) -> None:
    dcgm.release.without_switch_module()
    desired = (*REQUESTED, SWITCH_TEMPERATURE, LINK_SENT, CPU_TEMPERATURE, CORE_BUSY)
    with Supervised(dcgm, "embedded", *desired) as seen:
        state = seen.wait(lambda candidate: candidate.reading is not None)
    assert state.reading is not None
    assert values(state.reading, uuid(dcgm, 0)).keys() == set(REQUESTED)
    assert state.reading.node_parts == ()
    assert (state.source.up, state.source.reason) == (True, NOT_LISTED)
    assert state.source.message == (
        "no NVSwitch is listed: dcgmGetEntityGroupEntities answers DCGM_ST_MODULE_NOT_LOADED (-33) "
        "(the engine reads NVSwitches by NVIDIA's library NSCQ or NVSDM); "
        "no CPU is listed: dcgmGetCpuHierarchy_v2 answers DCGM_ST_MODULE_NOT_LOADED (-33) "
        "(the engine reads NVIDIA's CPUs and no others)"
    )


# --- the binding, without an engine


class _Refusing(Library):
    """A library whose engine takes all but entities of one kind into groups."""

    def __init__(self, refused: Kind | None = None) -> None:
        super().__init__(Slot(mmap.mmap(-1, call_notes.SIZE), call_notes.SAMPLING))
        self._refused = refused

    def _call(self, name: str, *arguments: Any) -> None:
        if name == "dcgmGroupAddEntity" and arguments[2] == self._refused:
            raise DcgmError(name, Status.BADPARAM)


class _Requested(Listing):
    """A listing that answers by itself, and what was requested of it."""

    def __init__(self) -> None:
        super().__init__(_Refusing())
        self.calls: list[str] = []

    def entities(self, kind: Kind) -> list[int]:
        self.calls.append(f"entities {kind.name}")
        return [0]

    def link_states(self) -> LinkTable:
        self.calls.append("link_states")
        return LinkTable({0: [3]}, {0: [3, 1, 0]})

    def cpus(self) -> list[CpuInfo]:
        self.calls.append("cpus")
        return [CpuInfo(0, (0, 1))]


class _Watched(Groups):
    """Groups that note which fields are watched, and how often each is read."""

    def __init__(self, refused: Kind | None = None) -> None:
        super().__init__(_Refusing(refused))
        self.watched: list[tuple[tuple[int, ...], float]] = []

    def create_field_group(self, name: str, fields: Any) -> int:  # noqa: ARG002
        self.watched.append((tuple(fields), 0))
        return len(self.watched)

    def watch(self, group: int, fields: int, *, every: float, keep: float) -> None:  # noqa: ARG002
        self.watched[-1] = (self.watched[-1][0], every)


def test_nothing_is_queried_of_dcgm_that_no_row_wants() -> None:
    listing = _Requested()
    others = set(range(1, 1600)) - NODE_FIELDS
    assert node_parts.read(listing, Chosen(), others, "4.6.0") == NO_PARTS
    assert listing.calls == []
    node_parts.read(listing, Chosen(), (CPU_TEMPERATURE,), "4.6.0")
    assert listing.calls == ["cpus"]


def test_only_links_that_are_there_are_watched_and_none_before_4_4() -> None:
    found = node_parts.read(_Requested(), Chosen(), (LINK_SENT,), "4.6.0")
    assert found.places == {(Kind.LINK, 3): NodePart(kind="link", id=0, of=0)}
    old = node_parts.read(_Requested(), Chosen(), (LINK_SENT,), "4.3.2")
    assert old == NodeParts({}, ("links of NVSwitches need DCGM 4.4, and this is 4.3.2",))


@pytest.mark.parametrize(
    ("option", "switches", "links"),
    [("f", 1, 1), ("g", 1, 0), ("i", 0, 1), ("g:0+i:0", 1, 1), ("g:1+i", 0, 0), ("i:0", 0, 1)],
)
def test_the_forms_of_the_option(option: str, switches: int, links: int) -> None:
    chosen = Chosen(switches=parse_devices(option))
    found = node_parts.read(_Requested(), chosen, (SWITCH_TEMPERATURE, LINK_SENT), "4.6.0")
    kinds = [part.kind for part in found.places.values()]
    assert (kinds.count("switch"), kinds.count("link")) == (switches, links)
    assert found.remarks == (
        () if "1" not in option else ("DCGM lists no NVSwitch 1, as --switch-devices names",)
    )


def test_a_lost_engine_is_no_missing_switch() -> None:
    class Lost(_Requested):
        def entities(self, kind: Kind) -> list[int]:
            raise DcgmError(f"entities {kind}", Status.CONNECTION_NOT_VALID)

    with pytest.raises(DcgmError, match="CONNECTION_NOT_VALID"):
        node_parts.read(Lost(), Chosen(), (SWITCH_TEMPERATURE,), "4.6.0")


def test_modules_wake_up_at_half_the_interval_and_for_their_own_fields() -> None:
    groups = _Watched()
    beside = node_parts.read(_Requested(), Chosen(), (SWITCH_TEMPERATURE, LINK_SENT), "4.6.0")
    desired = (150, SWITCH_TEMPERATURE, LINK_SENT, *CONNECTX_FIELDS)
    watches = Watches(groups, Cadence(1, 2, 60, 15))
    assert watches.begin(Topology({}), desired, beside) == tuple(sorted(CONNECTX_FIELDS))
    assert groups.watched == [((SWITCH_TEMPERATURE,), 15), ((LINK_SENT,), 15)]
    for address in ("embedded", "127.0.0.1:5555"):
        assert cadence_of(Options(address=address, health=False, interval=30)).modules == 15


def test_a_switch_that_an_engine_refuses_begins_nothing_anew() -> None:
    groups = _Watched(refused=Kind.SWITCH)
    beside = node_parts.read(_Requested(), Chosen(), (SWITCH_TEMPERATURE,), "4.6.0")
    watches = Watches(groups, Cadence(1, 1, 60, 1))
    assert watches.begin(Topology({}), (SWITCH_TEMPERATURE,), beside) == (SWITCH_TEMPERATURE,)
    assert watches.complete, "else every sample would begin all watches anew"
    assert groups.watched == []
