"""One pass over all GPUs of a node, and who they are.

A GPU is known by its UUID, which is queried again in every pass: after a GPU went
or came, the same index is another one. What a dying GPU cannot tell any more is
remembered from when it could. A GPU that takes too long is named, and not read.
"""

import time
from collections import Counter
from typing import Any

import msgspec

from exporter.model.device import normal_bus_id
from exporter.model.readings import CallNote, GpuReading, NvmlReading, PeerReading
from exporter.sensor.nvml.budget import Budget
from exporter.sensor.nvml.fields import Fields, Lacking, Tally
from exporter.sensor.nvml.gpu import GpuReader, Known, SampleOptions
from exporter.sensor.nvml.library import NO_GPU, OPENING, REFUSED, Caller, NvmlError
from exporter.sensor.nvml.table import TABLE
from exporter.sensor.nvml.units import text_of
from kubeapi import clock

_MOST_GPUS = 256
_TRIES = 3
"""Passes begun anew because GPUs came or went meanwhile."""
_NAME, _SERIAL, _MINOR, _BUS_ID = 50, 53, 55, 57
"""DCGM ids."""
_NVLINK = 2
"""NVML_P2P_CAPS_INDEX_NVLINK."""


class Facts(msgspec.Struct, frozen=True):
    """What never changes about a GPU while the driver is loaded."""

    uuid: str
    bus_id: str
    serial: str
    minor: int | None
    product: str
    whole: bool = True
    """Whether nothing but what the GPU does not have is missing."""

    @property
    def key(self) -> str:
        """What is remembered is kept by this: two boards may say one UUID, never one address."""
        return f"{self.uuid} {self.bus_id}"


