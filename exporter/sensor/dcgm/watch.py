"""What is watched in an engine: few groups of entities, and few groups of fields.

Profiling fields are apart from the others, and a refusal is narrowed down: one
field that an engine or a GPU does not have costs that field and no other.
"""

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from exporter.sensor.dcgm.abi import MAX_ENTITIES, MAX_FIELDS, Kind, Status
from exporter.sensor.dcgm.entities import Topology
from exporter.sensor.dcgm.error import DcgmError
from exporter.sensor.dcgm.groups import Groups
from exporter.sensor.dcgm.node_parts import NO_PARTS, NodeParts
from exporter.sensor.dcgm.requested_fields import (
    CONNECTX_FIELDS,
    NODE_FIELDS,
    PROFILING,
    XID,
    batches,
    fields_for,
    fields_for_part,
)
from exporter.sensor.dcgm.values import Answer, Entity

_FIELD_AT_FAULT = frozenset(
    {
        Status.BADPARAM,
        Status.GENERIC_ERROR,
        Status.NOT_CONFIGURED,
        Status.NOT_SUPPORTED,
        Status.UNKNOWN_FIELD,
        Status.NO_PERMISSION,
        Status.GPU_NOT_SUPPORTED,
        Status.REQUIRES_ROOT,
        Status.FIELD_UNSUPPORTED_BY_API,
        Status.MODULE_NOT_LOADED,
        Status.PROFILING_NOT_SUPPORTED,
        Status.PROFILING_LIBRARY_ERROR,
        Status.PROFILING_MULTI_PASS,
        Status.INSUFFICIENT_DRIVER_VERSION,
    }
)
"""Refusals of a watch that fewer fields may not meet."""
_OF_GPUS = (Kind.GPU, Kind.GPU_INSTANCE, Kind.COMPUTE_INSTANCE)
"""What has XIDs, and may be back in a moment when it is refused."""


class Cadence(msgspec.Struct, frozen=True):
    """How often the engine reads fields, and how long it keeps their history; seconds."""

    every: float
    profiling: float
    keep: float
    modules: float
    """What a module of the engine reads, which wakes up for it."""


Part = tuple[Kind, str]
"""A kind of entity on one product."""
_BESIDE = "no GPU's "
"""In the place of a product, with a number."""


class _Watched(msgspec.Struct):
    """The entities of one part under watch."""

    group: int
    entities: tuple[Entity, ...]
    field_groups: list[int]
    fields: tuple[int, ...]
    """What is really watched."""
    xids: int | None
    """The field group of `XID` alone, whose history is read."""

    def read_fields(self) -> list[int]:
        return [*self.fields, *([] if self.xids is None else [XID])]


