"""Which entities an engine has, and what NVML calls each: DCGM's numbers are its own.

A GPU instance 0 of DCGM may be instance 11 of NVML, so nothing leaves here
under a number of DCGM's.
"""

import msgspec
from msgspec.structs import replace

from exporter.dcgm.abi import EntityStatus, Kind
from exporter.dcgm.error import DcgmError
from exporter.dcgm.library import Library
from exporter.dcgm.values import Entity
from exporter.device import normal_bus_id

_READABLE = (EntityStatus.UNKNOWN, EntityStatus.OK, EntityStatus.FAKE)


class Place(msgspec.Struct, frozen=True):
    """An entity in NVML's terms."""

    uuid: str
    """Of the physical GPU."""
    bus_id: str = ""
    """Of it, in the form of `device.normal_bus_id`."""
    product: str = ""
    gi: int | None = None
    ci: int | None = None
    link: int | None = None


class Topology(msgspec.Struct, frozen=True):
    """What can be watched now."""

    places: dict[Entity, Place]
    detached: tuple[str, ...] = ()
    """UUIDs of GPUs that the driver let go."""

    def of(self, kind: Kind) -> dict[str, list[Entity]]:
        """Return the entities of a kind by product: what one cannot tell, another may."""
        found: dict[str, list[Entity]] = {}
        for entity, place in self.places.items():
            if entity[0] == kind:
                found.setdefault(place.product, []).append(entity)
        return found


class Entities:
    """Reads the topology; keeps who a GPU is for when it cannot say so any more."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._gpus: dict[int, Place] = {}

    def read(self) -> Topology:
        """Return what is there now; raises DcgmError when not even the GPUs are told."""
        places: dict[Entity, Place] = {}
        detached: list[str] = []
        for gpu in self._library.entities(Kind.GPU):
            status = self._status(gpu)
            if status in _READABLE and self._identify(gpu):
                places[Kind.GPU, gpu] = self._gpus[gpu]
            elif status == EntityStatus.DETACHED and gpu in self._gpus:
                detached.append(self._gpus[gpu].uuid)
        return Topology(places | self._instances(places) | self._links(places), tuple(detached))

    def _status(self, gpu: int) -> int:
        try:
            return self._library.gpu_status(gpu)
        except DcgmError as error:
            if error.lost:
                raise
            # The call is one of DCGM's test interface: without it the values tell.
            return EntityStatus.UNKNOWN

    def _identify(self, gpu: int) -> bool:
        try:
            uuid, bus_id, product = self._library.identity(gpu)
        except DcgmError as error:
            if error.lost:
                raise
            return gpu in self._gpus
        if uuid and not uuid.startswith("<<<"):
            self._gpus[gpu] = Place(uuid, normal_bus_id(bus_id) or "", product)
        return gpu in self._gpus

    def _instances(self, gpus: dict[Entity, Place]) -> dict[Entity, Place]:
        try:
            found = self._library.instances()
        except DcgmError as error:
            if error.lost:
                raise
            return {}
        by_uuid = {place.uuid: place for place in gpus.values()}
        return {
            one.entity: replace(by_uuid[one.uuid], gi=one.gi, ci=one.ci)
            for one in found
            if one.uuid in by_uuid
        }

    def _links(self, gpus: dict[Entity, Place]) -> dict[Entity, Place]:
        try:
            found = self._library.entities(Kind.LINK)
        except DcgmError as error:
            if error.lost:
                raise
            # DCGM 4.6.0 does not list links (-6).
            return {}
        links: dict[Entity, Place] = {}
        for raw in found:
            kind, gpu, link = decode_link(raw)
            place = gpus.get((Kind.GPU, gpu)) if kind == Kind.GPU else None
            if place is not None:
                links[Kind.LINK, raw] = replace(place, link=link)
        return links


def decode_link(raw: int) -> tuple[int, int, int]:
    """Return (kind of owner, its id, link) of a link's entity id (dcgm_link_t).

    The kind is the low byte. Older 4.x go on with one byte of link and two of
    owner, newer ones with two of link and one of owner. No GPU has 256 links,
    so a third byte that is not 0 is an owner of the older form.
    """
    kind, middle, high = raw & 0xFF, raw >> 16 & 0xFF, raw >> 24
    return kind, middle or high, raw >> 8 & 0xFF
