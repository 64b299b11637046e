"""Fleets in few words: GPUs `a0`, `a1`, `b0`... on `node-a`, `node-b`..., one device each."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from exporter.model.device import Device
from kubeapi.types import ObjectMeta
from remediator.diagnose.fault import Need, Unknown
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.incident_status import TimelineEntry
from remediator.model.taint_rule import Effect, Rule
from remediator.plan.grants import grant_all
from remediator.plan.stages import Demanded, Granted, Repair
from remediator.plan.view import Fleet, GpuPlace
from remediator.policy.limits import Limits
from remediator.policy.place import ANYWHERE, Place
from remediator.policy.table import Policy
from tests.remediator.builders import (
    DRIVER,
    at,
    make_board,
    make_demanded,
    make_status,
    policy,
    uuid,
    with_fields,
)

NOW = at(0)
NOT_LOOKED_AT = Unknown("not looked at")


def node_of(name: str) -> str:
    """Return the node of GPU `a0`."""
    return f"node-{name[0]}"


def gpu_of(name: str) -> str:
    return uuid(int(name[1:]), node_of(name))


def an_incident(
    name: str,
    cause: str = "xid-95",
    fault: str = "gpu",
    opened: datetime | None = NOW,
    number: int = 1,
    **status: object,
) -> Incident:
    """An incident of one GPU; `opened` None: it is not stored yet."""
    timeline = (TimelineEntry(opened, "Suspected", "opened"),) if opened else ()
    return Incident(
        ObjectMeta(name=f"{name}-{number}", uid=f"uid-{name}-{number}" if opened else ""),
        IncidentSpec(node_of(name), gpu_of(name)),
        with_fields(make_status(fault_class=fault, cause=cause, timeline=timeline), **status),
    )


def rule(name: str, effect: Effect, device: str = "", fault: str = "gpu", **fields: object) -> Rule:
    standard = Rule(
        device=Device(DRIVER, node_of(name), device or f"gpu-{name[1:]}"),
        effect=effect,
        fault=fault,
        cause="xid-95",
        incident=f"{name}-1",
        uuid=gpu_of(name),
        gpu=gpu_of(name),
        node=node_of(name),
    )
    return with_fields(standard, **fields)


def stored(*rules: Rule) -> tuple[Rule, ...]:
    return tuple(
        msgspec.structs.replace(taint_rule, uid=f"uid-{taint_rule.device}", resource_version="1")
        for taint_rule in rules
    )


def desired(
    name: str,
    *effects: Effect,
    incident: Incident | None = None,
    calls: Need = "nothing",
    rules: tuple[Rule, ...] | None = None,
    **fields: Any,
) -> Demanded:
    """What should be so for one GPU: a rule for each effect, on a device of its own."""
    made = tuple(
        rule(name, effect, device="" if number == 0 else f"gpu-{name[1:]}-part-{number}")
        for number, effect in enumerate(effects)
    )
    return make_demanded(
        gpu_of(name),
        *(made if rules is None else rules),
        incident=incident or an_incident(name),
        repair=Repair(calls=calls),
        **fields,
    )


def place(name: str, **fields: object) -> GpuPlace:
    standard = GpuPlace(node=node_of(name), pools=frozenset({f"{DRIVER}/{node_of(name)}"}))
    return with_fields(standard, **fields)


def places(*names: str, **fields: object) -> dict[str, GpuPlace]:
    return {gpu_of(name): place(name, **fields) for name in names}


def budget(
    all_desired: Iterable[Demanded],
    fleet: Fleet,
    rows: Policy,
    now: datetime = NOW,
    *,
    seen: Place = ANYWHERE,
    calling: bool = False,
) -> tuple[Granted, ...]:
    """Return what is granted to GPUs whose own boards defer nothing; `seen`: where these are."""
    boards = [
        (make_board(NOT_LOOKED_AT, uuid=each.uuid, node=node_of(each.uuid[4:]), place=seen), each)
        for each in all_desired
    ]
    return grant_all(boards, fleet, rows, now, calling=calling)


def is_whole(answer: Granted) -> bool:
    """Whether a GPU gets what is demanded for it."""
    return answer.rules == answer.demanded.rules and not answer.deferrals


def grant(
    limits: Limits, fleet: Fleet, *all_desired: Demanded, now: datetime = NOW, calling: bool = False
) -> dict[str, Granted]:
    """Return what was granted, by GPU as `a0`."""
    answers = budget(all_desired, fleet, policy(limits), now, calling=calling)
    return {
        answer.incident.name.partition("-")[0] if answer.incident else "": answer
        for answer in answers
    }


def effects(answer: Granted) -> list[str]:
    return [taint_rule.effect for taint_rule in answer.rules]
