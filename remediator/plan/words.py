"""Small words that several decisions share: classes read back, numbers and spans in words. Pure."""

from collections.abc import Iterable
from datetime import timedelta

from remediator.diagnose.fault import SEVERITY, FaultClass

_LAST_TEEN = 13


def class_of(name: str) -> FaultClass:
    """Read a class back from an object; one that this version does not know counts as `gpu`."""
    known: dict[str, FaultClass] = {fault_class: fault_class for fault_class in SEVERITY}
    return known.get(name, "gpu")


def severity(name: str) -> int:
    """Return the rank of a class that was read back."""
    return SEVERITY.index(class_of(name))


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 21st."""
    teen = 11 <= number % 100 <= _LAST_TEEN
    ending = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def some(names: Iterable[str], most: int = 3) -> str:
    """Name the first of several and count the others: `a, b, c and 4 more`."""
    found = tuple(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def days(span: timedelta) -> str:
    """Return a span in days, or in seconds when it is no whole number of days."""
    if span >= timedelta(days=1) and span % timedelta(days=1) == timedelta():
        return f"{span.days} days" if span.days > 1 else "1 day"
    return f"{span.total_seconds():g} s"


def xid_in(evidence: str) -> str:
    """Return the code of the XID that a line of evidence reports, "" when it reports none."""
    begins, _, rest = evidence.partition(" ")
    return rest.partition(" ")[0] if begins == "XID" else ""
