"""What the steps of a plan would begin to do to running pods.

Before a disruption begins, its facts are read from the API server once more. Pure.
"""

from collections.abc import Iterable, Mapping

import msgspec

from exporter.model.device import Device
from remediator.model.incident import AffectedPod, Incident
from remediator.model.node import PROBLEM, NodeCondition
from remediator.model.taint_rule import EVICTING, Rule
from remediator.plan.board import Board
from remediator.plan.brakes import is_stronger
from remediator.plan.stages import Demanded
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteRule,
    EvictPod,
    Step,
    WriteNodeConditions,
)


def _disrupts(rule: Rule, stored: Rule | None) -> bool:
    """Whether a rule begins to evict pods, or to delete those that would not be evicted."""
    return rule.effect in EVICTING and is_stronger(rule, stored)


def _was_confirmed(board: Board, incident: Incident) -> bool:
    """Whether the pods of an incident are being evicted, which was confirmed when it began."""
    status = incident.status
    anew = status.eviction_start_time is None and all(
        rule.effect != "NoExecute" for rule in board.rules.stored
    )
    return incident.open and status.evicting_at is not None and not anew


class Disruption(msgspec.Struct, frozen=True):
    """What steps would do to running pods, or end: its facts are read anew before."""

    devices: frozenset[Device] = frozenset()
    """Of which pods would begin to be evicted."""
    repair: bool = False
    """A repair of the node would be called for."""
    continued: frozenset[AffectedPod] = frozenset()
    """Pods of which an eviction is requested that has begun: only users may have stopped it."""
    untainted: frozenset[str] = frozenset()
    """Names of the incidents that verified recovery would end, with their rules."""

    def __bool__(self) -> bool:
        """Whether something begins."""
        return bool(self.devices or self.repair)

    @property
    def of_intents(self) -> frozenset[Device]:
        """Return the devices for which what users want matters."""
        return self.devices | {_device(pod) for pod in self.continued}


def disruption(
    steps: Iterable[Step], cases: Iterable[Board], conditions: Iterable[NodeCondition]
) -> Disruption:
    """Return what steps begin, and go on with: that was confirmed when it began."""
    begun = {
        board.uuid
        for board in cases
        for incident in board.incidents
        if _was_confirmed(board, incident)
    }
    reported = {
        condition.type
        for condition in conditions
        if condition.status == PROBLEM.get(condition.type)
    }
    devices: set[Device] = set()
    continued: set[AffectedPod] = set()
    repair = False
    for step in steps:
        match step:
            case CreateRule(rule) if _disrupts(rule, None):
                devices.add(rule.device)
            case ChangeRule(stored, rule) if _disrupts(rule, stored):
                devices.add(rule.device)
            case EvictPod(gpu, pod) if gpu in begun:
                continued.add(pod)
            case EvictPod(_, pod):
                devices.add(_device(pod))
            case WriteNodeConditions(_, written):
                asking = {
                    condition.type
                    for condition in written
                    if condition.status == PROBLEM.get(condition.type)
                }
                repair |= bool(asking - reported)
            case _:
                pass
    return Disruption(frozenset(devices), repair, frozenset(continued))


def untainting(steps: Iterable[Step], all_demanded: Iterable[Demanded]) -> Mapping[str, str]:
    """Return which GPUs steps untaint after verified recovery, with the incidents that end."""
    going = {step.stored.gpu for step in steps if isinstance(step, DeleteRule)}
    return {
        demanded.uuid: demanded.incident.name
        for demanded in all_demanded
        if demanded.course.kind == "closes" and demanded.incident and demanded.uuid in going
    }


def _device(pod: AffectedPod) -> Device:
    driver, pool, device = pod.device.split("/", 2)
    return Device(driver, pool, device)
