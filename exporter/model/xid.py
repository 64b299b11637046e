"""What an XID code means, by NVIDIA's catalogue and Draguard's grouping; which SXids are fatal.

The tables are in `exporter/data/`, with their provenance. A code that neither
knows is a value too: class `unknown`, never acted on alone. What is done about
each is another table (`remediator/diagnose/xid_table.py`). Pure, but for reading
the package's own files once.
"""

import csv
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

XidClass = Literal[
    "application", "contained", "gpu", "lost", "fabric", "bus", "node", "information", "unknown"
]


class Xid(msgspec.Struct, frozen=True):
    """One row of the catalogue; actions are NVIDIA's resolution buckets, "" for no guidance."""

    code: int
    mnemonic: str
    description: str
    immediate_action: str
    investigatory_action: str
    xid_class: XidClass


def lookup(code: int) -> Xid:
    """Return what is known of a code; an unlisted one gets class `unknown`."""
    known = catalogue().get(code)
    return known or Xid(code, "UNKNOWN", "not in the catalogue", "", "", "unknown")


@cache
def catalogue() -> dict[int, Xid]:
    """Return every listed code by number."""
    return {
        code: Xid(
            code,
            row["mnemonic"],
            row["description"],
            row["immediate_action"],
            row["investigatory_action"],
            msgspec.convert(row["class"], XidClass),
        )
        for row in _rows("xid_catalog.csv")
        if (code := int(row["code"]))
    }


def sxid_fatal(code: int) -> bool | None:
    """Return whether an NVSwitch's error is fatal, None where it depends or is not known.

    For lines that do not say so, such as thermal ones: where a line says it, it is right.
    """
    return _sxids().get(code)


@cache
def _sxids() -> dict[int, bool]:
    return {int(row["code"]): row["fatal"] == "yes" for row in _rows("sxid_severity.csv")}


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = resources.files("exporter").joinpath("data", name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())
