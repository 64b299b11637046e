"""Removes what was found, one after the other, and looks whether it is gone."""

from collections.abc import Callable, Iterator
from functools import partial

from draguard.cluster.removal import Found, Outcome, Remover
from kubeapi.client import ApiError
from remediator.model.taint_rule import RawRule

_STANDS = (
    "it still exists: a finalizer blocks its deletion, or a running remediator has created it "
    "again; lower the mode first, or use `draguard untaint`"
)
UNTRIED = "not tried: the server does not answer"

Rules = list[tuple[Found, RawRule]]
"""Ours, each as it is told of and as it is stored."""


def removed(
    releaser: Remover, rules: Rules, nodes: list[Found], left: Callable[[], list[Found]]
) -> list[Outcome]:
    """Remove, and return what became of each thing. `left` looks what is still there."""
    outcomes = _removed(releaser, rules, nodes)
    try:
        standing = left()
    except ApiError as error:
        why = f"removal was requested, but could not be verified: {error}"
        return [one if one.error else Outcome(one.found, why) for one in outcomes]
    return _looked_at(outcomes, standing)


def _removed(releaser: Remover, rules: Rules, nodes: list[Found]) -> list[Outcome]:
    """Remove one after the other; after a silence nothing more is tried."""
    steps = [partial(releaser.remove_rule, *one) for one in rules]
    steps += [partial(releaser.remove_conditions, one) for one in nodes]
    outcomes: list[Outcome] = []
    for step, found in zip(steps, (*(found for found, _ in rules), *nodes), strict=True):
        silent = outcomes and (outcomes[-1].unanswered or outcomes[-1].error == UNTRIED)
        outcomes.append(Outcome(found, UNTRIED) if silent else step())
    return outcomes


def _looked_at(outcomes: list[Outcome], left: list[Found]) -> list[Outcome]:
    """Return what became of each thing, seen with our own eyes: asked for is not yet gone."""
    standing = {(one.kind, one.name): Outcome(one, _STANDS) for one in left}
    told = [_now(one, standing.get((one.found.kind, one.found.name))) for one in outcomes]
    failed = {(one.found.kind, one.found.name) for one in told if one.error}
    return told + [one for key, one in standing.items() if key not in failed]


def _now(one: Outcome, standing: Outcome | None) -> Outcome:
    if standing is None:
        return Outcome(one.found)  # it is gone, whatever was answered
    return one if one.error else standing


def lines(outcomes: list[Outcome], done: str) -> Iterator[str]:
    """Say of each thing what became of it."""
    for one in outcomes:
        whose = f" (incident {one.found.incident})" if one.found.incident else ""
        end = f"NOT removed: {one.error}" if one.error else done
        yield f"{one.found.kind} {one.found.name}: {one.found.what}{whose}: {end}"
