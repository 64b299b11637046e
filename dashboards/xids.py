"""Panels on XIDs: which, when, from which source, by class. Pure."""

from collections.abc import Mapping
from typing import get_args

from dashboards import links
from dashboards.happenings import happenings
from dashboards.panel import (
    DARK_RED,
    ORANGE,
    PLAIN,
    RED,
    UNKNOWN,
    Column,
    Meaning,
    Query,
    Table,
    TimeSeries,
)
from dashboards.promql import Scope, numbered, once
from exporter.model.xid import XidClass, catalogue

CLASSES: tuple[XidClass, ...] = get_args(XidClass)
"""`unknown` is the last."""
_COLOURS: Mapping[str, str] = {
    "application": PLAIN,
    "information": PLAIN,
    "contained": ORANGE,
    "fabric": ORANGE,
    "bus": ORANGE,
    "gpu": RED,
    "node": RED,
    "lost": DARK_RED,
    "unknown": UNKNOWN,
}
_LATE = 300
"""Seconds after which an XID that appears is not new: its metrics page was missing before."""
_HEIGHT = 6
NO_XID = "no XID since the boot"
_XID = "Hostname, UUID, code, gi"


def with_class(expr: str) -> str:
    """Add the class of each code as a label; `unknown` where the catalogue has none."""
    for name in CLASSES[:-1]:
        codes = sorted(code for code, row in catalogue().items() if row.xid_class == name)
        pattern = "|".join(map(str, codes))
        expr = f'label_replace({expr}, "class", "{name}", "code", "{pattern}")'
    return f'label_replace({expr}, "class", "{CLASSES[-1]}", "class", "")'


def by_class(scope: Scope, *, width: int = 10) -> TimeSeries:
    """Return when XIDs were seen, as bars by class."""
    family = scope.seen("draguard_xid_last_seen_timestamp_seconds")
    last, before = once(_XID, family), once(_XID, f"{family} offset $__interval")
    new = f"({last} unless ({last} == {before})) >= time() - {_LATE} - $__interval_ms / 1000"
    return happenings(
        "XIDs by class",
        "Number of GPUs and slices with an XID of each class, per bar. application: a fault of "
        "the program. contained: limited to one slice or process. gpu, node, lost: the hardware. "
        "fabric, bus: a link. information: no action. unknown: not in the catalogue. Bars are at "
        "the time of the scrape, up to a minute late; marks are at the time of the XID. Repeats "
        "within one bar count once: see the table for counts.",
        Query(
            expr=f"count by (class) ({with_class(f'({new})')})",
            legend="{{class}}",
            empty="no XID in the time of a bar",
        ),
        Query(expr=scope.seen("draguard_gpu_info"), empty="no exporter shows a GPU"),
        colours=_COLOURS,
        none="No exporter shows a GPU",
        width=width,
        height=_HEIGHT,
    )


def table(scope: Scope, *, width: int = 14) -> Table:
    """Return the XIDs of this boot: how often, since when, from which source."""
    last = once(_XID, scope.seen("draguard_xid_last_seen_timestamp_seconds"))
    each = once(f"{_XID}, ci", scope.seen("draguard_xid_errors_total"))
    count = f"sum by (cluster, {_XID}) ({each})"
    return Table(
        title="XIDs since boot",
        says="Each code of each GPU or slice since the node was booted. One line for each source "
        "that reported it: the kernel log (kmsg), NVML, DCGM. An error from several sources has "
        "several lines and counts once. `draguard explain xid N` explains a code and the reaction "
        "to it.",
        queries=(
            Query(
                expr=f"{with_class(f'({numbered(_by_source(last, scope), scope)})')} * 1000",
                value="last",
                empty=NO_XID,
            ),
            Query(
                expr=with_class(f"({_by_source(count, scope)})"),
                value="count",
                empty=NO_XID,
                whole="the panel shows the count since boot",
            ),
        ),
        none="None since boot (unknown without exporter data)",
        columns=(
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            *links.GPU,
            Column(source="gi", title="Slice", none="whole GPU"),
            Column(source="code", title="XID", width=60),
            Column(source="class", title="Class", none="unknown", meanings=_CLASS_WORDS),
            Column(source="count", title="Count", unit="short", decimals=0, width=70),
            Column(source="last", title="Last seen", unit="dateTimeAsIso", width=170),
            Column(source="source", title="Source", none="-"),
        ),
        sort="Last seen",
        width=width,
        height=_HEIGHT,
    )


def _by_source(value: str, scope: Scope) -> str:
    """Repeat a value for each source; keep it where none is named."""
    sources = once(f"{_XID}, source", scope.seen("draguard_xid_source_info"))
    on_xid = f"on (cluster, {_XID})"
    return f"({sources} * {on_xid} group_left () {value}) or {on_xid} {value}"


_CLASS_WORDS = tuple(Meaning(word, word, colour) for word, colour in _COLOURS.items())
