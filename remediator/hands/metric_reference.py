"""Writes the table of `docs/remediator-metrics.md` from the table that the page is made from.

`python -m remediator.hands.metric_reference docs/remediator-metrics.md` brings a file up to
date; what stands outside the marks is left as it is.
"""

import re
import sys
from pathlib import Path

from remediator.hands.metric_table import markdown

_MARKED = re.compile(r"(<!-- begin families -->\n).*?(<!-- end -->)", re.DOTALL)


def updated(text: str) -> str:
    """Return a document with the table between its marks made anew."""
    return _MARKED.sub(lambda found: f"{found[1]}{markdown()}{found[2]}", text)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
