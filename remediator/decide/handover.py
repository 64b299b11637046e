"""Node-level acts are handed over: a condition of the Node says what is needed. Pure."""

from collections.abc import Iterable
from datetime import datetime

from remediator.decide.case import Case, Desired
from remediator.decide.plan import WriteNodeCondition
from remediator.decide.view import NodeView


def conditions(
    view: NodeView, pairs: Iterable[tuple[Case, Desired]], now: datetime
) -> tuple[WriteNodeCondition, ...]:
    """Return the conditions that the node should get; none where we may not write any."""
    del view, pairs, now
    return ()
