"""Foreign text as a label value: whatever it is, it survives the page and stays distinct."""

import hashlib
import re

LONGEST = 256
"""Characters; Kubernetes' own names have 253 at most and are never cut."""
_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""Prometheus ends its reading at a NUL, and lone surrogates are no UTF-8. A line break is kept:
the page escapes it, as it does quotes and backslashes."""


def value(text: str) -> str:
    """Return text as a label value; one that had to be changed ends in a mark of the original."""
    # Hardly any needs it, and looking at a plain one is ten times as fast.
    if len(text) <= LONGEST and (text.isprintable() or not _UNREADABLE.search(text)):
        return text
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    kept = _UNREADABLE.sub("\ufffd", text[: LONGEST - len(mark) - 1])
    return f"{kept}~{mark}"
