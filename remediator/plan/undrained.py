"""What keeps a GPU from being drained: pods, and claims without one, that nothing removes.

A GPU fills a budget while something that is done may still remove a pod: NoExecute, a request
within its time, a grace period. Else a process that hangs in the driver of a dead GPU, or a pod
whose eviction is never granted, would fill it for ever. Pure.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from remediator.model.claim import ADMIN, EXTENDED_RESOURCE
from remediator.model.incident_status import AffectedPod
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.board import Board
from remediator.plan.evictable import FOR_EVER, PASSED_BY, may_delete, skip_reason
from remediator.plan.pods import drainer_of, not_looked_at, pods_left
from remediator.plan.stages import ROUNDS, BlockedBy, Planned
from remediator.policy.windows import moment

NAMED = 5
"""Pods that a message names."""
STAYS_AFTER = timedelta(minutes=10)
"""How long NoExecute stands before pods that it does not remove are left to a user. Longer than the
grace period of most pods, and than the eviction controller needs to start anew."""
SOON = timedelta(days=1)
"""A pod that chooses to end later than this, by a toleration or a grace period, is not waited for
yet."""
DENIED = "NoExecute does not reach it, and its eviction was not granted"


class _Left(msgspec.Struct, frozen=True):
    """What keeps a GPU from being drained: a pod, or a claim without one."""

    holder: AffectedPod
    pod: PodFacts | None
    """None: no running pod is listed."""
    rule: Rule | None
    """None: nothing evicts it."""
    since: datetime | None
    """Since when what stands there, and may evict it, has stood."""

    @property
    def by_request(self) -> bool:
        """Whether it goes by an eviction that is requested, and not by NoExecute."""
        if self.rule is None or self.pod is None:
            return False
        return self.rule.effect == "Evict" or self.holder.via == EXTENDED_RESOURCE

    @property
    def name(self) -> str:
        if self.pod is None:
            return f"claim {self.holder.namespace}/{self.holder.claim}"
        # A PodDisruptionBudget may refuse because other pods are not Ready.
        ready = f" ({'Ready' if self.pod.ready else 'not Ready'})" if self.by_request else ""
        return f"{self.holder.namespace}/{self.holder.pod}{ready}"


def with_pods_left(
    board: Board,
    planned: Planned,
    requested: Mapping[str, Rule],
    no_execute: Mapping[str, Rule],
    now: datetime,
) -> Planned:
    """Return the same with what is left, once nothing that is done removes any of it."""
    found = dict[str, str]()
    for left in _all_left(board, planned, requested, no_execute):
        why = _why_left(board, planned, left, requested, now)
        if not why or not _time_is_over(planned, left, now):
            return planned
        found[left.name] = why
    if not found:
        return planned
    texts = [f"{name}: {why}" for name, why in found.items()]
    more = f"; and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    by: BlockedBy = "PodsJoin" if planned.joined_too_often else "DisruptionBudget"
    by = "PodsStay" if no_execute else by
    first = f"pods have joined a claim in more than {ROUNDS} rounds of evictions: "
    first = first if by == "PodsJoin" else ""
    return msgspec.structs.replace(
        planned, blocked=first + "; ".join(texts[:NAMED]) + more, blocked_by=by
    )


def _all_left(
    board: Board, planned: Planned, requested: Mapping[str, Rule], no_execute: Mapping[str, Rule]
) -> Iterator[_Left]:
    """Yield all that keeps a GPU from being drained: what is evicted, and what is beside it.

    Beside it are pods on a device that is not evicted from, such as one that nothing publishes now,
    and pods that run on without their device. Under requests alone they fill no budget.
    """
    rules = {**requested, **no_execute}
    starts = {entry.device: entry.start_time for entry in planned.evictions}
    running = {pod.uid: pod for pod in board.pods or () if pod.running}
    held = [pod for pod in board.users.holders if pod.device in rules and pod.via != ADMIN]
    for holder in sorted(held):
        rule, pod = rules[holder.device], running.get(holder.uid)
        # A claim that stays allocated keeps its device from being drained, also without a pod.
        # There is no eviction to request of it.
        if pod is not None or rule.effect != "Evict":
            since = rule.time_added if rule.effect == "NoExecute" else starts.get(holder.device)
            yield _Left(holder, pod, rule, since)
    goes = {pod.uid for pod in held}
    beside = pods_left(board, planned.incident) if planned.incident and no_execute else ()
    for holder in beside or ():
        if holder.uid not in goes:
            own = (rule for rule in board.rules.stored if str(rule.device) == holder.device)
            dates = [rule.time_added for rule in (*own, *no_execute.values())]
            known = [date for date in dates if date]
            since = max(known) if len(known) == len(dates) else None
            yield _Left(holder, running[holder.uid], None, since)


def _why_left(
    board: Board, planned: Planned, left: _Left, requested: Mapping[str, Rule], now: datetime
) -> str:
    """Return why what is done does not remove it, "" where it does, or may at any moment."""
    if left.pod is None:
        # A pod that is not listed may be there, and NoExecute may be about to remove it.
        unlisted = left.holder.device in not_looked_at(board)
        return "" if unlisted else "no pod is left, and it stays allocated"
    if left.pod.terminating:
        return _why_not_ended(left.pod, now)
    if left.rule is None:
        return f"nothing evicts it from {left.holder.device}"
    if left.rule.effect == "NoExecute" and left.by_request:
        return _why_not_reached(board, planned, left)
    if left.rule.effect == "NoExecute":
        return _why_tolerated(board, left, now)
    why = skip_reason(board, left.holder, requested, now)
    return why or board.users.refusals.get(left.pod.uid, "no answer yet")


def _why_not_ended(pod: PodFacts, now: datetime) -> str:
    """Return why a terminating pod is not waited for, "" while it is."""
    ends = pod.grace_ends
    if ends is None or now <= ends <= now + SOON:
        return ""
    if ends > now:
        return f"its grace period lasts until {moment(ends)}"
    return f"it is terminating and has not ended since {moment(ends)}"


def _why_not_reached(board: Board, planned: Planned, left: _Left) -> str:
    """Return why a pod stays that NoExecute does not reach, "" where it will be deleted instead."""
    uid = left.holder.uid
    if found := drainer_of(board, uid):
        return PASSED_BY[found.word]
    refusal = board.users.refusals.get(uid, "")
    return refusal or ("" if may_delete(planned.demanded.eviction.plan) else DENIED)


def _why_tolerated(board: Board, left: _Left, now: datetime) -> str:
    """Return why NoExecute does not delete a pod that it reaches, "" where it does."""
    lasting = board.users.tolerations.get((left.holder.uid, left.holder.device))
    if lasting is None or lasting == FOR_EVER:
        return "it tolerates NoExecute" if lasting else ""
    more = lasting - (now - (left.since or now))
    return f"it tolerates NoExecute for {more.days} more days" if more > SOON else ""


def _time_is_over(planned: Planned, left: _Left, now: datetime) -> bool:
    """Whether the time is over for which what is done counts, whatever comes of it."""
    since = left.since
    if left.rule is None or left.rule.effect == "NoExecute":
        later = left.rule is None or left.by_request
        came = left.pod.started if left.pod and later else None
        # An eviction is requested of a pod that came later as well, and may be granted.
        if since and came and since < came <= now:
            since = came
        return since is not None and now - since >= STAYS_AFTER
    if left.holder.device in planned.joined_too_often:
        return True  # nothing is requested there any more
    plan = planned.demanded.eviction.plan
    return bool(plan and since and now - since >= plan.within)
