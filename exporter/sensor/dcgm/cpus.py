"""What dcgmGetCpuHierarchy_v2 of libdcgm.so.4 fills in: the CPUs that DCGM reads, and their cores.

Numbers and layouts as in dcgm_structs.h of DCGM 4.x. Nothing is called here.
"""

from ctypes import Structure, c_char, c_uint, c_uint64
from typing import Any, Final

import msgspec

from exporter.sensor.dcgm.abi import version_word

_MAX_CPUS: Final = 8
"""DCGM_MAX_NUM_CPUS."""
_WORDS: Final = 1024 // 64
"""Of DCGM_MAX_NUM_CPU_CORES bits."""


class OwnedCores(Structure):
    """dcgmCpuHierarchyOwnedCores_v1: a bit for each core."""

    _fields_ = [("version", c_uint), ("bitmask", c_uint64 * _WORDS)]


class CpuV1(Structure):
    """dcgmCpuHierarchyCpu_v1."""

    _fields_ = [("cpu", c_uint), ("cores", OwnedCores)]


class CpuV2(Structure):
    """dcgmCpuHierarchyCpu_v2."""

    _fields_ = [("cpu", c_uint), ("cores", OwnedCores), ("serial", c_char * 256)]


class HierarchyV1(Structure):
    """dcgmCpuHierarchy_v1."""

    _fields_ = [("version", c_uint), ("count", c_uint), ("cpus", CpuV1 * _MAX_CPUS)]


class HierarchyV2(Structure):
    """dcgmCpuHierarchy_v2."""

    _fields_ = [("version", c_uint), ("count", c_uint), ("cpus", CpuV2 * _MAX_CPUS)]


VERSION_1: Final = version_word(HierarchyV1, 1)
VERSION_2: Final = version_word(HierarchyV2, 2)


class CpuInfo(msgspec.Struct, frozen=True):
    """One CPU."""

    id: int
    cores: tuple[int, ...]
    serial: str = ""


def listed(answer: Any) -> list[CpuInfo]:
    """Return what was filled in, in either version."""
    found: list[CpuInfo] = []
    for cpu in answer.cpus[: min(answer.count, _MAX_CPUS)]:
        words = enumerate(cpu.cores.bitmask)
        cores = (64 * at + bit for at, word in words for bit in range(64) if word >> bit & 1)
        serial = getattr(cpu, "serial", b"").decode("utf-8", "replace")
        found.append(CpuInfo(cpu.cpu, tuple(cores), "" if serial.startswith("<<<") else serial))
    return found
