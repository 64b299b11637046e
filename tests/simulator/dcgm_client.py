"""A process that calls a simulated node's libdcgm by plain ctypes, line by line."""

import ctypes
import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from simulator.dcgm_engine import SimulatedDcgm
from tests.simulator.dcgm_layouts import STRUCTS, new
from tests.simulator.line_client import AnswerError, LineClient

GPU, GI, CI, LINK, CPU = 1, 4, 5, 6, 7
ALL_GPUS, ALL_GI, ALL_CI, EVERYTHING = 0x7FFFFFFF, 0x7FFFFFFD, 0x7FFFFFFC, 0x7FFFFFFB
BLANK = 0x7FFFFFFFFFFFFFF0
NOT_FOUND, NOT_SUPPORTED = BLANK + 1, BLANK + 2


class Calls:
    """What a line may say in the client process: DCGM's calls with Python's values."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libdcgm.so.4")
        self.names = 0

    def raw(self, name: str, *arguments: Any) -> None:
        """Call it; raises AnswerError unless it answers 0."""
        answer = getattr(self.library, name)(*arguments)
        if answer != 0:
            raise AnswerError(answer)

    def init(self) -> None:
        self.raw("dcgmInit")

    def embedded(self, mode: int = 1, struct: str = "dcgmStartEmbeddedV2Params_v3") -> Any:
        parameters = new(struct, opMode=mode)
        self.raw("dcgmStartEmbedded_v2", ctypes.byref(parameters))
        return ctypes.c_void_p(parameters.dcgmHandle)

    def connect(self, address: str, *, unix: bool = False, timeout_ms: int = 1000) -> Any:
        handle = ctypes.c_void_p()
        parameters = new("dcgmConnectV2Params_v2", timeoutMs=timeout_ms, addressIsUnixSocket=unix)
        self.raw("dcgmConnect_v2", address.encode(), ctypes.byref(parameters), ctypes.byref(handle))
        return handle

    def entities(self, handle: Any, kind: int, flags: int = 0) -> list[int]:
        found, count = (ctypes.c_uint * 1024)(), ctypes.c_int(1024)
        self.raw("dcgmGetEntityGroupEntities", handle, kind, found, ctypes.byref(count), flags)
        return list(found[: count.value])

    def status(self, handle: Any, gpu: int) -> int:
        status = ctypes.c_uint()
        self.raw("dcgmGetGpuStatus", handle, gpu, ctypes.byref(status))
        return status.value

    def group(self, handle: Any, *pairs: tuple[int, int], kind: int = 1) -> Any:
        """A new group of these entities, or with `kind` one of DCGM's own."""
        self.names += 1
        group = ctypes.c_void_p()
        name = f"group{self.names}".encode()
        self.raw("dcgmGroupCreate", handle, kind, name, ctypes.byref(group))
        for entity_kind, entity in pairs:
            self.raw("dcgmGroupAddEntity", handle, group, entity_kind, entity)
        return group

    def members(self, handle: Any, group: Any) -> list[list[int]]:
        info = new("dcgmGroupInfo_v3")
        self.raw("dcgmGroupGetInfo", handle, group, ctypes.byref(info))
        return [[entity.entityGroupId, entity.entityId] for entity in info.entityList[: info.count]]

    def fields(self, handle: Any, *ids: int) -> Any:
        self.names += 1
        group, array = ctypes.c_void_p(), (ctypes.c_ushort * len(ids))(*ids)
        name = f"fields{self.names}".encode()
        self.raw("dcgmFieldGroupCreate", handle, len(ids), array, name, ctypes.byref(group))
        return group

    def watch(
        self, handle: Any, group: Any, fields: Any, every: int = 0, keep: float = 600.0
    ) -> None:
        group = ctypes.c_void_p(group) if isinstance(group, int) else group
        self.raw(
            "dcgmWatchFields", handle, group, fields, ctypes.c_longlong(every),
            ctypes.c_double(keep), 0,
        )  # fmt: skip

    def watched(self, handle: Any, pairs: list[tuple[int, int]], *ids: int) -> None:
        """Watch these fields of these entities, and let the engine sample them."""
        self.watch(handle, self.group(handle, *pairs), self.fields(handle, *ids))
        self.update(handle)

    def update(self, handle: Any) -> None:
        self.raw("dcgmUpdateAllFields", handle, 1)

    def latest(self, handle: Any, kind: int, entity: int, *ids: int) -> list[dict[str, Any]]:
        values = (STRUCTS["dcgmFieldValue_v1"] * len(ids))()
        array = (ctypes.c_ushort * len(ids))(*ids)
        self.raw("dcgmEntityGetLatestValues", handle, kind, entity, array, len(ids), values)
        return [plain(value) for value in values]

    def value(self, handle: Any, kind: int, entity: int, field: int) -> Any:
        return self.latest(handle, kind, entity, field)[0]["value"]

    def many(
        self, handle: Any, pairs: list[tuple[int, int]], ids: list[int], flags: int = 0
    ) -> list[dict[str, Any]]:
        entities = (STRUCTS["dcgmGroupEntityPair_t"] * len(pairs))(*pairs)
        array = (ctypes.c_ushort * len(ids))(*ids)
        values = (STRUCTS["dcgmFieldValue_v2"] * (len(ids) * len(pairs)))()
        self.raw(
            "dcgmEntitiesGetLatestValues", handle, entities, len(pairs), array, len(ids), flags,
            values,
        )  # fmt: skip
        return [
            {**plain(value), "entity": [value.entityGroupId, value.entityId]} for value in values
        ]

    def history(self, handle: Any, gpu: int, field: int, order: int = 1) -> list[Any]:
        count = ctypes.c_int(100)
        values = (STRUCTS["dcgmFieldValue_v1"] * 100)()
        zero = ctypes.c_longlong(0)
        self.raw(
            "dcgmGetMultipleValuesForField", handle, gpu, ctypes.c_ushort(field),
            ctypes.byref(count), zero, zero, order, values,
        )  # fmt: skip
        return [plain(value)["value"] for value in values[: count.value]]

    def since(self, handle: Any, group: Any, fields: Any, time: int = 0) -> list[Any]:
        """The time to ask from next, and [kind, entity, field, value] of what came."""
        found: list[Any] = []
        value = STRUCTS["dcgmFieldValue_v1"]

        def collect(kind: int, entity: int, values: Any, count: int, _data: Any) -> int:
            found.extend(
                [kind, entity, item.fieldId, plain(item)["value"]] for item in values[:count]
            )
            return 0

        callback = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_uint, ctypes.c_uint, ctypes.POINTER(value), ctypes.c_int,  # pyright: ignore[reportUnknownArgumentType] - ctypes does not say
            ctypes.c_void_p,
        )(collect)  # fmt: skip
        following = ctypes.c_longlong()
        self.raw(
            "dcgmGetValuesSince_v2", handle, group, fields, ctypes.c_longlong(time),
            ctypes.byref(following), callback, None,
        )  # fmt: skip
        return [following.value, found]

    def hierarchy(self, handle: Any) -> list[dict[str, Any]]:
        found = new("dcgmMigHierarchy_v2")
        self.raw("dcgmGetGpuInstanceHierarchy", handle, ctypes.byref(found))
        return [plain(entry) for entry in found.entityList[: found.count]]

    def link_states(self, handle: Any) -> list[list[int]]:
        """The states of all links, by GPU."""
        found = new("dcgmNvLinkStatus_v4")
        self.raw("dcgmGetNvLinkLinkStatus", handle, ctypes.byref(found))
        return [list(gpu.linkState) for gpu in found.gpus[: found.numGpus]]

    def switch_states(self, handle: Any) -> dict[int, list[int]]:
        """The states of all links, by NVSwitch."""
        found = new("dcgmNvLinkStatus_v4")
        self.raw("dcgmGetNvLinkLinkStatus", handle, ctypes.byref(found))
        return {
            switch.entityId: list(switch.linkState)
            for switch in found.nvSwitches[: found.numNvSwitches]
        }

    def cpus(self, handle: Any, version: int = 2) -> list[Any]:
        """[number, cores, serial number] of each CPU."""
        found = new(f"dcgmCpuHierarchy_v{version}")
        name = "dcgmGetCpuHierarchy" + ("_v2" if version == 2 else "")
        self.raw(name, handle, ctypes.byref(found))
        return [
            [
                cpu.cpuId,
                [
                    core
                    for core in range(1024)
                    if cpu.ownedCores.bitmask[core // 64] >> core % 64 & 1
                ],
                cpu.serial.decode() if version == 2 else "",
            ]
            for cpu in found.cpus[: found.numCpus]
        ]

    def health(self, handle: Any, group: int, systems: int | None = None) -> list[Any]:
        """Overall health and the incidents; with `systems`, these are watched first."""
        if systems is not None:
            desired = new("dcgmHealthSetParams_v2", groupId=group, systems=systems)
            self.raw("dcgmHealthSet_v2", handle, ctypes.byref(desired))
        answer = new("dcgmHealthResponse_v5")
        self.raw("dcgmHealthCheck", handle, ctypes.c_void_p(group), ctypes.byref(answer))
        incidents = [plain(incident) for incident in answer.incidents[: answer.incidentCount]]
        return [answer.overallHealth, incidents]


def plain(value: Any) -> Any:
    """Turn a struct into what JSON can say; a field value by its type letter."""
    if hasattr(value, "fieldType") and hasattr(value, "status"):
        kind = {ord("d"): "dbl", ord("s"): "str"}.get(value.fieldType, "i64")
        read = plain(getattr(value.value, kind))
        return {"field": value.fieldId, "status": value.status, "ts": value.ts, "value": read}
    if isinstance(value, ctypes.Structure):
        return {name: plain(getattr(value, name)) for name, *_ in type(value)._fields_}
    if isinstance(value, ctypes.Array):
        return [plain(element) for element in value]
    if isinstance(value, ctypes.c_void_p):
        return value.value
    return value.decode() if isinstance(value, bytes) else value


def serve() -> None:
    """Answer each line of stdin: an expression or statement over `Calls`."""
    calls = Calls()
    names = {"c": calls, "new": new, "byref": ctypes.byref, "plain": plain, "ctypes": ctypes}
    names |= {name: getattr(calls, name) for name in dir(calls) if not name.startswith("_")}
    for line in sys.stdin:
        try:
            answer = {"value": plain(_run(line.strip(), names))}
        except AnswerError as error:
            answer = {"dcgm": error.code}
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is to see it
            answer = {"bug": repr(error)}
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer's way


def _run(line: str, names: dict[str, Any]) -> Any:
    try:
        code = compile(line, "line", "eval")
    except SyntaxError:
        exec(compile(line, "line", "exec"), names)  # noqa: S102 - the test's own line
        return None
    return eval(code, names)  # noqa: S307 - the test's own line


class DcgmClient(LineClient):
    """Asks lines over `Calls`."""

    refused = "dcgm"

    def __init__(self, dcgm: SimulatedDcgm) -> None:
        program = "from tests.simulator.dcgm_client import serve; serve()"
        super().__init__(program, dcgm.environment())

    def stderr_after_end(self) -> str:
        """End the process in peace and return what it wrote to stderr."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None
        return self._process.communicate(timeout=60)[1].decode()


@contextmanager
def with_engine(dcgm: SimulatedDcgm) -> Generator[DcgmClient]:
    """A process with an embedded engine, `h` its handle."""
    with DcgmClient(dcgm) as client:
        client.ask("init()")
        client.ask("h = embedded()")
        yield client
