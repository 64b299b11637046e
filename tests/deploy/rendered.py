"""The chart's objects, as the real helm renders them for some values."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from deploy.program import rendered
from deploy.sources import CHART

__all__ = ["CHART", "is_hook", "objects", "text"]
Json = dict[str, Any]


def text(values: Sequence[str] = (), *flags: str) -> str:
    """Return the YAML of a release; `values` as `--set` takes them."""
    return rendered(CHART, values, *flags)


def objects(values: Sequence[str] = (), *flags: str) -> list[Json]:
    """Return what the YAML holds, in order."""
    return list(_documents(text(values, *flags)))


def _documents(said: str) -> Iterator[Json]:
    return (one for one in yaml.safe_load_all(said) if one)


def is_hook(one: Json) -> bool:
    """Whether helm makes it at some moment of a release's life, and not with the release."""
    return "helm.sh/hook" in one["metadata"].get("annotations", {})
