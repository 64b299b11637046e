"""Lists of what dcgm-exporter has, each with its source in comments at the top."""

import csv
from collections.abc import Iterator
from pathlib import Path


def rows(name: str) -> Iterator[dict[str, str]]:
    """Return the rows of a list in this folder, by the names in its first line."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    yield from csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
