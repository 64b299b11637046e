"""What an engine lists beside GPUs: NVSwitches with their links, CPUs with their cores.

Only what a requested field is of is queried: a node whose counters file names no such field pays
nothing. Of that only what the device options choose is watched. Modules of the engine list and
read these, and need not be there; what is missing is a remark and no error.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from exporter.model.device_option import Selection
from exporter.model.readings import NodePart, Values
from exporter.sensor.dcgm.abi import Kind
from exporter.sensor.dcgm.entities import LINKS_THERE, link_entity, makes_links
from exporter.sensor.dcgm.error import DcgmError, name_of
from exporter.sensor.dcgm.listing import Listing
from exporter.sensor.dcgm.options import Chosen
from exporter.sensor.dcgm.requested_fields import (
    CORE_FIELDS,
    CPU_FIELDS,
    SWITCH_FIELDS,
    SWITCH_LINK_FIELDS,
)
from exporter.sensor.dcgm.values import Answer, Entity, value_of

Listed = Iterable[tuple[Entity, NodePart]]

_NAMES = {"switch": "NVSwitch", "link": "link of an NVSwitch", "cpu": "CPU", "core": "CPU core"}
_MODULES = {
    "switch": "the engine reads NVSwitches by NVIDIA's library NSCQ or NVSDM",
    "cpu": "the engine reads NVIDIA's CPUs and no others",
}


class NodeParts(msgspec.Struct, frozen=True):
    """What can be watched now, and what is missing of what was requested."""

    places: dict[Entity, NodePart] = {}
    """Without values."""
    remarks: tuple[str, ...] = ()

    def groups(self) -> Iterator[tuple[Kind, list[Entity]]]:
        """Give the entities by kind."""
        kinds = sorted({kind for kind, _ in self.places})
        for kind in kinds:
            yield Kind(kind), [entity for entity in self.places if entity[0] == kind]


NO_PARTS = NodeParts()


def read(listing: Listing, chosen: Chosen, desired: Collection[int], version: str) -> NodeParts:
    """List what requested fields are of; raises DcgmError only when the engine is gone."""
    fields = frozenset(desired)
    reader = _Reader()
    if not fields.isdisjoint(SWITCH_FIELDS):
        reader.take("switch", "--switch-devices", chosen.switches, lambda: _switches(listing))
    if not fields.isdisjoint(SWITCH_LINK_FIELDS):
        if makes_links(version):
            reader.take("link", "--switch-devices", chosen.switches, lambda: _links(listing))
        else:
            reader.remarks.append(f"links of NVSwitches need DCGM 4.4, and this is {version}")
    # Fields of cores are reported for a CPU, too, as dcgm-exporter shows them.
    if not fields.isdisjoint(CPU_FIELDS | CORE_FIELDS):
        reader.take("cpu", "--cpu-devices", chosen.cpus, lambda: _cpus(listing))
    if not fields.isdisjoint(CORE_FIELDS):
        reader.take("core", "--cpu-devices", chosen.cpus, lambda: _cores(listing))
    return NodeParts(reader.places, tuple(dict.fromkeys(reader.remarks)))


def with_values(
    answers: Iterable[Answer], places: dict[Entity, NodePart], desired: Collection[int]
) -> tuple[NodePart, ...]:
    """Return the parts that reported something."""
    values: dict[Entity, Values] = {}
    for answer in answers:
        value = value_of(answer)
        if value is not None and answer.entity in places and answer.field in desired:
            values.setdefault(answer.entity, {})[answer.field] = value
    return tuple(
        msgspec.structs.replace(part, values=values[entity])
        for entity, part in places.items()
        if entity in values
    )


class _Reader:
    def __init__(self) -> None:
        self.places: dict[Entity, NodePart] = {}
        self.remarks: list[str] = []

    def take(self, kind: str, option: str, chosen: Selection, lister: Callable[[], Listed]) -> None:
        """Take what is chosen of a kind."""
        try:
            listed = list(lister())
        except DcgmError as error:
            if error.lost:
                raise
            # One call lists the wholes and their parts: said once.
            about = "switch" if kind == "link" else "cpu" if kind == "core" else kind
            reason = f"{error.call} answers {name_of(error.code)}"
            self.remarks.append(f"no {_NAMES[about]} is listed: {reason} ({_MODULES[about]})")
            return
        self.places |= {
            entity: part
            for entity, part in listed
            if (part.of is None and chosen.has(part.id))
            or (part.of is not None and chosen.has_part(part.id, part.of))
        }
        named = chosen.wholes if kind in ("switch", "cpu") else chosen.parts
        if missing := sorted((named or frozenset()) - {part.id for _, part in listed}):
            numbers = ", ".join(map(str, missing))
            self.remarks.append(f"DCGM lists no {_NAMES[kind]} {numbers}, as {option} names")


def _switches(listing: Listing) -> Listed:
    for number in listing.entities(Kind.SWITCH):
        yield (Kind.SWITCH, number), NodePart(kind="switch", id=number)


def _links(listing: Listing) -> Listed:
    for switch, states in listing.link_states().switches.items():
        for link, state in enumerate(states):
            if state in LINKS_THERE:
                entity = Kind.LINK, link_entity(switch, link, Kind.SWITCH)
                yield entity, NodePart(kind="link", id=link, of=switch)


def _cpus(listing: Listing) -> Listed:
    for cpu in listing.cpus():
        yield (Kind.CPU, cpu.id), NodePart(kind="cpu", id=cpu.id, serial=cpu.serial)


def _cores(listing: Listing) -> Listed:
    for cpu in listing.cpus():
        for core in cpu.cores:
            yield (Kind.CPU_CORE, core), NodePart(kind="core", id=core, of=cpu.id)
