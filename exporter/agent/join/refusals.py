"""Why the API server gives no answer, as a word that stays the same. Pure."""

_WORDS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 429: "RateLimited"}


def reason_of(status: int | None) -> str:
    """Return the reason of a source whose request ended with this HTTP status, None for none.

    A role that is missing must not be looked for in the network.
    """
    return _WORDS.get(status or 0, "Unreachable")
