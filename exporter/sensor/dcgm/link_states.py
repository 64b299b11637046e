"""What dcgmGetNvLinkLinkStatus of libdcgm.so.4 fills in: the state of every NVLink.

Numbers and layouts as in dcgm_structs.h of DCGM 4.4 to 4.6. Nothing is called here.
"""

from ctypes import Structure, c_uint
from enum import IntEnum
from typing import Final

from exporter.sensor.dcgm.abi import version_word

MAX_LINKS: Final = 18
"""DCGM_NVLINK_MAX_LINKS_PER_GPU up to 4.6."""
_MAX_GPUS: Final = 32
_MAX_SWITCHES: Final = 12
_MAX_SWITCH_LINKS: Final = 256


class LinkState(IntEnum):
    """dcgmNvLinkLinkState_t."""

    NOT_SUPPORTED = 0
    DISABLED = 1
    DOWN = 2
    UP = 3


class GpuLinks(Structure):
    """dcgmNvLinkGpuLinkStatus_v3: a dcgmNvLinkLinkState_t for each link."""

    _fields_ = [("gpu", c_uint), ("states", c_uint * MAX_LINKS)]


class SwitchLinks(Structure):
    """dcgmNvLinkNvSwitchLinkStatus_t."""

    _fields_ = [("switch", c_uint), ("states", c_uint * _MAX_SWITCH_LINKS)]


class LinkStates(Structure):
    """dcgmNvLinkStatus_v4; version 3 differs in the links of a switch alone, 64."""

    _fields_ = [
        ("version", c_uint),
        ("gpu_count", c_uint),
        ("gpus", GpuLinks * _MAX_GPUS),
        ("switch_count", c_uint),
        ("switches", SwitchLinks * _MAX_SWITCHES),
    ]


VERSION: Final = version_word(LinkStates, 4)
