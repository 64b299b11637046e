"""What somebody may have meant who wrote a name that is not there. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST = 3
"""Names that are offered."""
ALIKE = 0.75
"""From 0 to 1, as difflib counts: one letter wrong in five, and no more."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean X or Y?)`: what begins so, else what is alike; "" for nothing."""
    names = {one.lower(): one for one in known if one}
    wanted = word.lower()
    begun = [one for one in sorted(names) if wanted and one.startswith(wanted)]
    near = begun[:MOST] or get_close_matches(wanted, names, MOST, ALIKE)
    return f" (did you mean {' or '.join(names[one] for one in near)}?)" if near else ""
