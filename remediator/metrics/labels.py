"""Any text as a label value that a metrics page can carry; different texts stay different."""

import hashlib
import re

LONGEST = 256
"""Characters; Kubernetes' own names have 253 at most and are never cut."""
_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""Prometheus stops reading at a NUL, and lone surrogates are not UTF-8. A line break is kept: the
page escapes it, as it does quotes and backslashes."""


def value(text: str) -> str:
    """Return text as a label value; one that had to be changed ends in a mark of the original."""
    # Most texts are printable, and that check is ten times as fast as the pattern.
    if len(text) <= LONGEST and (text.isprintable() or not _UNREADABLE.search(text)):
        return text
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    kept = _UNREADABLE.sub("\ufffd", text[: LONGEST - len(mark) - 1])
    return f"{kept}~{mark}"
