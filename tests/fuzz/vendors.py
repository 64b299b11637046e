"""What vendor libraries say: NVML's answers through the whole sampler, and DCGM's values."""

import math
from collections.abc import Callable, Container
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from exporter import protocol
from exporter.model.readings import NvmlReading
from exporter.model.signals import Signal
from exporter.sensor.dcgm import reading as dcgm_reading
from exporter.sensor.dcgm import values as dcgm_values
from exporter.sensor.dcgm.entities import Place
from exporter.sensor.dcgm.values import Answer
from exporter.sensor.nvml import gpm, link_table, units
from exporter.sensor.nvml import library as nvml_library
from exporter.sensor.nvml.gpu import SampleOptions
from exporter.sensor.nvml.library import LOST, REFUSED, Caller, FieldAnswer, NvmlError
from exporter.sensor.nvml.sampler import Sampler
from exporter.sensor.nvml.table import TABLE
from tests.fuzz import hostile
from tests.fuzz.target import Target, demand

_UNITS = [unit for unit in vars(units).values() if isinstance(unit, units.Unit)]


def make_number(random: Random) -> tuple[int, Any, bytes]:
    """Make the number of a unit, a raw value for it, and a string of NVML's."""
    raw = random.choice((hostile.number, hostile.value))(random)
    stated = hostile.mutated(random, hostile.text(random).encode(), 2)
    return random.randrange(len(_UNITS)), raw, stated


def check_number(made: tuple[int, Any, bytes]) -> None:
    number, raw, stated = made
    unit = _UNITS[number]
    taken = unit.take(raw)
    if taken is not None:
        demand(math.isfinite(taken) and unit.lowest <= raw <= unit.highest, "not refused", taken)
        demand(isinstance(taken, float) == unit.real, "another type", taken)
        back = taken * unit.divide / unit.times
        near = abs(back - raw) <= max(unit.divide, 1e-9 * abs(raw))
        demand(near, "another value", taken)
    for given in (stated, stated.decode("utf-8", "replace")):
        text = units.text_of(given)
        demand(text is None or (text.isprintable() and len(text) <= 256), "a text", text)


# The whole sampler, over a library that says anything that its C types can hold.

_CODES = (1, 2, 3, 4, 6, 7, 9, 10, 15, 17, 18, 25, 26, 999, LOST, REFUSED)
"""nvmlReturn_t; 1, 9 and 18 mean that the library is of no use at all."""
_TEXTS = {
    "nvmlDeviceGetName": ("NVIDIA H100 80GB HBM3", "NVIDIA H100 MIG 1g.10gb"),
    "nvmlDeviceGetUUID": ("GPU-1", "GPU-2", "MIG-1"),
    "nvmlDeviceGetSerial": ("1652722012345",),
    "nvmlSystemGetDriverVersion": ("580.95.05",),
    "nvmlSystemGetNVMLVersion": ("13.580.95",),
    "nvmlDeviceGetVbiosVersion": ("96.00.89.00.01",),
    "nvmlDeviceGetInforomVersion": ("G520.0200.00.05",),
    "nvmlDeviceGetInforomImageVersion": ("G520.0200.00.05",),
}
_PAIRS = (
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetAutoBoostedClocksEnabled",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetPowerManagementLimitConstraints",
)
_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetProcessUtilization",
)
_MEMBERS = {
    "nvmlDeviceGetPciInfo": ("pciDeviceId", "pciSubSystemId"),
    "nvmlDeviceGetBAR1MemoryInfo": ("bar1Total", "bar1Used", "bar1Free"),
    "nvmlDeviceGetMemoryInfo_v2": ("total", "free", "used", "reserved"),
    "nvmlDeviceGetMemoryInfo": ("total", "free", "used"),
    "nvmlDeviceGetUtilizationRates": ("gpu", "memory"),
    "nvmlDeviceGetRowRemapperHistogram": ("max", "high", "partial", "low", "none"),
    "nvmlDeviceGetSramEccErrorStatus": ("bThresholdExceeded",),
    "nvmlDeviceGetViolationStatus": ("violationTime",),
    "nvmlDeviceGetGpuFabricInfoV": ("state", "status", "clique", "health_mask", "health_summary"),
}
_USUAL = {"nvmlDeviceGetMigMode": ((0, 0), (1, 1)), "nvmlGpmQueryDeviceSupport": (1,)}
_LINK_COUNT = nvml_library.number_of("NVML_FI_DEV_NVLINK_LINK_COUNT")
_REQUESTED = frozenset(
    (*TABLE, *link_table.LINK_FIELDS, *link_table.GPU_FIELDS, *gpm.METRICS, 230, 999_999)
)


