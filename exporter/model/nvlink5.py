"""What the NVLink errors of Blackwell say in their hex words: XIDs 144 to 150.

The first word (`intrinfo`) names the unit and, for a link that went down, the
reason; the second is the unit's error status. How the first is laid out changed
with driver R575. The table lies in `exporter/data/`, with its provenance. Pure,
but for reading the package's own file once.
"""

import csv
import re
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

CODES = range(144, 151)
NEW_LAYOUT = 575
"""Driver branch from which `intrinfo` has the unit in bits 6:0 (pattern v2)."""
PEER_REASONS = frozenset({0x15, *range(0x20, 0x26)})
"""Reasons (bits 25:20) of a 149 link-down that the device at the other end caused."""

_LINK_UNITS = ("NETIR_LINK_EVT", "NETIR_LINK_DOWN")
_WORD = "(0x[0-9a-fA-F]{1,8})"
_WORDS = re.compile(rf"[(\[]{_WORD}(?:[)\]]|[ ,]+{_WORD}[ ,)\]])")
"""Whole ones: a report that is too large cuts its messages."""
_LINK = re.compile(r"\bLink (\d{1,3})\b")
_BRANCH = re.compile(r"\d{1,4}")

Layout = Literal["v1", "v2"]
_LAYOUTS: tuple[Layout, ...] = ("v1", "v2")


class Sort(msgspec.Struct, frozen=True):
    """One row of the table: what one value of the hex words means."""

    code: int
    units: tuple[str, ...]
    """As printed; two where the name changed with R575, the older first."""
    statuses: tuple[int, ...]
    """Values of the second word; () for any."""
    action: str
    """NVIDIA's resolution bucket: IGNORE, RESET_GPU, or XID_154_EVAL (follow a 154 that is near,
    else restart the application)."""
    stronger_action: str
    """The action where the second pattern fits; "" for none."""
    investigate: str
    """NVIDIA's investigatory bucket."""
    severity: str
    """Non-fatal, Fatal, Link Fatal; `*` may be promoted by the second pattern, `**` usually."""
    origin: str
    """HW, SW, FW or a mix."""
    effect: str
    """On this GPU and on its peers."""
    patterns: dict[Layout, tuple[int, int]]
    """(mask, value) of `intrinfo`."""
    stronger: dict[Layout, tuple[int, int]]


class Decoded(msgspec.Struct, frozen=True):
    """One line's meaning."""

    unit: str
    action: str
    investigate: str
    severity: str
    origin: str
    effect: str
    reason: int
    """Bits 25:20 of `intrinfo`."""
    peer_caused: bool
    """The fault is at the other end of the link: this GPU is not the broken one."""
    link: int | None = None
    """NVLink number, None when the line names none (`Link -1`)."""


def decode(code: int, message: str, driver: str) -> Decoded | None:
    """Return what a line of XID `code` says, None when the table has nothing for it.

    `message` is the driver's own, without the name of a process.
    `driver` is NVML's driver version. Where it is not known both layouts are
    tried, and an answer counts only when they do not contradict each other.
    """
    words = _WORDS.search(message)
    if words is None or code not in CODES:
        return None
    intrinfo = int(words[1], 16)
    status = int(words[2], 16) if words[2] else None
    layouts = _LAYOUTS
    if branch := _BRANCH.match(driver):
        layouts = ("v2",) if int(branch[0]) >= NEW_LAYOUT else ("v1",)
    meant = {
        decoded
        for layout in layouts
        if (decoded := _decoded(code, message, intrinfo, status, layout))
    }
    return meant.pop() if len(meant) == 1 else None


def _decoded(
    code: int, message: str, intrinfo: int, status: int | None, layout: Layout
) -> Decoded | None:
    fitting = [
        sort
        for sort in sorts()
        if sort.code == code
        and (not sort.statuses or status in sort.statuses)
        and (_is(sort.patterns[layout], intrinfo) or _is(sort.stronger.get(layout), intrinfo))
    ]
    if not fitting:
        return None
    # Two units of XID 150 share their words; the line names the one that is meant.
    named = [sort for sort in fitting if message.startswith(sort.units)]
    sort = (named or fitting)[0]
    promoted = _is(sort.stronger.get(layout), intrinfo)
    reason = intrinfo >> 20 & 0x3F
    link = _LINK.search(message)
    return Decoded(
        unit=sort.units[0] if layout == "v1" else sort.units[-1],
        action=sort.stronger_action if promoted else sort.action,
        investigate=sort.investigate,
        severity=sort.severity,
        origin=sort.origin,
        effect=sort.effect,
        reason=reason,
        peer_caused=reason in PEER_REASONS and sort.units[0] in _LINK_UNITS,
        link=int(link[1]) if link else None,
    )


def _is(pattern: tuple[int, int] | None, intrinfo: int) -> bool:
    return pattern is not None and intrinfo & pattern[0] == pattern[1]


@cache
def sorts() -> tuple[Sort, ...]:
    """Return the whole table, in its order."""
    file = resources.files("exporter").joinpath("data", "nvlink5_decode.csv")
    return tuple(map(_sort, csv.DictReader(file.read_text(encoding="utf-8").splitlines())))


def _sort(row: dict[str, str]) -> Sort:
    return Sort(
        code=int(row["xid"]),
        units=tuple(row["unit"].split("/")),
        statuses=tuple(int(status, 16) for status in row["error_status"].split("/") if status),
        action=row["immediate_action"],
        stronger_action=row["action2"],
        investigate=row["investigatory_action"],
        severity=row["severity"],
        origin=row["hw_sw"],
        effect=row["local_remote"],
        patterns=_patterns(row, "intrinfo_pattern"),
        stronger=_patterns(row, "action2_pattern"),
    )


def _patterns(row: dict[str, str], column: str) -> dict[Layout, tuple[int, int]]:
    found: dict[Layout, tuple[int, int]] = {}
    for layout in _LAYOUTS:
        if text := row[f"{column}_{layout}"]:
            mask = "".join("0" if bit == "-" else "1" for bit in text)
            found[layout] = int(mask, 2), int(text.replace("-", "0"), 2)
    return found
