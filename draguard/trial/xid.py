"""An XID into NVIDIA's catalogue entry, our row, and the response of the policy. Pure."""

from collections.abc import Mapping
from datetime import datetime
from itertools import chain

import msgspec

from draguard.trial.explanation import Explanation, explain
from draguard.trial.kernel_log import ASSUMED, KernelLog
from draguard.trial.run import Spot
from draguard.trial.signal import Signal
from exporter.model import nvlink5, xid
from remediator.diagnose.xid_table import Companion, classified_codes, rule_of
from remediator.policy.table import Policy

READ_AS = {
    "stands": "a fault until its recovery is verified",
    "never": "not a fault by itself: it is counted, and the driver's recovery action decides",
    "flags": "RST and D-RST in the kernel line change the action",
    "remapped": "with XID 63 or 64, running work may finish first",
    "repeated": "a single one is tolerated; without a recovery action, three are a fault",
    "named": "the XID that the line names as its cause decides",
    "peers": "not a fault of this GPU if a peer on the node was lost at the same time",
    "decoded": "the hex words of the line decide, see the sub-codes",
}
"""By rule of remediator/data/xid_rules.csv."""


_READINGS: Mapping[Companion, Mapping[str, object]] = {
    "GpuLost": {"lost": True},
    "RemapPending": {"remap_pending": True},
    "RemapFailure": {"remap_failure": True},
    "Reset": {"recovery_action": 1},
}
_NAMED = 3
"""The instance that NVML names in the event of a contained error on a GPU with slices."""
UNKNOWN_XID_ALERT = "DraguardXidUnknown"


class SubCode(msgspec.Struct, frozen=True, kw_only=True):
    """One meaning of the hex words of an NVLink5 error."""

    unit: str
    reason: str
    """Bits 25:20 of the first word (drivers from R575), "" for any."""
    error_status: str
    action: str
    severity: str
    origin: str
    effect: str


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    mnemonic: str
    description: str
    immediate_action: str
    """NVIDIA's resolution bucket, "" for no guidance."""
    investigatory_action: str
    xid_class: str
    """The exporter's grouping."""
    fault: str
    """The remediator's class of fault, "" when it is none by itself."""
    needs: str
    read_as: str
    note: str
    sub_codes: tuple[SubCode, ...]
    alert: str
    """The alert that fires because no table classifies the code; "" where one does."""
    policy: str
    """The source of the policy."""
    kernel_log: str
    """Why the course assumes its way of reading the kernel log."""
    alone: str
    """Flags of `draguard policy explain` for the code alone; "" where the course plays it alone."""
    course: Explanation


def known(
    code: int,
    policy: Policy,
    source: str,
    now: datetime,
    *,
    mig: bool = False,
    log: KernelLog = ASSUMED,
    rules_served: bool = True,
) -> Knowledge:
    """Return everything about a code, listed or not, and what follows it and its companions."""
    row, listed = rule_of(code), xid.lookup(code)
    alone = Signal(xid=code, mig=mig, kernel_log=log.mode)
    companions = dict(chain.from_iterable(_READINGS[word].items() for word in row.comes_with))
    if mig and row.fault == "contained":
        companions = {"gi": _NAMED}
    signal = msgspec.structs.replace(alone, **companions)
    flags = f"--xid {code}{' --mig' * mig}{' --without-rules' * (not rules_served)}"
    return Knowledge(
        code=code,
        mnemonic=listed.mnemonic,
        description=listed.description,
        immediate_action=listed.immediate_action,
        investigatory_action=listed.investigatory_action,
        xid_class=listed.xid_class,
        fault=row.fault or "",
        needs=row.needs,
        read_as=READ_AS[row.rule],
        note=row.note,
        sub_codes=_sub_codes(code),
        alert="" if code in classified_codes() else UNKNOWN_XID_ALERT,
        policy=source,
        kernel_log=f"{log.mode}, {log.why}",
        alone=flags if signal != alone else "",
        course=explain(signal, Spot(rules_served=rules_served), policy, now),
    )


def _sub_codes(code: int) -> tuple[SubCode, ...]:
    found: dict[SubCode, None] = {}
    for row in nvlink5.sorts():
        if row.code != code:
            continue
        mask, value = (word >> 20 & 0x3F for word in row.patterns["v2"])
        sub_code = SubCode(
            unit="/".join(row.units),
            reason=f"{value:#04x}" if mask == 0x3F else "",
            error_status=" ".join(f"{status:#010x}" for status in row.statuses) or "any",
            action=" or ".join(filter(None, (row.action, row.stronger_action))),
            severity=row.severity,
            origin=row.origin,
            effect=row.effect,
        )
        found[sub_code] = None
    return tuple(found)