class Library:
    """Answers every call of nvidia-ml-py with something that its type may hold."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - inputs must come again
        self._calm = self._random.choice((0.2, 0.9, 0.99, 1.0))
        # Now and then one number everywhere, as of a chip that answers the same to all.
        same = self._random.choice(hostile.WHOLE)
        self._same = same if self._random.randrange(3) == 0 else None

    def __call__(self, gpu: int, name: str, *arguments: Any) -> Any:
        del gpu
        if self._random.random() > self._calm:
            code = self._random.choice(_CODES)
            raise NvmlError(name, code, "as told")
        if name == "nvmlDeviceGetFieldValues":
            return [self._field(field) for field, _ in arguments[1]]
        if name == "nvmlGpmMetricsGet":
            return {metric: float(hostile.number(self._random)) for metric in arguments[2]}
        if name in _USUAL and self._random.random() < self._calm:
            return self._random.choice(_USUAL[name])
        return self._shaped(name)

    def _shaped(self, name: str) -> Any:
        for names, shape in _SHAPES:
            if name in names:
                return shape(self, name)
        return self._long()

    def text(self, name: str) -> str:
        return hostile.name(self._random, *_TEXTS[name])

    def pair(self, _name: str) -> tuple[int, int]:
        return self._word(), self._word()

    def listed(self, _name: str) -> list[SimpleNamespace]:
        return [self._process() for _ in range(self._random.randrange(3))]

    def rows(self, _name: str) -> tuple[int, ...]:
        return tuple(self._word() for _ in range(4))

    def count(self, _name: str) -> int:
        return self._random.randrange(4) if self._calm > 0.5 else self._long()

    def instance(self, _name: str) -> SimpleNamespace:
        place = SimpleNamespace(start=self._word(), size=self._word())
        return SimpleNamespace(profileId=self._word(), placement=place)

    def struct(self, name: str) -> SimpleNamespace:
        members: dict[str, Any] = {member: self._long() for member in _MEMBERS[name]}
        members["busId"] = hostile.name(self._random, "00000000:3B:00.0", "0000:3B:00.0")
        members["cluster_uuid"] = self._random.randbytes(16)
        return SimpleNamespace(**members)

    def _process(self) -> SimpleNamespace:
        names = ("pid", "gpuInstanceId", "computeInstanceId", "smUtil")
        words = {name: self._word() for name in names}
        memory = self._random.choice((None, self._long()))
        return SimpleNamespace(**words, usedGpuMemory=memory, timeStamp=self._long())

    def features(self, _name: str) -> SimpleNamespace:
        one = SimpleNamespace(featureState=self._word(), featureCode=self._random.randrange(3))
        return SimpleNamespace(
            isGridLicenseSupported=self._word(),
            licensableFeaturesCount=self._word(),
            gridLicensableFeatures=[one, one],
        )

    def _field(self, field: int) -> FieldAnswer:
        if self._random.random() > self._calm:
            return FieldAnswer(self._random.choice(_CODES))
        if field == _LINK_COUNT:
            return FieldAnswer(0, self._random.choice((0, 4, 18, 72, self._long())))
        kind = self._random.randrange(3)
        if kind == 0:
            return FieldAnswer(0, float(self._random.choice(hostile.REAL)))
        return FieldAnswer(0, self._random.randrange(200) if kind == 1 else self._long())

    def _word(self) -> int:
        return hostile.whole(self._random) & 0xFFFF_FFFF

    def _long(self) -> int:
        given = hostile.whole(self._random) if self._same is None else self._same
        return given & 0xFFFF_FFFF_FFFF_FFFF


_SHAPES: tuple[tuple[Container[str], Callable[[Library, str], Any]], ...] = (
    (_TEXTS, Library.text),
    (_PAIRS, Library.pair),
    (_LISTS, Library.listed),
    (_MEMBERS, Library.struct),
    (("nvmlDeviceGetRemappedRows",), Library.rows),
    (("nvmlDeviceGetGridLicensableFeatures",), Library.features),
    (("nvmlGpuInstanceGetInfo",), Library.instance),
    (("nvmlDeviceGetCount", "nvmlDeviceGetMaxMigDeviceCount"), Library.count),
)
"""What a call gives, by its name; one that is not here gives a number."""


def make_library(random: Random) -> tuple[int, int, bool]:
    """Make the seed of a library, how many passes it gets, and whether all is requested."""
    return random.getrandbits(32), random.randrange(1, 3), random.randrange(4) == 0


def check_library(made: tuple[int, int, bool]) -> None:
    seed, passes, everything = made
    sampler = Sampler(cast("Caller", Library(seed)))
    options = SampleOptions(_REQUESTED if everything else frozenset(TABLE))
    try:
        for number in range(passes):
            check_reading(sampler.sample(frozenset({7} if number else ()), options))
    except NvmlError as error:
        demand(error.reason, "a failure without a word", error)


def check_reading(reading: NvmlReading) -> None:
    """What goes over to the sensor: it travels, and what is in it makes sense."""
    frame = protocol.encode(protocol.Sampled(reading))
    demand(
        protocol.decode(frame[5:], protocol.from_child) == protocol.Sampled(reading),
        "it comes as another",
    )
    indices = [gpu.index for gpu in reading.gpus]
    demand(indices == sorted(set(indices)), "an index twice", indices)
    for gpu in reading.gpus:
        parts = [gpu.values, *(part.values for part in (*(gpu.instances or ()), *gpu.links))]
        for number, value in ((n, v) for found in parts for n, v in found.items()):
            demand(number in _REQUESTED, "a field that was not requested", number)
            if isinstance(value, str):
                demand(value and value.isprintable(), "a text", value)
            else:
                demand(math.isfinite(value) and -(2**63) <= value < 2**63, "a value", value)
        for stated in (gpu.uuid, gpu.serial, gpu.product, gpu.bus_id):
            demand(stated.isprintable() and len(stated) <= 256, "a name", stated)


# DCGM

_PLACES = {
    (1, 0): Place("GPU-1", "0000:01:00.0"),
    (4, 0): Place("GPU-1", "0000:01:00.0", gi=3),
    (6, 7): Place("GPU-1", "0000:01:00.0", link=7),
}
_BLANKS = (
    *(2**31 - 16 + more for more in range(16)),
    *(2**63 - 16 + more for more in range(16)),
    *(140737488355328.0, 140737488355330.0, -0.0),
    *(b"<<<NULL>>>", b"<<<NOT_SUPPORTED>>>", b"", b"\xff\xfe", b"580.95.05"),
)


def make_answers(random: Random) -> list[Answer]:
    makers: tuple[Callable[[], Any], ...] = (
        lambda: random.choice(_BLANKS),
        lambda: hostile.number(random),
        lambda: hostile.mutated(random, hostile.text(random).encode(), 1)[:256],
        lambda: None,
    )
    return [
        Answer(
            entity=random.choice((*_PLACES, (9, 9))),
            field=random.choice((150, 155, 230, 1001, 53, 65535)),
            status=random.choice((0, 0, 0, 0, -6, -15, -16, -18, 7)),
            type=random.choice("idstb\0"),
            at=hostile.whole(random) % 2**64 - 2**63,
            raw=random.choice(makers)(),
        )
        for _ in range(random.randrange(1, 5))
    ]


def check_answers(answers: list[Answer]) -> None:
    desired = frozenset((150, 155, 1001, 53))
    for answer in answers:
        _print(answer)
    for entity in dcgm_reading.entities_of(answers, dict(_PLACES), desired):
        demand(entity.values.keys() <= desired | {230}, "a field that was not requested", entity)
        place = Place(entity.uuid, "0000:01:00.0", "", entity.gi, entity.ci, entity.link)
        of = [answer for answer in answers if _PLACES.get(answer.entity) == place]
        reported = {(answer.field, dcgm_values.value_of(answer)) for answer in of}
        demand(set(entity.values.items()) <= reported, "another entity's value", entity)
    signals = dcgm_reading.signals_of(answers, dict(_PLACES))
    demand(all(0 < signal.code <= 0xFFFFFFFF for signal in signals), "a code that is none", signals)
    for signal in signals:
        frame = protocol.encode(protocol.Happened(signal))
        received: Any = protocol.decode(frame[5:], protocol.from_child)
        demand(
            isinstance(received.signal, Signal) and received.signal == signal, "another", received
        )
    dcgm_reading.never_watched(answers)
    dcgm_reading.all_blank(answers)


def _print(answer: Answer) -> None:
    value = dcgm_values.value_of(answer)
    if value is None:
        return
    demand(answer.status == 0, "a value with a status", answer)
    if isinstance(value, str):
        demand(value and not value.startswith("<<<N"), "a blank", answer)
    elif isinstance(value, float):
        demand(math.isfinite(value) and value < 140737488355328.0, "a blank", answer)
    else:
        blank = 2**31 - 16 <= value <= 2**31 - 1 or value >= 2**63 - 16
        demand(not blank, "a blank", answer)


TARGETS = (
    Target("nvml-number", 60, make_number, check_number),
    Target("nvml-library", 10, make_library, check_library),
    Target("dcgm-values", 40, make_answers, check_answers),
)
