"""Changes in the cluster as lines for users to read and for expectations to check.

Each line is in one of four columns: `story` (what the demo did), `seen` (by the exporters),
`decided` (by the remediator), `done` (in the cluster). Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from exporter.model import xid
from exporter.model.node_health import GpuHealth, NodeDeviceHealth
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.taint_rule import RawRule
from tools.demo.picture import Pod, consumers, rule_target

Column = Literal["story", "seen", "decided", "done"]
Kind = Literal["act", "xid", "instance", "presence", "phase", "rule", "evicted", "gone", "given"]
Names = Mapping[str, str]
"""What to call a GPU, by UUID."""

EVICTION = "DeletionByDeviceTaintManager"
"""Reason that the device taint eviction controller gives on a pod before it deletes it."""


class News(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    column: Column
    kind: Kind
    text: str
    subject: str = ""
    """UUID of a GPU (seen, decided), `pool/device` (rule), or UID of a pod."""
    value: str = ""
    """XID code, presence, phase, effect ("" when the rule went), reason, or device."""


class Entry(msgspec.Struct, frozen=True):
    """News and when it was received, in seconds since the demo began."""

    at: float
    news: News


def of_report(old: NodeDeviceHealth | None, new: NodeDeviceHealth | None) -> Iterator[News]:
    """Yield what a node's agent reported since its last report; nothing for the first one."""
    if old is None or new is None:
        return
    before = {gpu.uuid: gpu for gpu in old.status.gpus}
    for gpu in new.status.gpus:
        last = before.get(gpu.uuid)
        if last is not None:
            where = gpu_name(new.metadata.name, gpu)
            yield from _xids(where, last, gpu)
            if gpu.presence != last.presence:
                reason = f" ({gpu.presence_reason})" if gpu.presence_reason else ""
                yield News(
                    column="seen",
                    kind="presence",
                    text=f"{where} is {gpu.presence.lower()}{reason}",
                    subject=gpu.uuid,
                    value=gpu.presence,
                )


def gpu_name(node: str, gpu: GpuHealth) -> str:
    """Return the name of a GPU for users: its node and minor number."""
    return f"{node} GPU {gpu.minor}" if gpu.minor is not None else f"{node} {gpu.uuid}"


def _xids(where: str, old: GpuHealth, new: GpuHealth) -> Iterator[News]:
    before, after = _by_code(old), _by_code(new)
    for code, count in after.items():
        more = count - before.get(code, 0)
        if more > 0:
            times = f" {more} times" if more > 1 else ""
            in_short = re.split(r"[;,(]", xid.lookup(code).description)[0].strip()
            yield News(
                column="seen",
                kind="xid",
                text=f"{where}: XID {code}{times} ({in_short})",
                subject=new.uuid,
                value=str(code),
            )
    for code, gi in _instances(new) - _instances(old):
        yield News(
            column="seen",
            kind="instance",
            text=f"{where}: XID {code} was in GPU instance {gi}",
            subject=new.uuid,
            value=str(gi),
        )


def _by_code(gpu: GpuHealth) -> Mapping[int, int]:
    counts: dict[int, int] = {}
    for record in gpu.xids:
        counts[record.code] = counts.get(record.code, 0) + record.count
    return counts


def _instances(gpu: GpuHealth) -> set[tuple[int, int]]:
    return {(record.code, record.gi) for record in gpu.xids if record.gi is not None}


def of_incident(old: Incident | None, new: Incident | None, names: Names) -> Iterator[News]:
    """Yield each new entry of an incident's timeline."""
    if new is None:
        return
    known = set(old.status.timeline) if old else set[object]()
    where = names.get(new.spec.uuid, new.spec.uuid)
    for entry in new.status.timeline:
        if entry not in known:
            yield News(
                column="decided",
                kind="phase",
                text=f"{where} {entry.phase}: {entry.text}",
                subject=new.spec.uuid,
                value=entry.phase,
            )


def of_rule(old: RawRule | None, new: RawRule | None) -> Iterator[News]:
    """Yield that a device was tainted, that the effect changed, or that it was untainted."""
    rule = new or old
    if rule is None:
        return
    target, effect = rule_target(rule), new.spec.taint.effect if new else ""
    if old is not None and new is not None and old.spec.taint.effect == effect:
        return
    taint = rule.spec.taint
    text = f"{effect} on {target} ({taint.key}={taint.value})" if effect else f"{target} is free"
    yield News(column="done", kind="rule", text=text, subject=target, value=effect)


def of_claim(old: Claim | None, new: Claim | None) -> Iterator[News]:
    """Yield the pods to which a device was allocated."""
    before = set(consumers(old)) if old else set[tuple[str, str, str]]()
    for device, uid, pod in consumers(new) if new else ():
        if (device, uid, pod) not in before:
            text = f"the scheduler gives {device} to {pod}"
            yield News(column="done", kind="given", text=text, subject=uid, value=device)


def of_pod(old: Pod | None, new: Pod | None, device: str) -> Iterator[News]:
    """Yield that a pod to which `device` was allocated is being deleted, or is gone."""
    pod = new or old
    if pod is None:
        return
    name, uid = pod.metadata.name, pod.metadata.uid
    if new is None:
        text = f"{name} is gone from {device}"
        yield News(column="done", kind="gone", text=text, subject=uid, value=device)
    elif new.metadata.deletion_timestamp and not (old and old.metadata.deletion_timestamp):
        reason = next(
            (
                condition.reason
                for condition in new.status.conditions
                if condition.type == "DisruptionTarget"
            ),
            "",
        )
        by = "the eviction controller" if reason == EVICTION else reason or "somebody"
        text = f"{by} deletes {name} on {device}"
        yield News(column="done", kind="evicted", text=text, subject=uid, value=reason)
