"""A policy file's text into a `Policy`, or every problem in it with its line.

What a line means is decided by other lines too (the `settle` and the `soak` of
two overrides that meet at one place), so a file is read as a whole or not at
all: a policy that is obeyed in part is a policy that nobody wrote.
"""

from remediator.policy import changes, document, exceptions, shape
from remediator.policy.document import Path
from remediator.policy.error import PolicyError
from remediator.policy.limits import Limits, limits_of
from remediator.policy.scalars import Scalars
from remediator.policy.schema import PolicyText
from remediator.policy.table import SHIPPED, Override, Policy, Row


def read(text: str | bytes) -> Policy:
    """Read a policy. Raises PolicyError with every problem: its line, and what to write."""
    whole = document.compose(text)
    values = Scalars(whole)
    policy = _policy(shape.shaped(whole), values)
    if values.problems:
        raise PolicyError(*dict.fromkeys(values.problems))
    return policy


def _policy(said: PolicyText, read: Scalars) -> Policy:
    overrides = [
        changes.override(one, ("overrides", index), read)
        for index, one in enumerate(said.overrides or ())
    ]
    windows = [
        exceptions.window(one, ("maintenance", index), read)
        for index, one in enumerate(said.maintenance or ())
    ]
    exceptions.distinct(windows, read)
    exempt = [
        exceptions.exemption(one, ("exempt", index), read)
        for index, one in enumerate(said.exempt or ())
    ]
    return Policy(
        rows=_rows(said, overrides, read),
        limits=_limits(said.budget, read),
        overrides=tuple(overrides),
        maintenance=tuple(windows),
        exempt=tuple(exempt),
        stopped=exceptions.emergency(said.emergency_stop, read),
    )


def _rows(said: PolicyText, overrides: list[Override], read: Scalars) -> tuple[Row, ...]:
    """Return what holds outside overrides; the shipped rows when it makes no sense."""
    base = changes.changes(said.defaults, said.classes, (), read)
    changes.times_fit(base, overrides, read)
    if read.problems:
        return SHIPPED
    return tuple(
        base[row.fault_class].onto(row, changes.named(row.fault_class, said.defaults, said.classes))
        if row.fault_class in base
        else row
        for row in SHIPPED
    )


def _limits(raw: dict[str, object] | None, read: Scalars) -> Limits:
    """Return the budget; its own problems come with their path, and get their line here."""
    try:
        return limits_of(raw or {})
    except PolicyError as error:
        for problem in error.problems:
            where, _, why = problem.partition(" ")
            path: Path = tuple(where.rstrip(":").split("."))
            read.problem(path, why)
    return Limits()
