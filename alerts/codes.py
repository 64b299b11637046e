"""XID codes by class of fault, as label matchers: alerts name classes, and these tables the codes.

The remediator's rules say what a code means for a GPU; the exporter's classes, which codes are a
program's own. A code that neither knows is no fault.
"""

from collections.abc import Iterable

from exporter.model.xid import catalogue
from remediator.diagnose import recovery_action, xid_table
from remediator.diagnose.fault import FaultClass


def of_faults(*classes: FaultClass) -> str:
    """Return a matcher for the codes of these classes."""
    table = xid_table.table()
    return _matcher(code for code, row in table.items() if row.fault in classes)


def of_applications() -> str:
    """Return a matcher for the codes that a program brings on itself."""
    return _matcher(code for code, xid in catalogue().items() if xid.xid_class == "application")


def of_no_table() -> str:
    """Return a matcher for codes that have neither a rule nor a class.

    Codes that the catalogue lists and that nobody has sorted are among them: silence about one
    would look like health.
    """
    sorted_in = {code for code, xid in catalogue().items() if xid.xid_class != "unknown"}
    return _matcher(xid_table.table().keys() | sorted_in, "!~")


def of_recovery_actions() -> dict[int, str]:
    """Return what the driver's recovery actions ask for."""
    asked = {value: level.name for value, level in recovery_action.LEVELS.items()}
    return {0: "none", **asked}


def _matcher(codes: Iterable[int], operator: str = "=~") -> str:
    return f'code{operator}"{"|".join(map(str, sorted(codes)))}"'
