"""A snapshot into the bytes that are served, once, in every form that is asked for.

Own renderer for the device families: prometheus_client renames counters without
`_total`, and DCGM's names must stay as dashboards know them. Pure.
"""

import gzip
from collections.abc import Iterable, Iterator

import msgspec

from exporter.metrics import METRICS, Metric, Sample
from exporter.snapshot import Snapshot
from exporter.view import View, view

EOF_MARK = b"# EOF\n"


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
    laid_out = view(snapshot)
    text = render(laid_out) + own_text
    openmetrics = render(laid_out, openmetrics=True) + own_openmetrics.removesuffix(EOF_MARK)
    openmetrics += EOF_MARK
    # mtime 0: the same page is the same bytes.
    return Page(
        text,
        openmetrics,
        gzip.compress(text, compresslevel=5, mtime=0),
        gzip.compress(openmetrics, compresslevel=5, mtime=0),
    )


def render(
    laid_out: View, *, openmetrics: bool = False, metrics: Iterable[Metric] = METRICS
) -> bytes:
    """Render the families that have samples."""
    lines = (line for metric in metrics for line in _family(metric, laid_out, openmetrics))
    return "".join(lines).encode()


def _family(metric: Metric, laid_out: View, openmetrics: bool) -> Iterator[str]:  # noqa: FBT001
    # Label text is the identity of a series: a second sample of one would void the whole scrape.
    samples = dict(metric.samples(laid_out))
    if not samples:
        return
    counter = metric.type == "counter"
    family = metric.name.removesuffix("_total") if openmetrics and counter else metric.name
    yield f"# HELP {family} {_help(metric.help, openmetrics)}\n"
    yield f"# TYPE {family} {metric.type}\n"
    for sample in samples.items():
        yield _line(metric.name, sample)


def _line(name: str, sample: Sample) -> str:
    labels, value = sample
    braces = f"{{{labels}}}" if labels else ""
    return f"{name}{braces} {value!r}\n"


def _help(text: str, openmetrics: bool) -> str:  # noqa: FBT001
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return escaped.replace('"', r"\"") if openmetrics else escaped
