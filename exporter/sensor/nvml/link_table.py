"""How NVML tells the DCGM fields of NVLinks.

DCGM has two ways to name a link's number: a field for each lane of a GPU (L0 to
L17, an entity of level GPU), and since 4.x a field that belongs to a link. Both
are served from the same places. Meanings: dcgm_fields.h of DCGM 4.6. Pure.
"""

from functools import cache

from exporter.sensor.nvml import units as unit
from exporter.sensor.nvml.table import Call, Field, Source

ALL_LINKS = 0xFFFF_FFFF
"""As scope of a throughput field: the sum over the GPU's links."""
LINKS = 18
"""As many lanes as DCGM names."""

_REPLAY, _RECOVERY, _FLIT, _DATA = 0, 1, 2, 3
"""NVML_NVLINK_ERROR_DL_*."""
_NAMES = {_REPLAY: "REPLAY", _RECOVERY: "RECOVERY", _FLIT: "CRC_FLIT", _DATA: "CRC_DATA"}

ERROR_LANES: dict[int, tuple[int, ...]] = {
    _FLIT: (*range(400, 406), *range(451, 457), 406, 407, 408, 481, 482, 483),
    _DATA: (*range(410, 416), *range(457, 463), 416, 417, 418, 484, 485, 486),
    _REPLAY: (*range(420, 426), *range(463, 469), 426, 427, 428, 487, 488, 489),
    _RECOVERY: (*range(430, 436), *range(469, 475), 436, 437, 438, 491, 492, 493),
}
"""Ids by lane of each error counter."""
ERROR_PER_LINK = {_FLIT: 1525, _DATA: 1526, _REPLAY: 1527, _RECOVERY: 1528}

BOTH, SENT, RECEIVED = "both", "sent", "received"
RATE_LANES: dict[str, tuple[int, ...]] = {
    BOTH: (*range(440, 446), *range(475, 481), 446, 447, 448, 494, 495, 496),
    SENT: tuple(range(825, 843)),
    RECEIVED: tuple(range(879, 897)),
}
RATE_PER_LINK = {BOTH: 1529, SENT: 1530, RECEIVED: 1531}
RATE_TOTAL = {BOTH: 449, SENT: 843, RECEIVED: 897}

SENT_FIELD = Field("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX")
"""KiB since the driver was loaded, without protocol overhead."""
RECEIVED_FIELD = Field("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX")

STATE = 1508
_COUNTED = {
    **dict(
        enumerate(
            (
                *("COUNT_XMIT_PACKETS", "COUNT_XMIT_BYTES", "COUNT_RCV_PACKETS"),
                *("COUNT_RCV_BYTES", "COUNT_MALFORMED_PACKET_ERRORS"),
                *("COUNT_BUFFER_OVERRUN_ERRORS", "COUNT_RCV_ERRORS", "COUNT_RCV_REMOTE_ERRORS"),
                *("COUNT_RCV_GENERAL_ERRORS", "COUNT_LOCAL_LINK_INTEGRITY_ERRORS"),
                *("COUNT_XMIT_DISCARDS", "COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS"),
                *("COUNT_LINK_RECOVERY_FAILED_EVENTS", "COUNT_LINK_RECOVERY_EVENTS"),
                *("COUNT_SYMBOL_ERRORS", "COUNT_SYMBOL_BER"),
            ),
            1200,
        )
    ),
    1217: "COUNT_EFFECTIVE_BER",
    1219: "COUNT_EFFECTIVE_ERRORS",
    **{1404 + bin_: f"COUNT_FEC_HISTORY_{bin_}" for bin_ in range(16)},
}
"""Counters since NVLink 5, of a link or of all: DCGM's fields are of the GPU, whose value NVML has
under the scope of all links (DcgmCacheManager.cpp of DCGM 4.6)."""
SUMS = {497: "ERROR_DL_CRC", 498: "ERROR_DL_RECOVERY", 499: "ERROR_DL_REPLAY"}
"""Counters of one link each that DCGM gives for the GPU; here the sum over its links."""

LINK_FIELDS = frozenset(
    (
        STATE,
        *ERROR_PER_LINK.values(),
        *RATE_PER_LINK.values(),
        *(number for lanes in (*ERROR_LANES.values(), *RATE_LANES.values()) for number in lanes),
    )
)
"""Every id that is reported link by link."""
GPU_FIELDS = frozenset((*_COUNTED, *SUMS, *RATE_TOTAL.values()))
"""Ids that are reported for the GPU, but read through its links."""
NOT_WITH_MIG = frozenset((409, 419, 429, 439, 1220))
"""Totals of `table` that are 0 on a GPU in MIG mode because its links are off."""


@cache
def counted(scope: int) -> dict[int, tuple[Source, ...]]:
    """Return the counters since NVLink 5 by DCGM id, of a link or of `ALL_LINKS`."""
    return {
        number: (Field(f"NVML_FI_DEV_NVLINK_{name}", unit.NUMBER, scope),)
        for number, name in _COUNTED.items()
    }


@cache
def per_link(link: int) -> dict[int, tuple[Source, ...]]:
    """Return the plain numbers of a link by DCGM id, of those that exist for it."""
    found = {
        STATE: (Field("NVML_FI_DEV_NVLINK_GET_STATE", unit.NUMBER, link),),
        **counted(link),
    }
    for counter, number in ERROR_PER_LINK.items():
        sources: tuple[Source, ...] = (Call("nvmlDeviceGetNvLinkErrorCounter", (link, counter)),)
        if link < 12:
            # Field values end with the twelfth link.
            sources = (Field(f"NVML_FI_DEV_NVLINK_{_NAMES[counter]}_ERROR_COUNT_L{link}"), *sources)
        found[number] = sources
        if link < LINKS:
            found[ERROR_LANES[counter][link]] = sources
    return found


@cache
def sum_field(number: int, link: int) -> Field:
    """Return where a link's part of one of `SUMS` is."""
    return Field(f"NVML_FI_DEV_NVLINK_{SUMS[number]}", unit.NUMBER, link)
