"""XID codes by class of fault, as label matchers: alerts name classes, these tables name codes.

The remediator's table defines what a code means for a GPU. The exporter's classes define which
codes programs cause. A code in neither table is not a fault.
"""

from collections.abc import Iterable

from exporter.model.xid import catalogue
from remediator.diagnose import readings, xid_table
from remediator.diagnose.fault import FaultClass


def of_faults(*classes: FaultClass) -> str:
    """Return a matcher for the codes of these classes."""
    table = xid_table.table()
    return _matcher(code for code, row in table.items() if row.fault in classes)


def of_applications() -> str:
    """Return a matcher for the codes that a program causes itself."""
    return _matcher(code for code, xid in catalogue().items() if xid.xid_class == "application")


def of_no_table() -> str:
    """Return a matcher for codes that have neither a fault class nor an application class.

    It includes codes that the catalogue lists without a class: no alert would look like health.
    """
    return _matcher(xid_table.classified_codes(), "!~")


def of_recovery_actions() -> dict[int, str]:
    """Return the names of the driver's recovery actions."""
    levels = {value: level.name for value, level in readings.ACTION_LEVELS.items()}
    return {0: "none", **levels}


def _matcher(codes: Iterable[int], operator: str = "=~") -> str:
    return f'code{operator}"{"|".join(map(str, sorted(codes)))}"'
