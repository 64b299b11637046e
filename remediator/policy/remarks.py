"""Warnings about a valid policy: lines that do nothing, are over, or risk much. Pure."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from remediator.diagnose.fault import SEVERITY
from remediator.policy.duration import spell
from remediator.policy.limits import Limits
from remediator.policy.place import Match
from remediator.policy.table import HIGHESTS, MODES, Policy, Row
from remediator.policy.windows import Once, moment

SHORT_SOAK = timedelta(minutes=1)
SHORT_SETTLE = timedelta(seconds=1)
LONG_PAUSE = timedelta(days=7)


def remarks(policy: Policy, now: datetime, *, written: Collection[str] = ()) -> tuple[str, ...]:
    """Return warnings about a policy, each a sentence with its place in the file.

    `written`: the keys at the top of the file; a budget may be written as it is shipped.
    """
    found = [
        *_join_classes(_rows(policy)),
        *_budget(policy, written),
        *_windows(policy, now),
        *_exemptions(policy, now),
        *_hidden_overrides(policy),
        *_fleeting_overrides(policy),
    ]
    if policy.stopped:
        found.append(
            f"emergency_stop: set by {policy.stopped}; nothing new is tainted until it is removed"
        )
    return tuple(dict.fromkeys(found))


def _join_classes(found: Iterable[tuple[Row, str]]) -> Iterator[str]:
    """Yield one sentence for what one line of the file does to several classes."""
    classes: dict[tuple[str, str], list[str]] = {}
    for row, text in found:
        named = classes.setdefault((row.name, text), [])
        named += [] if row.fault_class in named else [row.fault_class]
    for (name, text), named in classes.items():
        some = "class" if len(named) == 1 else "classes"
        yield f"{name}: {some} {', '.join(named)}: {text}"


def _rows(policy: Policy) -> Iterator[tuple[Row, str]]:
    for row in _written_rows(policy):
        own = "classes." in row.name  # what is set for all classes is not meant for this one
        if own and row.mode in {"dry-run", "enforce"} and row.ceiling == "observe":
            yield row, f"mode {row.mode} does nothing while the ceiling is observe"
        if row.mode == "enforce" and row.soak < SHORT_SOAK:
            yield row, f"soak {spell(row.soak)} is short: a GPU that flaps is untainted"
        if row.mode == "enforce" and row.ceiling == "NoExecute" and row.settle < SHORT_SETTLE:
            yield (
                row,
                f"settle {spell(row.settle)} is short: an evicted pod may land on a device that "
                "is about to be tainted",
            )
        if own and row.evicts_first and row.ceiling != "NoExecute":
            yield row, f"evict does nothing while the ceiling is {row.ceiling}"


def _written_rows(policy: Policy) -> Iterator[Row]:
    """Yield each row that the file changes, and what each override alone makes of it."""
    for fault_class in SEVERITY:
        row = policy.row(fault_class)
        if row.name != "shipped":
            yield row
        for override in policy.overrides:
            if fault_class in override.changes:
                yield override.apply_to(row)


def _budget(policy: Policy, written: Collection[str]) -> Iterator[str]:
    own = "budget" in written or policy.limits != Limits()
    if not own and any(row.mode == "enforce" for row in _written_rows(policy)):
        yield (
            "budget: a class is enforced and the shipped budget holds; see what it allows in "
            "`draguard policy explain`, and write one that fits the cluster"
        )
    for name, caps in (("evict", policy.limits.evict), ("taint", policy.limits.taint)):
        node, cluster, rate = caps.node, caps.cluster, caps.rate
        # A share cannot be compared with a number of GPUs.
        if node is None or node.percent:
            continue
        if cluster is not None and not cluster.percent and 0 < cluster.amount <= node.amount:
            yield (
                f"budget.{name}.node: {node} is not below budget.{name}.cluster ({cluster}); one "
                "node can use up what the cluster may do"
            )
        if rate is not None and 0 < rate.count <= node.amount:
            yield (
                f"budget.{name}.node: {node} is not below budget.{name}.rate ({rate}); one node "
                "can use up the rate of the cluster"
            )


def _windows(policy: Policy, now: datetime) -> Iterator[str]:
    for index, window in enumerate(policy.maintenance):
        where = f"maintenance[{index}] ({window.name})"
        if not isinstance(window.when, Once):
            continue
        if window.when.until <= now:
            yield f"{where}: ended at {moment(window.when.until)}; remove it"
        if window.when.until - window.when.start > LONG_PAUSE:
            yield f"{where}: is longer than {LONG_PAUSE.days} days; use a lower mode instead"
    for index, window in enumerate(policy.maintenance):
        for other in policy.maintenance[:index]:
            if other.area == window.area and _overlap(other.when, window.when):
                yield f"maintenance[{index}] ({window.name}): overlaps with {other.name}"


def _overlap(one: object, other: object) -> bool:
    if isinstance(one, Once) and isinstance(other, Once):
        return one.start < other.until and other.start < one.until
    return one == other


def _exemptions(policy: Policy, now: datetime) -> Iterator[str]:
    for exemption in policy.exempt:
        if exemption.until is not None and exemption.until <= now:
            yield f"{exemption.name}: expired at {moment(exemption.until)}; remove it"


def _hidden_overrides(policy: Policy) -> Iterator[str]:
    """Warn of an override that a later one for the same places replaces completely."""
    for index, early in enumerate(policy.overrides):
        for late in policy.overrides[index + 1 :]:
            if early.match == late.match != Match() and all(
                key in late.changes
                and {*change.changed_fields()} <= {*late.changes[key].changed_fields()}
                for key, change in early.changes.items()
            ):
                yield f"{early.name}: does nothing; {late.name} overrides it for the same places"


def _fleeting_overrides(policy: Policy) -> Iterator[str]:
    """Warn of overrides by DeviceClass that go further than the policy for an unallocated GPU."""
    for override in policy.overrides:
        raised = [
            row.fault_class
            for row in policy.rows
            if override.match.device_classes and _strength(override.apply_to(row)) > _strength(row)
        ]
        if raised:
            yield (
                f"{override.name}: does more by deviceClass for {', '.join(raised)}; a GPU "
                "that is not allocated when its incident opens has no class, so this override "
                "does not apply. Raise by pool or node, lower by deviceClass"
            )


def _strength(row: Row) -> tuple[int, int]:
    return MODES.index(row.mode), HIGHESTS.index(row.highest)
