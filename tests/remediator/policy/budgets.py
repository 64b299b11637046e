"""Limits as a policy file gives them."""

from collections.abc import Mapping

import msgspec

from remediator.policy.limits import Limits
from remediator.policy.load import read


def limits_of(budget: Mapping[str, object]) -> Limits:
    """Read the `budget` of a file that says nothing else. Raises PolicyError."""
    return read(msgspec.json.encode({"budget": budget})).limits
