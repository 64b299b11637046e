"""Whether a component acts on our rules: they may be served while the gate is off elsewhere.

The API server then stores rules that no scheduler and no eviction controller looks at. From
Kubernetes 1.35 on the eviction controller writes the condition `EvictionInProgress` into each
NoExecute rule at once, also when there is no pod to evict. A rule that has none of its present
generation after a minute was not looked at: a condition for its NoSchedule proves nothing about its
NoExecute. Before 1.35 rules have no status, and nothing can be concluded.
"""

import threading
from collections.abc import Callable
from time import monotonic

import msgspec

from kubeapi.store import Change
from remediator.model.taint_rule import RawRule, is_ours

CONDITION = "EvictionInProgress"
SILENT_AFTER = 60.0
"""Seconds, by our own clock, since the NoExecute was first seen."""
STATUS_SINCE_MINOR = 35


class RuleCondition(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    observed_generation: int | None = None
    """The generation of the rule when this was written; None where it is absent."""


class RuleStatus(msgspec.Struct, frozen=True):
    conditions: tuple[RuleCondition, ...] | None = ()


class StatedRule(RawRule, frozen=True):
    """A DeviceTaintRule with the conditions of the eviction controller."""

    status: RuleStatus = RuleStatus()


class Gates:
    """Remembers since when each of our NoExecute rules has stood without such a condition."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._since: dict[str, tuple[int, float]] = {}
        """By name: the generation that has no condition, and since when."""

    def on_rule(self, change: Change[StatedRule]) -> None:
        """Take in a change of any rule, ours or not."""
        with self._guard:
            if change.new is not None and _awaits_condition(change.new):
                generation = change.new.metadata.generation
                known = self._since.get(change.key)
                if known is None or known[0] != generation:
                    self._since[change.key] = generation, self._clock()
            else:
                self._since.pop(change.key, None)

    def ignored_rules(self) -> tuple[str, ...]:
        """Return the names of rules that should have been acted on by now and were not."""
        before = self._clock() - SILENT_AFTER
        with self._guard:
            found = [name for name, (_, since) in self._since.items() if since < before]
        return tuple(sorted(found))


def _awaits_condition(rule: StatedRule) -> bool:
    # A condition without a generation counts as one of the present generation.
    now = (None, rule.metadata.generation)
    conditions = [
        condition for condition in rule.status.conditions or () if condition.type == CONDITION
    ]
    looked_at = any(condition.observed_generation in now for condition in conditions)
    return is_ours(rule) and rule.spec.taint.effect == "NoExecute" and not looked_at


def has_status(version: str | None, minor: int | None) -> bool:
    """Whether rules of this version have a status on a server of this minor release."""
    if version in ("v1", "v1beta2"):
        return True
    return version is not None and minor is not None and minor >= STATUS_SINCE_MINOR
