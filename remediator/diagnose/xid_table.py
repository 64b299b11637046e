"""What each XID means for a verdict, as data: its class of fault, its need and its rule.

The table lies in `remediator/data/`, with its provenance; what codes are called is another one
(`exporter/model/xid.py`). A code without a row is never a fault by itself. Pure, but for reading
the package's own file once.
"""

import csv
from functools import cache
from importlib import resources
from typing import Literal, cast, get_args

import msgspec

from exporter.model.xid import catalogue
from remediator.diagnose.fault import LOGS, NEEDS, SEVERITY, SOURCES, FaultClass, Need, Source

RuleName = Literal["stands", "never", "flags", "remapped", "repeated", "named", "peers", "decoded"]
RULE_NAMES: tuple[RuleName, ...] = get_args(RuleName)
Companion = Literal["GpuLost", "RemapPending", "RemapFailure", "Reset"]
COMPANIONS: tuple[Companion, ...] = get_args(Companion)
_SECOND = tuple(word for word in SOURCES if word not in LOGS)


class XidRule(msgspec.Struct, frozen=True):
    """One row. `fault` None: never a fault by itself."""

    code: int
    fault: FaultClass | None
    needs: Need
    rule: RuleName
    second: tuple[Source, ...]
    """Which sources beside the kernel log bear it out. Without one it disrupts nothing."""
    note: str
    comes_with: tuple[Companion, ...] = ()
    """What NVML usually reads with it, or at its next reading; no verdict depends on it."""


def rule_of(code: int) -> XidRule:
    """Return what holds for a code; an unlisted one is counted, and the recovery action decides."""
    # Of the 109 codes in use 67 need no action on the GPU, so one that is not listed is no fault.
    note = "not listed: the recovery action decides"
    unlisted = XidRule(code, None, "nothing", "never", (), note)
    return table().get(code, unlisted)


def classified_codes() -> frozenset[int]:
    """Return the codes with a row here, or with a class in the catalogue.

    One without either may be anything, so an alert asks a user to look (DraguardXidUnknown).
    """
    with_class = {code for code, known in catalogue().items() if known.xid_class != "unknown"}
    return frozenset(table().keys() | with_class)


@cache
def table() -> dict[int, XidRule]:
    """Return every row by code."""
    file = resources.files("remediator").joinpath("data", "xid_rules.csv")
    return parse(file.read_text(encoding="utf-8"))


def parse(text: str) -> dict[int, XidRule]:
    """Read the table. Raises ValueError for a word that is none."""
    return {int(row["code"]): _row(row) for row in csv.DictReader(text.splitlines())}


def _row(row: dict[str, str]) -> XidRule:
    return XidRule(
        code=int(row["code"]),
        fault=cast("FaultClass", _check(row["fault"], SEVERITY)) if row["fault"] else None,
        needs=cast("Need", _check(row["needs"], NEEDS)),
        rule=cast("RuleName", _check(row["rule"], RULE_NAMES)),
        second=tuple(cast("Source", _check(word, _SECOND)) for word in row["second"].split()),
        note=row["note"],
        comes_with=tuple(
            cast("Companion", _check(word, COMPANIONS)) for word in row["comes_with"].split()
        ),
    )


def _check(text: str, words: tuple[str, ...]) -> str:
    if text not in words:
        raise ValueError(f"xid_rules.csv: {text!r} is none of {', '.join(words)}")
    return text
