"""Values for the exporter's tests: short names for readings, observations and signals."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from exporter.model.node_health import NodeHealth, SourceHealth
from exporter.model.readings import GpuReading, MigReading, NvmlReading, Observation, Values
from exporter.model.signals import Signal
from exporter.model.xid_dedup import Dedup
from exporter.sensor.ring import Ring

START = datetime(2026, 11, 21, 8, tzinfo=UTC)
BUS = {f"GPU-{number}": f"0000:{number:02x}:00.0" for number in range(1, 9)}
UP = SourceHealth(name="nvml", state="Up")
DOWN = SourceHealth(name="nvml", state="Down", reason="Crashed")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


_ON_PAGE = {
    67: "mig", 112: "slowdown", 310: "sbe_volatile", 311: "dbe_volatile", 312: "sbe_aggregate",
    313: "dbe_aggregate", 346: "sram_threshold", 392: "retired_pending", 395: "remap_failure",
    396: "remap_pending", 1523: "recovery_action",
}  # fmt: skip
"""What a sampler reads for the report and, under DCGM's id, for the page."""


def gpu(number: int = 1, **fields: Any) -> GpuReading:
    """Return a reading as a sampler makes it: what the report needs is among the values too."""
    uuid = f"GPU-{number}"
    usual: dict[str, Any] = {"mig": False, "recovery_supported": True, "recovery_action": 0}
    usual |= {"uuid": uuid, "bus_id": BUS[uuid]}
    usual |= fields
    twice = {
        number: usual[name] for number, name in _ON_PAGE.items() if usual.get(name) is not None
    }
    usual["values"] = {field: int(value) for field, value in twice.items()} | _memory(**usual)
    return GpuReading(index=number - 1, **usual)


def part(gi: int, **fields: Any) -> MigReading:
    """Return a slice as a sampler makes it."""
    usual: dict[str, Any] = {"gi": gi, "ci": 0, "profile": "1g.10gb", **fields}
    usual["values"] = _memory(**usual)
    return MigReading(**usual)


def _memory(*, fb_used: int | None = None, values: Values | None = None, **_: Any) -> Values:
    used: Values = {} if fb_used is None else {252: fb_used >> 20}
    return used | (values or {})


def mig_gpu(number: int = 1, gis: tuple[int, ...] = (3, 5), **fields: Any) -> GpuReading:
    parts = tuple(part(gi, uuid=f"MIG-{number}-{gi}", fb_used=gi << 20) for gi in gis)
    return gpu(number, mig=True, instances=parts, **fields)


def seen(*gpus: GpuReading, seconds: float = 0.0, driver: str = "595.45.04") -> Observation:
    reading = NvmlReading(at=at(seconds), driver_version=driver, gpus=gpus)
    return Observation(at=at(seconds), sources=(UP,), nvml=reading)


def unseen(seconds: float = 0.0) -> Observation:
    return Observation(at=at(seconds), sources=(DOWN,))


def with_bus(changes: Observation, *places: str, unbound: tuple[str, ...] = ()) -> Observation:
    """Return the observation with the kernel's list of GPUs on PCI."""
    return msgspec.structs.replace(changes, pci_gpus=places, pci_unbound=unbound)


def with_drivers(changes: Observation, drivers: dict[str, str]) -> Observation:
    """Return the observation with GPUs that NVIDIA's driver does not have, and with who has."""
    return msgspec.structs.replace(changes, pci_unbound=tuple(drivers), pci_drivers=drivers)


class Sensed:
    """Numbers, pairs and keeps signals as a sensor does."""

    def __init__(self, run: str = "run-1", boot_id: str = "boot-1", capacity: int = 100) -> None:
        self.ring = Ring(run, boot_id, capacity)
        self._dedup = Dedup()

    def kmsg(self, seconds: float, code: int, number: int = 1, **fields: Any) -> Signal:
        return self._add(
            Signal(
                kind=fields.pop("kind", "xid"),
                source="kmsg",
                at=at(seconds),
                code=code,
                bus_id=BUS[f"GPU-{number}"],
                kernel_sequence=self.ring.number_next() * 10,
                **fields,
            )
        )

    def nvml(self, seconds: float, code: int, number: int = 1, **fields: Any) -> Signal:
        uuid = f"GPU-{number}"
        return self._add(
            Signal(
                kind="xid",
                source="nvml",
                at=at(seconds),
                code=code,
                uuid=uuid,
                bus_id=BUS[uuid],
                **fields,
            )
        )

    def _add(self, signal: Signal) -> Signal:
        numbered = Signal(
            **{
                name: getattr(signal, name) for name in signal.__struct_fields__ if name != "number"
            },
            number=self.ring.number_next(),
        )
        paired = self._dedup.pair(numbered)
        self.ring.append(paired)
        return paired


def counts(report: NodeHealth) -> dict[str, dict[tuple[int, int | None], int]]:
    """Return {uuid: {(code, gi): count}} of a report."""
    return {
        health.uuid: {(record.code, record.gi): record.count for record in health.xids}
        for health in report.gpus
        if health.xids
    }
