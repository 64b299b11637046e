"""Every public DCGM field: its number, its names, what its value is and of what.

The number is the key everywhere. DCGM 4.6 gave most fields new names and keeps the
old ones as aliases; both lead to the same number, and a metric is called as the
counters file calls it. The lower-case names of dcgm-exporter 1.x are not known.
The table lies in `exporter/data/`, with its provenance. Pure, but for reading the
package's own file once.
"""

import csv
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

FieldType = Literal["int", "float", "text", "binary"]
"""What the engine stores; a `binary` field has no value that a metric could show."""

Level = Literal["gpu", "gi", "ci", "link", "global", "vgpu", "switch", "cpu", "core", "connectx"]
"""The smallest entity that the field is of: a GPU, GPU instance, compute instance, NVLink, or
the node. A field of an instance can be read of the whole GPU too."""

XID_COUNT = 9001
CLOCK_EVENTS = 9002
HEALTH_STATUS = 9003
P2P_STATUS = 9004
XID_TOTAL = 9005
CLOCK_EVENTS_TOTAL = 9006
COMPUTED: frozenset[int] = frozenset(
    {XID_COUNT, CLOCK_EVENTS, HEALTH_STATUS, P2P_STATUS, XID_TOTAL, CLOCK_EVENTS_TOTAL}
)
"""Numbers of the DCGM_EXP_* families, which are computed here; no library knows them."""

XID_ERRORS = 230
CLOCKS_EVENT_REASONS = 112


class Field(msgspec.Struct, frozen=True):
    """One DCGM field."""

    id: int
    name: str
    """The name that dashboards know, as of DCGM 3 to 4.5."""
    renamed: str
    """The name as of DCGM 4.6, "" when it is the same."""
    also: tuple[str, ...]
    """Other names that some release had."""
    type: FieldType
    unit: str
    """DCGM's, such as MHz, C, W, mJ, MiB, %, ratio; "" for a count, a code or a mask."""
    level: Level

    @property
    def profiling(self) -> bool:
        """Whether it needs DCGM's profiling module, or GPM, and a field group of its own."""
        return 1000 < self.id < 1100 or self.id in (1532, 1533)

    @property
    def computed(self) -> bool:
        return self.id in COMPUTED


def by_id(number: int) -> Field | None:
    """Return a field by its number."""
    return table().get(number)


def by_name(name: str) -> Field | None:
    """Return a field by any of its names."""
    return _names().get(name)


@cache
def table() -> dict[int, Field]:
    """Return every field by number, in order.

    Raises msgspec.ValidationError when the package's file is wrong.
    """
    path = resources.files("exporter").joinpath("data", "dcgm_fields.csv")
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    parts = (row | {"also": row["also"].split()} for row in rows)
    fields = (msgspec.convert(row, Field, strict=False) for row in parts)
    return {field.id: field for field in fields}


@cache
def _names() -> dict[str, Field]:
    return {
        name: field
        for field in table().values()
        for name in (field.name, field.renamed, *field.also)
        if name
    }
