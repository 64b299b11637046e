"""How many examples a property tries: few in `make test`, all in a search (`make verify`)."""

from hypothesis import settings

SEARCH = "search"
"""Name of the profile, as `--hypothesis-profile` takes it."""
FEWEST = 20


def examples(searched: int) -> int:
    """Return how many to try now of a property for which a search tries this many."""
    searching = settings.get_current_profile_name() == SEARCH
    return searched if searching else max(searched // 3, FEWEST)