class _Pass:
    """The readings of one pass, and the handles they are from."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.live: dict[int, GpuReading] = {}
        self.silent: dict[int, GpuReading] = {}
        """GPUs that did not say who they are, with what they said before."""
        self.unidentified: set[int] = set()
        """GPUs of which that is not known either: each may be any that is missed."""
        self.unreachable: set[int] = set()
        """GPUs that the driver cannot open, and of which nothing is known."""
        self.handles: dict[int, Any] = {}


class Sampler:
    """Reads the state of all GPUs."""

    def __init__(self, call: Caller) -> None:
        self._call = self._budget = Budget(call)
        self._tally = Tally()
        self._reader = GpuReader(self._call, self._tally)
        self._facts: dict[int, Facts] = {}
        self._known: dict[str, Known] = {}
        self._peers: dict[int, tuple[PeerReading, ...]] = {}
        self._peers_of: tuple[str, ...] = ()
        self._count = -1
        self._driver = ""
        self.handles: dict[int, Any] = {}
        """NVML handle by index, of the GPUs that gave one at the last `sample`."""

    def open(self) -> None:
        """Load and initialise the library; raises NvmlError."""
        self._call(NO_GPU, "nvmlInit")
        self._driver = text_of(self._call(NO_GPU, "nvmlSystemGetDriverVersion")) or ""

    def sample(
        self,
        skip: frozenset[int],
        options: SampleOptions | None = None,
        gpu_seconds: float | None = None,
    ) -> NvmlReading:
        """Read every GPU but those in `skip`; raises NvmlError when the library is of no use.

        The calls about one GPU may take `gpu_seconds` together.
        """
        begun, booted_at, started = clock.now(), clock.boot_time(), time.perf_counter()
        self._budget.begin(gpu_seconds)
        found = self._pass(skip, options or SampleOptions())
        for _ in range(_TRIES - 1):
            if found.count == self._count_gpus():
                break
            found = self._pass(skip, options or SampleOptions())
        self._leave_overdue(found)
        # Which GPUs reach each other is queried once for each set of GPUs.
        present = sorted(index for index, gpu in found.live.items() if not gpu.lost)
        uuids = tuple(found.live[index].uuid for index in present)
        if uuids != self._peers_of:
            self._peers_of = uuids
            self._peers = {index: self._peers_at(index, present, found) for index in present}
        self._leave_overdue(found)
        self.handles = found.handles
        # Of GPUs that are gone nothing is remembered.
        there = (*found.live, *found.silent, *skip)
        keys = {facts.key for index, facts in self._facts.items() if index in there}
        self._known = {key: known for key, known in self._known.items() if key in keys}
        self._reader.end_pass(keys)
        return NvmlReading(
            at=begun,
            booted_at=booted_at,
            driver_version=self._driver,
            gpus=self._with_peers(found),
            refused=self._tally.refused,
            took=time.perf_counter() - started,
            listed=found.count,
            unidentified=_unidentified(found),
        )

    def overdue(self) -> tuple[CallNote, ...]:
        """Return the GPUs that took too long at the last `sample`, with their last call."""
        return tuple(self._budget.overdue.values())

    def uuid_of(self, index: int) -> tuple[str, str]:
        """Return (UUID, bus id) of a GPU by what it said when it last could."""
        facts = self._facts.get(index)
        return (facts.uuid, facts.bus_id) if facts else ("", "")

    def _count_gpus(self) -> int:
        return min(int(self._call(NO_GPU, "nvmlDeviceGetCount")), _MOST_GPUS)

    def _pass(self, skip: frozenset[int], options: SampleOptions) -> _Pass:
        found = _Pass(self._count_gpus())
        if found.count != self._count:
            # Indices mean other GPUs now: an earlier answer at one does not identify its GPU.
            self._facts = {}
            self._count = found.count
        for index in range(found.count):
            if index in skip:
                found.unidentified.add(index)
            else:
                self._gpu(index, options, found)
        return found

    def _gpu(self, index: int, options: SampleOptions, found: _Pass) -> None:
        try:
            handle = self._call(index, OPENING, index)
            facts = self._identify(index, handle)
        except NvmlError as error:
            if error.useless:
                raise
            self._tally.refused += error.refused
            facts = self._facts.get(index)
            # A GPU that never said who it is cannot be told from others.
            if facts is not None:
                found.silent[index] = _with(facts, index, lost=error.lost, error=str(error))
            elif error.unreachable:
                found.unreachable.add(index)
            elif not error.lost:
                found.unidentified.add(index)
            return
        found.handles[index] = handle
        known = self._known.get(facts.key) or self._reader.begin()
        self._known[facts.key] = known
        fields = self._reader.read(index, facts.key, handle, known, options)
        found.live[index] = _with(facts, index, **fields)

    def _leave_overdue(self, found: _Pass) -> None:
        """Keep only the identity of GPUs that took too long: half a reading would look complete."""
        for index, note in self._budget.overdue.items():
            found.live.pop(index, None)
            facts = self._facts.get(index)
            if facts is None:
                found.unidentified.add(index)
            else:
                found.silent[index] = _with(facts, index, hung_call=note.call)

    def _identify(self, index: int, handle: Any) -> Facts:
        uuid = text_of(self._call(index, "nvmlDeviceGetUUID", handle))
        if not uuid:
            raise NvmlError("nvmlDeviceGetUUID", REFUSED, "an answer that cannot be read")
        known = self._facts.get(index)
        if known is None or known.uuid != uuid:
            known = Facts(uuid, "", "", None, "", whole=False)
        if not known.whole:
            fields = Fields(self._call, index, handle, Lacking(), self._tally)
            known = self._facts[index] = _introduced(known, fields)
        return known

    def _with_peers(self, found: _Pass) -> tuple[GpuReading, ...]:
        live = {reading.uuid for reading in found.live.values()}
        # A GPU that moved to another index answers there: what its old place said is stale.
        unanswered = {i: reading for i, reading in found.silent.items() if reading.uuid not in live}
        gpus = tuple(reading for _, reading in sorted((found.live | unanswered).items()))
        gpus = tuple(
            msgspec.structs.replace(gpu, peers=self._peers.get(gpu.index, ())) for gpu in gpus
        )
        return _doubted(gpus)

    def _peers_at(self, index: int, present: list[int], found: _Pass) -> tuple[PeerReading, ...]:
        handle = found.handles[index]
        fields = Fields(self._call, index, handle, Lacking(), self._tally)
        statuses = {
            peer: fields.ask("nvmlDeviceGetP2PStatus", handle, found.handles[peer], _NVLINK)
            for peer in present
            if peer != index
        }
        if fields.lost or fields.error:
            # What was not reported now may be reported in the next pass.
            self._peers_of = ()
        return tuple(PeerReading(peer, int(s)) for peer, s in statuses.items() if s is not None)


def _introduced(before: Facts, fields: Fields) -> Facts:
    """Return the facts with what the GPU says now; what it does not say now stays."""
    bus_id = normal_bus_id(_text(fields, _BUS_ID)) or before.bus_id
    serial = _text(fields, _SERIAL) or before.serial
    minor = fields.whole(TABLE[_MINOR])
    product = _text(fields, _NAME) or before.product
    whole = bool(bus_id) and not fields.lost and not fields.error
    minor = before.minor if minor is None else minor
    return Facts(before.uuid, bus_id, serial, minor, product, whole)


def _text(fields: Fields, number: int) -> str:
    return str(fields.value(TABLE[number]) or "")


def _with(facts: Facts, index: int, **fields: Any) -> GpuReading:
    who = msgspec.structs.asdict(facts)
    del who["whole"]
    return GpuReading(index=index, **who, **fields)


def _unidentified(found: _Pass) -> int:
    """Count the GPUs that may be one that is missed: of two under one UUID one may be it, too.

    Where none can be opened, that is no GPU's own fault.
    """
    unknown = found.unidentified | (set[int]() if found.live else found.unreachable)
    uuids = [gpu.uuid for gpu in (*found.live.values(), *found.silent.values())]
    return len(unknown) + len(uuids) - len(set(uuids))


def _doubted(gpus: tuple[GpuReading, ...]) -> tuple[GpuReading, ...]:
    """Mark GPUs that say the same UUID: neither can be told from the other."""
    times = Counter(gpu.uuid for gpu in gpus)
    return tuple(
        gpu
        if times[gpu.uuid] == 1
        else msgspec.structs.replace(
            gpu,
            error=f"{times[gpu.uuid]} GPUs say the UUID {gpu.uuid}; this one is at "
            f"{gpu.bus_id or 'an unknown address'}. Reload the driver, and replace the board if it "
            "stays so",
        )
        for gpu in gpus
    )
