"""What a DCGM field is, out of the answer of an NVML call that tells several things. Pure.

Each function takes what the call reported and returns the value, or None where the
answer does not hold one. Names and numbers of DCGM: DcgmCacheManager of DCGM 4.x.
"""

from collections.abc import Callable
from typing import Any

_BRANDS = (
    *("Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce", "Titan"),
    *("NvidiaVApps", "NvidiaVPC", "NvidiaVCS", "NvidiaVWS", "NvidiaVGaming"),
    *("QuadroRTX", "NvidiaRTX", "Nvidia", "GeForceRTX", "TitanRTX"),
)
"""By nvmlBrandType_t."""
_VGPU_FEATURE = 1
"""NVML_GRID_LICENSE_FEATURE_CODE_VGPU."""


def brand(number: int) -> str | None:
    return _BRANDS[number] if 0 <= number < len(_BRANDS) else None


def compute_mode(mode: int) -> int | None:
    """DCGM counts without the mode that NVML no longer has: 0 default, 1 none, 2 one process."""
    return {0: 0, 2: 1, 3: 2}.get(mode)


def capability(version: tuple[int, int]) -> int:
    return version[0] << 16 | version[1]


def licensed(answer: Any) -> int:
    if not answer.isGridLicenseSupported:
        return 0
    features = answer.gridLicensableFeatures[: answer.licensableFeaturesCount]
    return int(any(f.featureState > 0 for f in features if f.featureCode == _VGPU_FEATURE))


def used_share(answer: Any) -> float:
    """Used / (total - reserved), as DCGM's FB_USED_PERCENT, which is a ratio."""
    return answer.used / (answer.total - getattr(answer, "reserved", 0))


def fabric_status(answer: Any) -> int | None:
    """dcgmFabricManagerStatus_t: 3 is success and 4 failure of a completed registration."""
    if answer.state == 3:
        return 3 if answer.status == 0 else 4
    return answer.state if 0 <= answer.state < 3 else None


def fabric_error(answer: Any) -> int | None:
    # What DCGM calls a failure is a number of its own: left to DCGM.
    return 0 if answer.state == 3 and answer.status == 0 else None


def of_fabric(name: str) -> Callable[[Any], Any]:
    """Return a pick of one attribute; without a fabric (state 0) all are 0 and mean nothing."""

    def pick(answer: Any) -> Any:
        return None if answer.state == 0 else getattr(answer, name)

    return pick


def cluster_uuid(answer: Any) -> str | None:
    """Return the fabric's cluster in the usual form, None when the bytes are all zero."""
    if answer.state == 0:
        return None
    digits = answer.cluster_uuid.hex()
    if len(digits) != 32 or not digits.strip("0"):
        return None
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