class Watches:
    """Everything watched for one topology and one set of requested fields."""

    def __init__(self, groups: Groups, cadence: Cadence) -> None:
        self._groups = groups
        self._cadence = cadence
        self._parts: dict[Part, _Watched] = {}
        # Names are one space for all clients of an engine.
        self._name = f"draguard-{uuid.uuid4().hex[:12]}"
        self._made = 0
        self._refusal: DcgmError | None = None
        self.complete = True
        """False when an entity of the topology had gone: it may be back under the same name."""

    def begin(
        self, topology: Topology, desired: Collection[int], beside: NodeParts = NO_PARTS
    ) -> tuple[int, ...]:
        """Watch what can be watched; returns the fields that nothing here can report.

        Raises DcgmError when nothing of the GPUs can be watched at all.
        """
        refused = set(CONNECTX_FIELDS)
        for kind in (Kind.GPU, Kind.GPU_INSTANCE, Kind.COMPUTE_INSTANCE, Kind.LINK):
            fields = fields_for(kind, desired)
            for product, entities in topology.of(kind).items():
                refused.update(self._begin_part((kind, product), entities, fields))
        for kind, entities in beside.groups():
            for at in range(0, len(entities), MAX_ENTITIES):
                part, some = (kind, f"{_BESIDE}{at}"), entities[at : at + MAX_ENTITIES]
                refused.update(self._begin_part(part, some, fields_for_part(kind, desired)))
        gpus = [watched for (kind, _), watched in self._parts.items() if kind == Kind.GPU]
        if gpus and self._refusal is not None and not any(gpu.fields for gpu in gpus):
            raise self._refusal
        watched = {field for watched in self._parts.values() for field in watched.read_fields()}
        return tuple(sorted((refused - watched) & {XID, *desired}))

    def end(self) -> None:
        """Take everything back; what is gone already is no error.

        An engine knows one watch of a connection per entity and field, whatever
        the groups it came by. So this comes before the next `begin`; the watch
        of XIDs is left to that, or those of the meantime would not be seen.
        """
        for watched in self._parts.values():
            for fields in watched.field_groups:
                _done(self._groups.unwatch, watched.group, fields)
                _done(self._groups.destroy_field_group, fields)
            if watched.xids is not None:
                _done(self._groups.destroy_field_group, watched.xids)
            _done(self._groups.destroy_group, watched.group)
        self._parts.clear()

    def read(self) -> Iterator[Answer]:
        """Return the latest value of every field under watch."""
        for watched in self._parts.values():
            fields = watched.read_fields()
            for at in range(0, len(fields), MAX_FIELDS):
                yield from self._latest(watched.entities, fields[at : at + MAX_FIELDS])

    def xids(self, since: dict[Part, int]) -> Iterator[Answer]:
        """Return every XID of the history after `since`, which is carried on.

        Of a part that is new there, what an engine remembers is the past and no
        news. Its own time stamps say so, as its clock need not be ours.
        """
        for part, watched in self._parts.items():
            if watched.xids is not None:
                changes = part in since
                received, since[part] = self._groups.since(
                    watched.group, watched.xids, since.get(part, 0)
                )
                yield from received if changes else ()

    def _begin_part(self, part: Part, entities: list[Entity], fields: list[int]) -> list[int]:
        group = self._groups.create_group(self._next_name())
        there = tuple(
            entity for entity in entities if _done(self._groups.add_entity, group, *entity)
        )
        # A link that is refused is no link to this engine; only a GPU may be back in a moment.
        if part[0] in _OF_GPUS:
            self.complete = self.complete and len(there) == len(entities)
        self._parts[part] = watched = _Watched(group, there, [], (), None)
        if part[0] not in _OF_GPUS and not there:
            return fields
        refused: list[int] = []
        if part[0] in _OF_GPUS:
            xids, refused = self._narrow(group, [XID])
            watched.xids = xids[0] if xids else None
        for batch in batches(fields):
            made, missing = self._narrow(group, batch)
            kept = [field for field in batch if field not in missing]
            watched.field_groups += self._join(group, made, kept)
            watched.fields += tuple(kept)
            refused += missing
        return refused

    def _narrow(self, group: int, fields: Sequence[int]) -> tuple[list[int], list[int]]:
        """Watch fields, in halves where that fails; returns (field groups, refused fields)."""
        try:
            return [self._watch(group, fields)], []
        except DcgmError as error:
            if error.code not in _FIELD_AT_FAULT:
                raise
            if len(fields) == 1:
                self._refusal = error
                return [], list(fields)
        middle = len(fields) // 2
        left, right = self._narrow(group, fields[:middle]), self._narrow(group, fields[middle:])
        return left[0] + right[0], left[1] + right[1]

    def _join(self, group: int, made: list[int], fields: Sequence[int]) -> list[int]:
        """Put the parts of a batch into one field group: an engine has 64 for all its clients."""
        if len(made) < 2:
            return made
        try:
            whole = self._watch(group, fields)
        except DcgmError as error:
            if error.code not in _FIELD_AT_FAULT:
                raise
            return made
        for part in made:
            _done(self._groups.destroy_field_group, part)
        return [whole]

    def _watch(self, group: int, fields: Sequence[int]) -> int:
        made = self._groups.create_field_group(self._next_name(), fields)
        cadence = self._cadence
        every = cadence.modules if fields[0] in NODE_FIELDS else cadence.every
        every = cadence.profiling if fields[0] in PROFILING else every
        try:
            self._groups.watch(group, made, every=every, keep=cadence.keep)
        except DcgmError:
            _done(self._groups.destroy_field_group, made)
            raise
        return made

    def _latest(self, entities: Sequence[Entity], fields: Sequence[int]) -> list[Answer]:
        try:
            return self._groups.latest(entities, fields)
        except DcgmError as error:
            if error.lost:
                raise
            if len(entities) == 1:
                return []
        # An entity that went away since the topology was read fails the call for all.
        return [answer for entity in entities for answer in self._latest([entity], fields)]

    def _next_name(self) -> str:
        self._made += 1
        return f"{self._name}-{self._made}"


def _done(call: Callable[..., None], *arguments: int) -> bool:
    """Make a call whose refusal changes nothing; says whether it went well."""
    try:
        call(*arguments)
    except DcgmError as error:
        if error.lost:
            raise
        return False
    return True
