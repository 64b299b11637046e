"""Whether an NVSwitch's error code (SXid) is fatal where its line does not say so.

The line nearly always says it and is then right; thermal lines do not. The table
lies in `exporter/data/`, with its provenance. Pure, but for reading the
package's own file once.
"""

import csv
from functools import cache
from importlib import resources


def fatal(code: int) -> bool | None:
    """Return True for always fatal, False for never, None where it depends or is not known."""
    return _table().get(code)


@cache
def _table() -> dict[int, bool]:
    file = resources.files("exporter").joinpath("data", "sxid_severity.csv")
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    return {int(row["code"]): row["fatal"] == "yes" for row in rows}
