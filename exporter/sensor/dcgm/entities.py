"""Which entities an engine has, and what NVML calls each: DCGM's numbers are its own.

A GPU instance 0 of DCGM may be instance 11 of NVML, so nothing leaves here
under a number of DCGM's.
"""

import re

import msgspec
from msgspec.structs import replace

from exporter.model.device import normal_bus_id
from exporter.sensor.dcgm.abi import EntityStatus, Kind
from exporter.sensor.dcgm.error import DcgmError
from exporter.sensor.dcgm.link_states import LinkState
from exporter.sensor.dcgm.listing import Listing
from exporter.sensor.dcgm.values import Entity

_LINKS_SINCE = (4, 4)
LINKS_THERE = (LinkState.DOWN, LinkState.UP)
"""A link that is down counts how often it went down, and flaps without new watches."""
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
    """What of GPUs can be watched now."""

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
    """Reads the topology; remembers each GPU's identity for when it can no longer be read."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._gpus: dict[int, Place] = {}

    def read(self, *, links: bool) -> Topology:
        """Return what is there now, NVLinks only where requested.

        Raises DcgmError when not even the GPUs are reported.
        """
        places: dict[Entity, Place] = {}
        detached: list[str] = []
        for gpu in self._listing.entities(Kind.GPU):
            try:
                status = self._listing.gpu_status(gpu)
            except DcgmError as error:
                if error.lost:
                    raise
                # The call is one of DCGM's test interface: without it the values tell.
                status = EntityStatus.UNKNOWN
            if status in _READABLE and self._identify(gpu):
                places[Kind.GPU, gpu] = self._gpus[gpu]
            elif status == EntityStatus.DETACHED and gpu in self._gpus:
                detached.append(self._gpus[gpu].uuid)
        parts = self._instances(places) | (self._links(places) if links else {})
        return Topology(places | parts, tuple(detached))

    def _identify(self, gpu: int) -> bool:
        try:
            uuid, bus_id, product = self._listing.identity(gpu)
        except DcgmError as error:
            if error.lost:
                raise
            return gpu in self._gpus
        if uuid and not uuid.startswith("<<<"):
            self._gpus[gpu] = Place(uuid, normal_bus_id(bus_id) or "", product)
        return gpu in self._gpus

    def _instances(self, gpus: dict[Entity, Place]) -> dict[Entity, Place]:
        try:
            found = self._listing.instances()
        except DcgmError as error:
            if error.lost:
                raise
            return {}
        by_uuid = {place.uuid: place for place in gpus.values()}
        return {
            instance.entity: replace(by_uuid[instance.uuid], gi=instance.gi, ci=instance.ci)
            for instance in found
            if instance.uuid in by_uuid
        }

    def _links(self, gpus: dict[Entity, Place]) -> dict[Entity, Place]:
        try:
            found = self._listing.link_states().gpus
        except DcgmError as error:
            if error.lost:
                raise
            # A library that knows another version of the struct says so (-12).
            return {}
        return {
            (Kind.LINK, link_entity(gpu, link)): replace(gpus[Kind.GPU, gpu], link=link)
            for gpu, states in found.items()
            for link, state in enumerate(states)
            if state in LINKS_THERE and (Kind.GPU, gpu) in gpus
        }


def link_entity(owner: int, link: int, kind: Kind = Kind.GPU) -> int:
    """Return the entity id of an NVLink of a GPU or a switch (dcgm_link_t, DCGM 4.4 and newer).

    Each client makes them of what dcgmGetNvLinkLinkStatus tells: no call lists those of GPUs.
    """
    return kind | link << 8 | owner << 24


def makes_links(version: str) -> bool:
    """Return whether an engine of this version takes the ids of `link_entity`.

    Before 4.4 the number of the GPU stood elsewhere, and a wrong id is another GPU's link.
    """
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return found is not None and (int(found[1]), int(found[2])) >= _LINKS_SINCE
