"""Writes the tables of `docs/remediator-metrics.md` from those that the page is made from.

`python -m remediator.controller.metric_reference docs/remediator-metrics.md` brings a file up to
date; what stands outside the marks is left as it is.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from remediator.controller.metric_table import OWN_FAMILIES
from remediator.metrics.families import CLUSTER_FAMILIES
from remediator.metrics.family import Family, markdown
from remediator.metrics.lifecycle import LIFECYCLE_FAMILIES

_MARKED = re.compile(r"(<!-- begin ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_TABLES: Mapping[str, tuple[Family, ...]] = {
    "families": OWN_FAMILIES,
    "lifecycle families": LIFECYCLE_FAMILIES,
    "cluster families": CLUSTER_FAMILIES,
}
"""By the word in the mark."""


def updated(text: str) -> str:
    """Return a document with the tables between its marks made anew."""
    return _MARKED.sub(lambda found: f"{found[1]}{markdown(_TABLES[found[2]])}{found[3]}", text)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
