"""How many decoders, JPEG engines and optical flow engines a GPU or a slice has.

GPM answers 0 for an engine that is not there, as for one that is idle (seen on an H100).
"""

from collections.abc import Collection
from typing import Any

from exporter.sensor.nvml.fields import Fields
from exporter.sensor.nvml.units import SMALL

NVDEC, NVJPG, NVOFA = range(1017, 1025), range(1025, 1033), range(1033, 1035)
"""DCGM field ids, one for each engine."""
_ALL = frozenset((*NVDEC, *NVJPG, *NVOFA))
_WHOLE = (4, 3)
"""NVML_GPU_INSTANCE_PROFILE_7_SLICE, which is the whole GPU, and _4_SLICE, which is that only where
there is no profile of seven. Answered with MIG off, too."""


def absent_of_gpu(fields: Fields, desired: Collection[int]) -> frozenset[int]:
    """Return the fields of engines that the GPU does not have; none where it does not tell."""
    if _ALL.isdisjoint(desired):
        return frozenset()
    for profile in _WHOLE:
        about = fields.get("nvmlDeviceGetGpuInstanceProfileInfo", profile)
        if about is not None:
            return _absent(about, "decoderCount", "jpegCount", "ofaCount")
        if not fields.lacks("nvmlDeviceGetGpuInstanceProfileInfo", profile):
            break  # it did not answer now: the next would be a part of the GPU
    return frozenset()


def absent_of_slice(part: Fields, desired: Collection[int]) -> frozenset[int]:
    """Return the fields of engines that the slice does not have; none where it does not tell."""
    requested = not _ALL.isdisjoint(desired)
    about: Any = part.get("nvmlDeviceGetAttributes_v2") if requested else None
    if about is None:
        return frozenset()
    return _absent(about, "sharedDecoderCount", "sharedJpegCount", "sharedOfaCount")


def _absent(about: Any, *names: str) -> frozenset[int]:
    """Return what is above these counts; a count that makes no sense limits nothing."""
    counts = (SMALL.take(getattr(about, name, None)) for name in names)
    return frozenset(
        number
        for numbers, count in zip((NVDEC, NVJPG, NVOFA), counts, strict=True)
        if count is not None
        for number in numbers[int(count) :]
    )
