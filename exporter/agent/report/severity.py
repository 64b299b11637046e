"""Which XID records are worth keeping first when there is no room for all.

Pure.
"""

from exporter.model.node_health import XidRecord
from exporter.model.xid import XidClass, lookup

_RANK: dict[XidClass, int] = {
    "lost": 0,
    "gpu": 1,
    "node": 1,
    "fabric": 2,
    "contained": 3,
    "unknown": 4,
    "bus": 5,
    "information": 6,
    "application": 7,
}

_WORTH_ATTENTION = 3


def rank(code: int) -> int:
    """Return the place of a code's class, 0 for the most severe."""
    return _RANK[lookup(code).xid_class]


def worth_attention(code: int) -> bool:
    """Say whether a person should read of this code in a summary."""
    return rank(code) <= _WORTH_ATTENTION


def keep_last(record: XidRecord) -> tuple[int, int, float]:
    """Return a key that sorts the records that may go first to the front."""
    return -rank(record.code), record.count, record.last_seen.timestamp()
