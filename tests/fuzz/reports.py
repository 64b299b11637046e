"""The report through any sequence: news from kernel, NVML and DCGM, readings, agent restarts.

A sequence comes through the same doors as on a node: kernel lines are understood, signals are
paired and numbered, readings may say anything that a vendor child could have sent.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from exporter import protocol
from exporter.agent.report import ledger, outline
from exporter.agent.report.ledger import Published
from exporter.model.node_health import NodeDeviceHealth, NodeHealth, SourceHealth
from exporter.model.readings import (
    FabricReading,
    GpuReading,
    LinkReading,
    MigReading,
    NvmlReading,
    Observation,
)
from exporter.model.signals import Signal
from exporter.model.xid_dedup import Dedup
from exporter.sensor.dcgm import reading as dcgm_reading
from exporter.sensor.dcgm.entities import Place
from exporter.sensor.dcgm.values import Answer
from exporter.sensor.kernel_log import driver_lines
from exporter.sensor.ring import Ring
from kubeapi.types import ObjectMeta
from tests.fuzz import hostile, kernel_lines
from tests.fuzz.target import Target, demand

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
BUSES = tuple(f"0000:{number:02x}:00.0" for number in range(4))

Storm = tuple[int, int, range]
"""How many codes come on how many instances of which GPUs."""
WIDE = '"\u4e2d' * 80
"""In JSON every second mark is escaped, the others take three bytes."""
Step = tuple[str, Any]
"""What happens, and with what."""


def make_sequence(random: Random) -> list[Step]:
    names = random.choices(list(_MAKERS), k=random.randrange(12))
    sequence = [(name, _MAKERS[name](random)) for name in names]
    if random.randrange(100) == 0:
        # More than there is room for, under bus ids that get their names afterwards.
        flood: list[Step] = [("storm", (37, 7, range(8)))]
        named = [("event", _event(random)) for _ in range(random.randrange(5))]
        return [*flood, *named, *sequence, ("look", _look(random))]
    return sequence


def _kernel(random: Random) -> bytes:
    micros = random.choice((hostile.whole(random) % 2**64, random.randrange(10**10)))
    bus = random.choice(BUSES)
    code = random.choice((13, 31, 43, 45, 48, 63, 79, 94, 95, 119, 154, random.randrange(1024)))
    place = random.choice(("", "", " GPU-I:03", " GPU-I:03 GPU-CI:00"))
    stated = random.choice(
        (
            f"NVRM: Xid (PCI:{bus}{place}): {code}, pid=7, name=train, {hostile.text(random)}",
            f"NVRM: Xid (PCI:{bus}{place}): 154, GPU recovery action changed from 0x0 (None) to "
            "0x1 (GPU Reset Required)",
            f"NVRM: GPU {bus}: GPU has fallen off the bus.",
            f"nvidia-nvswitch0: SXid (PCI:{bus}): {10_000 + code}, Fatal, Link 3 x",
            f"NVRM: GPU at PCI:{bus[:-2]}: GPU-2fa81118-6e43-4f7c-9a3f-6d0a3cf5f5a{code % 10}",
            random.choice(kernel_lines.REAL_LINES),
        )
    )
    line = (
        hostile.mutated(random, stated.encode(), 1) if random.randrange(4) == 0 else stated.encode()
    )
    return b"4,%d,%d,-;" % (random.randrange(10**6), micros) + line


def _event(random: Random) -> tuple[float, int, int, int | None, int | None]:
    gi, ci = random.choice(((None, None), (3, 0), (3, None), (5, 0)))
    code = random.choice((13, 48, 79, 94, random.randrange(2000)))
    return random.choice((0.0, 0.5, 4.0, 3600.0, -60.0)), random.randrange(4), code, gi, ci


def _from_dcgm(random: Random) -> tuple[int, int]:
    return hostile.whole(random) % 2**64 - 2**63, random.choice((79, 94, 48))


def _look(random: Random) -> tuple[float, tuple[GpuReading, ...], tuple[str, ...] | None]:
    gpus = tuple(_gpu(random, index) for index in range(random.randrange(5)))
    buses = random.choice((None, (), BUSES, BUSES[:1], tuple(hostile.text(random) for _ in "ab")))
    return random.choice((0.0, 1.0, 61.0, 3600.0, -3600.0)), gpus, buses


def _gpu(random: Random, index: int) -> GpuReading:
    parts = tuple(
        MigReading(
            uuid=hostile.name(random, f"MIG-{index}-{gi}"),
            gi=gi,
            ci=0,
            profile=hostile.name(random, "1g.10gb"),
            gi_profile_id=hostile.whole(random),
        )
        for gi in range(random.choice((0, 0, 2, 8)))
    )
    number = hostile.whole
    return GpuReading(
        index=index,
        uuid=hostile.name(random, f"GPU-{index}", f"GPU-{index}", "GPU-0"),
        bus_id=random.choice((BUSES[index % 4], "")),
        serial=hostile.text(random),
        minor=number(random),
        product=hostile.text(random),
        mig=random.choice((None, bool(parts))),
        slowdown=number(random),
        links=tuple(LinkReading(link=number(random), up=bool(link)) for link in range(3)),
        fabric=FabricReading(state=3, status=number(random), cluster_uuid=hostile.text(random)),
        recovery_supported=random.choice((None, True, False)),
        recovery_action=random.choice((None, 0, 1, number(random))),
        dbe_volatile=number(random),
        remap_pending=random.choice((None, True, False)),
        instances=parts or None,
        lost=random.randrange(6) == 0,
        hung_call=random.choice(("", "", "nvmlDeviceGetName")),
        released=random.randrange(8) == 0,
        error=hostile.text(random),
    )


def _storm(random: Random) -> Storm:
    return random.randrange(1, 20), random.randrange(1, 8), range(random.randrange(3))


def _restart(random: Random) -> bytes | None:
    """What the stored report was changed into meanwhile, by a seed; None: nothing."""
    return random.randbytes(4) if random.randrange(8) == 0 else None


_MAKERS: dict[str, Callable[[Random], Any]] = {
    "kernel": _kernel,
    "event": _event,
    "dcgm": _from_dcgm,
    "look": _look,
    "blind": hostile.text,
    "storm": _storm,
    "restart": _restart,
}


class Node:
    """A sensor that goes on, and an agent whose state is its report alone."""

    def __init__(self) -> None:
        self.report = ledger.begin("boot-1", "1", START)
        self.foreign = False
        """Whether the stored report was changed by somebody else."""
        self._ring = Ring("run-1", "boot-1")
        self._dedup = Dedup()
        self._now = START

    def kernel(self, raw: bytes) -> None:
        try:
            record = driver_lines.split(raw)
            signal = driver_lines.understand(record, START)
        except driver_lines.Rejected:
            return
        if signal is not None:
            self._take([signal], record.sequence)

    def event(self, made: tuple[float, int, int, int | None, int | None]) -> None:
        seconds, index, code, gi, ci = made
        self._now += timedelta(seconds=seconds)
        signal = Signal(
            kind="xid", source="nvml", at=self._now, uuid=f"GPU-{index}", code=code, gi=gi, ci=ci
        )
        self._take([msgspec.structs.replace(signal, bus_id=BUSES[index])], None)

    def dcgm(self, made: tuple[int, int]) -> None:
        at, code = made
        answer = Answer(entity=(1, 0), field=230, status=0, type="i", at=at, raw=code)
        self._take(dcgm_reading.signals_of([answer], {(1, 0): Place("GPU-0", BUSES[0])}), None)

    def storm(self, made: Storm) -> None:
        codes, instances, gpus = made
        places = [
            (gpu, code, gi) for gpu in gpus for code in range(codes) for gi in range(instances)
        ]
        signal = Signal(kind="xid", source="nvml", at=self._now, message=WIDE)
        self._take(
            [
                msgspec.structs.replace(signal, bus_id=f"0000:{gpu:02x}:00.0", code=code, gi=gi)
                for gpu, code, gi in places
            ],
            None,
        )

    def look(self, made: tuple[float, tuple[GpuReading, ...], tuple[str, ...] | None]) -> None:
        seconds, gpus, buses = made
        self._now += timedelta(seconds=seconds)
        reading = NvmlReading(at=self._now, driver_version="580.95.05", gpus=gpus)
        up = SourceHealth(name="nvml", state="Up", message="x" * 1000)
        seen = Observation(at=self._now, sources=(up,), nvml=reading, pci_gpus=buses)
        offered = Published(frozenset({"GPU-0", "GPU-9"}), {BUSES[0]: "GPU-0"})
        self.report = ledger.observe(self.report, seen, published=offered)

    def blind(self, stated: str) -> None:
        self.report = ledger.blind(self.report, "SensorAway", stated, self._now)

    def restart(self, changed: bytes | None) -> None:
        """Go on from what the API server has."""
        written = NodeDeviceHealth(ObjectMeta("node-a"), outline.finished(self.report))
        raw = msgspec.json.encode(written)
        if changed is not None:
            self.foreign = True
            raw = _foreign(Random(changed), raw)  # noqa: S311 - inputs must come again
        try:
            stored = msgspec.json.decode(raw, type=NodeDeviceHealth).status
        except (msgspec.DecodeError, ValueError, RecursionError):
            stored = NodeHealth()
        self.report = ledger.adopt(stored, "boot-1", "1", self._now)

    def _take(self, signals: list[Signal], kernel_sequence: int | None) -> None:
        for signal in signals:
            numbered = msgspec.structs.replace(signal, number=self._ring.number_next())
            self._ring.append(self._dedup.pair(numbered))
        fresh = self._ring.after(self.report.cursor.signal_sequence)
        protocol.encode(protocol.Signals(tuple(fresh), kernel_sequence))
        self.report = ledger.take(self.report, fresh, run="run-1", kernel_sequence=kernel_sequence)


def _foreign(random: Random, raw: bytes) -> bytes:
    """Return a stored report after somebody wrote to it, such as times of no zone."""
    zone = random.choice((b'Z"', b'"', b'+14:00"'))
    raw = raw.replace(b'Z"', zone)
    raw = raw.replace(b'"2026-', random.choice((b'"2026-', b'"2026-', b'"0001-', b'"9999-')))
    return hostile.json_of(random, msgspec.json.decode(raw), 4)


def check_sequence(sequence: list[Step]) -> None:
    node = Node()
    for name, made in sequence:
        before = node.report
        getattr(node, name)(made)
        written = outline.finished(node.report)
        size = len(msgspec.json.encode(written))
        demand(size <= outline.MAX_BYTES, "a report that is too large", size)
        outline.change_key(node.report)
        if not node.foreign:
            _none_lost(before, node.report)


def _none_lost(before: NodeHealth, after: NodeHealth) -> None:
    """No error that was counted is forgotten, unless the report says that it left some out."""
    demand(after.xids_dropped >= before.xids_dropped, "fewer are said to be left out")
    if after.xids_dropped > before.xids_dropped:
        return
    reported = _counts(after)
    for code, count in _counts(before).items():
        demand(reported[code] >= count, "counted before, and not any more", code)


def _counts(report: NodeHealth) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for gpu in report.gpus:
        for record in gpu.xids:
            demand(record.count > 0, "a record of nothing", record)
            found["xid", record.code] += record.count
    for switch in report.switches:
        for entry in switch.sxids:
            found[switch.pci_bus_id, entry.code] += entry.count
    return found


TARGETS = (Target("report-sequence", 10, make_sequence, check_sequence),)
