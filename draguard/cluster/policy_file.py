"""A policy from a file that somebody names on the command line."""

from pathlib import Path

from remediator.policy.document import LARGEST
from remediator.policy.error import PolicyError
from remediator.policy.reading import read
from remediator.policy.table import Policy


def policy_of(path: Path) -> Policy:
    """Return a file's policy. Raises PolicyError, for a file that cannot be read too."""
    try:
        with path.open("rb") as file:
            return read(file.read(LARGEST + 1))
    except OSError as error:
        raise PolicyError(f"it cannot be read: {error.strerror or error}") from error
