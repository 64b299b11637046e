"""What a metric is: a row of the table that pages, documentation and rules are made from. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from exporter.metrics.view import View

Sample = tuple[str, int | float]
"""(label text, value)."""

MetricType = Literal["gauge", "counter", "untyped"]
"""`untyped` is OpenMetrics' `unknown`."""

Needs = Literal["", "SYS_ADMIN", "host pids", "kernel log", "DCGM", "API server"]
"""What a family needs beyond NVML: a capability, a namespace or another source."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One family of ours. A counter's name ends in `_total`."""

    name: str
    type: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...] = ()
    """Names of its labels, in order; `GPU` stands for those that name a GPU, `HOLDER` for those
    of a holder."""
    source: str
    """Where its values are from: NVML calls, DCGM fields, files."""
    needs: Needs = ""
    kept: bool = False
    """Whether it is shown whatever the cap on series says: what tells that something is wrong."""
    samples: Callable[[View], Iterable[Sample]]

    @property
    def unit(self) -> str:
        """The base unit, as the name has it; "" for a plain number."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in _UNITS if stem.endswith(f"_{unit}")), "")


class Family(msgspec.Struct, frozen=True):
    """One family with its samples, as it is rendered; no label text twice."""

    name: str
    type: MetricType
    help: str
    samples: Mapping[str, int | float]
    kept: bool = False


_UNITS = ("seconds", "bytes", "ratio")
