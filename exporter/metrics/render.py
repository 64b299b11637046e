"""A snapshot into the bytes that are served, once, in every form that is requested.

Own renderer for the device families: prometheus_client renames counters without
`_total`, and DCGM's names must stay as dashboards know them. Pure.
"""

import gzip
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from exporter.metrics import families_fields, labels
from exporter.metrics.families import METRICS
from exporter.metrics.metric import Family
from exporter.metrics.snapshot import Snapshot
from exporter.metrics.view import View, view

EOF_MARK = b"# EOF\n"
_GZIP_LEVEL = 3
"""Of 56 slices' page 25 KB remain of 830; level 9 would save a third of them for six times the
work."""
DROPPED = "draguard_series_dropped"
"""Tells by family what the cap on series left out."""


class Page(msgspec.Struct, frozen=True):
    """One page: text and OpenMetrics, each plain and gzipped."""

    text: bytes
    openmetrics: bytes
    text_gzip: bytes
    openmetrics_gzip: bytes


def page(snapshot: Snapshot, own_text: bytes = b"", own_openmetrics: bytes = b"") -> Page:
    """Render a snapshot; the exporter's own families come rendered and are appended.

    `own_openmetrics` may end with the EOF mark, which stays the last line.
    """
    shown = tuple(families(view(snapshot)))
    # The lines of the samples are the same in both forms and are made once.
    bodies: list[bytes] = []
    for family in shown:
        name = family.name
        lines = [
            f"{name}{{{found}}} {value!r}\n" if found else f"{name} {value!r}\n"
            for found, value in family.samples.items()
        ]
        bodies.append("".join(lines).encode(errors="replace"))
    text = _rendered(shown, bodies, own_text)
    own_openmetrics = own_openmetrics.removesuffix(EOF_MARK) + EOF_MARK
    openmetrics = _rendered(shown, bodies, own_openmetrics, openmetrics=True)
    # mtime 0: the same page is the same bytes.
    return Page(
        text,
        openmetrics,
        gzip.compress(text, compresslevel=_GZIP_LEVEL, mtime=0),
        gzip.compress(openmetrics, compresslevel=_GZIP_LEVEL, mtime=0),
    )


def families(laid_out: View) -> Iterator[Family]:
    """Return the families that have samples, as many samples as the cap allows.

    What tells that something is wrong is always there; then come the families of the
    counters file in its order, then ours, and whatever is above the cap is left out
    from the end.
    """
    # Label text is the identity of a series: a second sample of one would void the whole scrape.
    own = [
        Family(metric.name, metric.type, metric.help, dict(metric.samples(laid_out)), metric.kept)
        for metric in METRICS
    ]
    everything = [_sound(metric) for metric in (*families_fields.families(laid_out), *own)]
    room = laid_out.snapshot.shown.max_series
    room -= sum(len(family.samples) for family in everything if family.kept)
    dropped: dict[str, int] = {}
    for family in everything:
        shown = family
        if not family.kept:
            if (left := len(family.samples) - max(room, 0)) > 0:
                within = dict(list(family.samples.items())[: max(room, 0)])
                shown = msgspec.structs.replace(family, samples=within)
                dropped[family.name] = left
            room -= len(shown.samples)
        if shown.samples:
            yield shown
    samples = {labels.text((("family", name),)): count for name, count in dropped.items()}
    text = "Series left out of this page because of the cap on series, by family."
    yield Family(DROPPED, "gauge", text, samples or {"": 0})


def _sound(family: Family) -> Family:
    """Leave out what no counter can be; one such value voids the whole page in OpenMetrics."""
    if family.type != "counter" or all(value >= 0 for value in family.samples.values()):
        return family
    sound = {found: value for found, value in family.samples.items() if value >= 0}
    return msgspec.structs.replace(family, samples=sound)


def _rendered(
    shown: Iterable[Family], bodies: Sequence[bytes], end: bytes, *, openmetrics: bool = False
) -> bytes:
    heads = (_head(family, openmetrics=openmetrics) for family in shown)
    parts = [part for pair in zip(heads, bodies, strict=True) for part in pair]
    # In one step: a page is the largest thing here, and each copy of it costs memory.
    return b"".join((*parts, end))


def _head(family: Family, *, openmetrics: bool) -> bytes:
    name, kind = family.name, family.type
    if openmetrics and kind == "counter":
        # There a counter's samples must end in _total, and DCGM's do not.
        kind = "counter" if name.endswith("_total") else "unknown"
        name = name.removesuffix("_total")
    elif openmetrics and kind == "untyped":
        kind = "unknown"
    escaped = family.help.replace("\\", r"\\").replace("\n", r"\n")
    text = escaped.replace('"', r"\"") if openmetrics else escaped
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n".encode(errors="replace")
