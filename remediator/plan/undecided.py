"""A GPU about which nothing can be decided: it is unknown, and all stays as it stands.

Either this program fails on it, or its stored objects cannot be read. That costs this GPU its
decision and no other GPU theirs. What is tainted stays tainted and still counts against the
budgets, which are counted from what is stored. Pure.
"""

from collections.abc import Callable

import msgspec

from remediator.diagnose.fault import Unknown, attempt
from remediator.plan.case import Case, Desired


def undecided(case: Case, why: Unknown) -> tuple[Case, Desired]:
    """Return the case of a GPU with an answer that changes nothing about it."""
    blind = msgspec.structs.replace(case, verdict=why, gpu=None, leftovers=(), blank=why)
    return blind, Desired(uuid=case.uuid, rules=case.rules, reason=why.why, undecided=why)


def or_undecided(case: Case, answer: Callable[[], Desired]) -> tuple[Case, Desired]:
    """Return a case with its answer; where this program fails to give one, nothing changes."""
    desired = attempt(answer)
    return undecided(case, desired) if isinstance(desired, Unknown) else (case, desired)
