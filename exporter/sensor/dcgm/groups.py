"""Groups of entities at an engine of DCGM: watches of fields and their values, and of health."""

import ctypes
from collections.abc import Sequence
from typing import Any

import msgspec

from exporter.sensor.dcgm import abi
from exporter.sensor.dcgm.library import Library
from exporter.sensor.dcgm.values import Answer, Entity, text_of

_VALUES_AT_ONCE = 256
"""Each takes 4128 bytes; the buffer is kept, so this bounds the memory."""


class IncidentInfo(msgspec.Struct, frozen=True):
    """One incident of a health check, in DCGM's numbers (dcgmIncidentInfo_t)."""

    entity: Entity
    system: int
    health: int
    code: int
    message: str
    severity: int | None = None
    """dcgmErrorSeverity_t of the code, None where this library does not say."""
    category: int | None = None
    """dcgmErrorCategory_t of the code, likewise."""


class Groups:
    """The engine keeps what is made here; every call may raise DcgmError."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._values = (abi.FieldValueV2 * _VALUES_AT_ONCE)()

    def create_group(self, name: str) -> int:
        group = ctypes.c_size_t()
        self._library.ask("dcgmGroupCreate", abi.GROUP_EMPTY, name.encode(), ctypes.byref(group))
        return group.value

    def add_entity(self, group: int, kind: int, entity: int) -> None:
        self._library.ask("dcgmGroupAddEntity", group, kind, entity)

    def destroy_group(self, group: int) -> None:
        self._library.ask("dcgmGroupDestroy", group)

    def create_field_group(self, name: str, fields: Sequence[int]) -> int:
        """Make a group of at most `abi.MAX_FIELDS` fields; their names are all of the engine's."""
        ids, group = (ctypes.c_ushort * len(fields))(*fields), ctypes.c_size_t()
        made = ctypes.byref(group)
        self._library.ask("dcgmFieldGroupCreate", len(fields), ids, name.encode(), made)
        return group.value

    def destroy_field_group(self, fields: int) -> None:
        self._library.ask("dcgmFieldGroupDestroy", fields)

    def watch(self, group: int, fields: int, *, every: float, keep: float) -> None:
        """Have fields read every `every` seconds and their history kept for `keep` seconds."""
        self._library.ask("dcgmWatchFields", group, fields, int(every * 1_000_000), keep, 0)

    def unwatch(self, group: int, fields: int) -> None:
        self._library.ask("dcgmUnwatchFields", group, fields)

    def update_all(self) -> None:
        """Have the engine read what is due, and wait for it."""
        self._library.ask("dcgmUpdateAllFields", 1)

    def latest(self, entities: Sequence[Entity], fields: Sequence[int]) -> list[Answer]:
        """Return the cached value of every field (`abi.MAX_FIELDS` at most) of every entity.

        Never a live read: that fails as a whole when field 230 is among the
        fields, and ends nv-hostengine for a profiling field.
        """
        step = max(1, _VALUES_AT_ONCE // max(1, len(fields)))
        starts = range(0, len(entities), step) if fields else ()
        parts = [self._latest(entities[at : at + step], fields) for at in starts]
        return [answer for part in parts for answer in part]

    def _latest(self, entities: Sequence[Entity], fields: Sequence[int]) -> list[Answer]:
        pairs = (abi.EntityPair * len(entities))(*entities)
        ids = (ctypes.c_ushort * len(fields))(*fields)
        sizes = len(entities), len(fields)
        name = "dcgmEntitiesGetLatestValues"
        self._library.ask(name, pairs, sizes[0], ids, sizes[1], 0, self._values)
        return [
            _answer((value.kind, value.entity_id), value)
            for value in self._values[: sizes[0] * sizes[1]]
        ]

    def since(self, group: int, fields: int, at: int) -> tuple[list[Answer], int]:
        """Return the history from `at` (microseconds since 1970), and where to go on."""
        received: list[Answer] = []

        def hear(kind: int, entity: int, values: Any, count: int, _data: int | None) -> int:
            received.extend(_answer((kind, entity), value) for value in values[: max(0, count)])
            return 0

        onward, callback = ctypes.c_longlong(at), abi.HISTORY_CALLBACK(hear)
        where = ctypes.byref(onward)
        self._library.ask("dcgmGetValuesSince_v2", group, fields, at, where, callback, None)
        return received, max(at, onward.value)

    def watch_health(self, group: int, systems: int, *, every: float, keep: float) -> None:
        """Watch these systems (dcgmHealthSystems_t, bits) of a group's GPUs and no other."""
        micros = int(every * 1_000_000)
        params = abi.HealthSetParams(abi.HEALTH_SET_VERSION, group, systems, micros, keep)
        self._library.ask("dcgmHealthSet_v2", ctypes.byref(params))

    def health_watches(self, group: int) -> int:
        """Return which systems of a group are watched (dcgmHealthSystems_t, bits)."""
        systems = ctypes.c_uint()
        self._library.ask("dcgmHealthGet", group, ctypes.byref(systems))
        return systems.value

    def check_health(self, group: int) -> list[IncidentInfo]:
        answer = abi.HealthResponse(abi.HEALTH_RESPONSE_VERSION)
        self._library.ask("dcgmHealthCheck", group, ctypes.byref(answer))
        return [self._incident(incident) for incident in answer.incidents[: answer.count]]

    def _incident(self, incident: Any) -> IncidentInfo:
        code = incident.error.code
        return IncidentInfo(
            (incident.entity.kind, incident.entity.id),
            incident.system,
            incident.health,
            code,
            text_of(incident.error.message),
            self._library.look_up("dcgmErrorGetPriorityByCode", code),
            self._library.look_up("dcgmErrorGetCategoryByCode", code),
        )


def _answer(entity: Entity, value: Any) -> Answer:
    kind = chr(value.field_type) if value.field_type < 128 else ""
    raw: int | float | bytes | None = None
    if kind in (abi.INT64, abi.TIMESTAMP):
        raw = value.value.i64
    elif kind == abi.DOUBLE:
        raw = value.value.dbl
    elif kind == abi.STRING:
        raw = value.value.str
    return Answer(entity, value.field_id, value.status, kind, value.ts, raw)
