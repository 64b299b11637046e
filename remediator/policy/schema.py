"""What a policy file may say: every key, with its type, its meaning and the reason for it.

`load` reads a file by these, and `tools/generated_docs` writes docs/policy.md from them. A key that
is left out changes nothing, so a file for an older version works. A file with an unknown key is
refused, so that one for a newer version is never obeyed in part. Pure.
"""

from typing import Annotated

from pydantic import BeforeValidator, StrictBool

from remediator.policy.budget import BudgetText
from remediator.policy.section import Section, key
from remediator.policy.table import Ceiling, ForExtended, Mode, Then
from remediator.policy.values import (
    DURATION,
    MOMENT,
    NAMES,
    Day,
    Duration,
    Incidents,
    LengthOfAWindow,
    Moment,
    Names,
    Text,
    TimeOfDay,
    UpToAYear,
    Uuids,
    WrittenMoment,
    Zone,
)

_MODE = key(
    "a mode",
    "`off`: the class is ignored. `incident-only`: incidents, no rules. `dry-run`: rules with "
    "effect `None` on allocated devices. `enforce`: up to the ceiling.",
    "Enable classes one by one. Lowering a mode removes rules at once.",
)
_SETTLE = key(
    DURATION,
    "From the last NoSchedule of a scope to its first NoExecute; a patient class also waits so "
    "long for its second source.",
    "Scheduler and eviction controller watch apart: an evicted pod must not land on a sibling "
    "that is about to be tainted.",
)
_SOAK = key(
    DURATION,
    "How long evidence of health must hold, without a gap, before the rules go. Longer than "
    "`settle`. An incident of several classes has the longest of theirs.",
    "A GPU that answers after a reset may fail again with the next load.",
)
_PROBATION = key(
    DURATION,
    "After the untaint, a new fault within this time counts as a relapse.",
    "The repair may not have worked.",
)
_REPEAT = key(
    "a mapping",
    "When repeated incidents of one GPU need a user. Written whole: what it leaves out is as "
    "shipped.",
)


class RepeatText(Section):
    count: Incidents | None = key(
        "a whole number above 0",
        "The n-th incident of one GPU within the window is sticky. Requested repairs count, too, "
        "after which it failed again in the same incident.",
        "Repeated failures of one GPU interrupt one job after another.",
    )
    within: UpToAYear | None = key(
        DURATION, "The window, at most 365d.", "Old incidents do not count."
    )


_EVICT = key(
    "a mapping",
    "Between NoSchedule and NoExecute: pods that hold a tainted device are evicted by the Eviction "
    "API. Written whole: what it leaves out is as below.",
    "NoExecute ignores PodDisruptionBudgets and gives pods no time to checkpoint.",
)


class EvictText(Section):
    within: Duration | None = key(
        DURATION,
        "How long pods are evicted by the Eviction API, from the first attempt on. `0s` with "
        "`then: NoExecute`: no evictions, NoExecute follows `settle`.",
        "A hold, an emergency stop or a maintenance window restarts it, and time in which "
        "nothing can be requested does not count, so pods always get the whole time.",
    )
    then: Then | None = key(
        "a next step",
        "`NoExecute`: pods that are left are deleted by the taint. `wait`: evictions "
        "continue, with the condition `EvictionBlocked`, and do not count in `budget.evict`.",
        "Not every fault is worth an outage that a PodDisruptionBudget forbids.",
    )
    extended_resources: ForExtended | None = key(
        "an action",
        "For pods that have the GPU by an extended resource, under `then: NoExecute`: `wait` "
        "keeps requesting evictions, `delete` deletes them, which needs the right to delete pods.",
        "NoExecute does not reach them (kubernetes#141290).",
        written="extendedResources",
    )


class DefaultsText(Section):
    """What may be set for all classes at once."""

    mode: Mode | None = _MODE
    settle: Duration | None = _SETTLE
    soak: Duration | None = _SOAK
    repeat: RepeatText | None = _REPEAT
    probation: Duration | None = _PROBATION
    evict: EvictText | None = _EVICT


class RowText(Section):
    """What may be set for one class."""

    mode: Mode | None = _MODE
    ceiling: Ceiling | None = key(
        "a ceiling",
        "The strongest effect: `observe` (no rule at all), `None` (a mark), `NoSchedule` (no "
        "new pods), `NoExecute` (pods are deleted).",
        "Each class has its own; one whose evidence never justifies deleting pods cannot be "
        "raised to NoExecute.",
    )
    settle: Duration | None = _SETTLE
    soak: Duration | None = _SOAK
    patient: StrictBool | None = key(
        "true or false",
        "Whether doubtful evidence waits for a second source, up to `settle`, before anything "
        "is tainted.",
        "For signals that often arrive in two parts, of which the second says how far to go.",
    )
    repeat: RepeatText | None = _REPEAT
    sticky: StrictBool | None = key(
        "true or false",
        "Whether recovery alone never untaints: a user confirms the repair.",
        "Some faults hide after a reset.",
    )
    probation: Duration | None = _PROBATION
    evict: EvictText | None = _EVICT


class ClassesText(Section):
    """One entry per class of fault."""

    suspect: RowText | None = key(
        "a mapping",
        "XIDs that follow the GPU and not the job: 13, 31, and 94 without MIG.",
    )
    pending: RowText | None = key(
        "a mapping", "A reset when convenient: a row remap or page retirement waits."
    )
    contained: RowText | None = key(
        "a mapping", "An error contained in one slice or process (XID 94)."
    )
    fabric: RowText | None = key("a mapping", "NVLink, NVSwitch or IMEX: the links, not the GPU.")
    memory: RowText | None = key(
        "a mapping", "A failed row remap, or the SRAM error threshold exceeded."
    )
    gpu: RowText | None = key("a mapping", "The GPU needs a reset.")
    lost: RowText | None = key("a mapping", "The GPU is off the bus.")
    node: RowText | None = key("a mapping", "The driver requests a reboot.")


class MatchText(Section):
    device_class: Names | None = key(
        NAMES,
        "DeviceClasses through which the GPU or a slice of it is claimed, as of the opening of "
        "its incident.",
        written="deviceClass",
    )
    driver: Names | None = key(NAMES, "DRA drivers that publish it.")
    pool: Names | None = key(NAMES, "Pools in which it is published.")
    node: Names | None = key(NAMES, "Nodes by name.")


class OverrideText(Section):
    match: MatchText | None = key(
        "a mapping",
        "Which places are meant: each key that is given must match. Required.",
        "Never labels: a kubelet can set labels on its own Node.",
    )
    defaults: DefaultsText | None = key("a mapping", "As above, for all classes at these places.")
    classes: ClassesText | None = key("a mapping", "As above, for single classes at these places.")


class WeeklyText(Section):
    day: Day = key("one of mon, tue, wed, thu, fri, sat, sun", "Required.", default=...)
    start: TimeOfDay = key(
        "a time of day such as 22:30", "By the clock of the zone. Required.", default=...
    )
    duration: LengthOfAWindow = key(DURATION, "Less than 7d. Required.", default=...)
    timezone: Zone | None = key("a zone such as Europe/Berlin", "Left out: UTC.")


class WindowText(Section):
    name: Text = key("a text", "Name of the window in incidents. Required, unique.", default=...)
    nodes: Names | None = key(NAMES, "Nodes by name; either this or `pools`.")
    pools: Names | None = key(NAMES, "Pools; either this or `nodes`.")
    from_: WrittenMoment | None = key(MOMENT, "When it opens; with `until`.", written="from")
    until: WrittenMoment | None = key(MOMENT, "When it closes.")
    weekly: WeeklyText | None = key("a mapping", "Instead of `from` and `until`: once a week.")


class ExemptText(Section):
    devices: Uuids | None = key(
        "a UUID (GPU-... or MIG-...), or a list of them",
        "GPUs; a slice's UUID means the GPU that it is on. One of `devices`, `nodes`, `pools`.",
        "A UUID stays with its board, wherever that is plugged in.",
    )
    nodes: Names | None = key(NAMES, "Nodes by name.")
    pools: Names | None = key(NAMES, "Pools.")
    why: Text = key("a text", "Shown in the incident. Required.", default=...)
    until: Moment | None = key(
        MOMENT,
        "When the exemption ends; left out: never.",
        why="Then sick GPUs are tainted; evictions there wait for `correlation.after_change`.",
    )


class EmergencyText(Section):
    by: Text = key("a text", "The user who set it. Required.", default=...)
    why: Text = key("a text", "Why. Required.", default=...)


def _read_switch(stated: object) -> object:
    """Read `true` and `false` as well, which name no user."""
    if isinstance(stated, bool):
        return EmergencyText.model_construct(by="", why="") if stated else None
    return stated


class PolicyText(Section):
    defaults: DefaultsText | None = key("a mapping", "For every class; `classes` overrides it.")
    classes: ClassesText | None = key("a mapping", "What holds for single classes.")
    overrides: tuple[OverrideText, ...] | None = key(
        "a list",
        "What is different at some places. Later entries win over earlier ones.",
        "A GPU that is claimed through two DeviceClasses gets, key by key, the mildest of what "
        "they say.",
    )
    maintenance: tuple[WindowText, ...] | None = key(
        "a list",
        "Windows in which no new taint or eviction begins at some places.",
        "Existing taints stay; recovery continues.",
    )
    exempt: tuple[ExemptText, ...] | None = key(
        "a list",
        "Devices that are incident-only whatever the classes say.",
        "Their taint rules are removed at once.",
    )
    budget: BudgetText | None = key(
        "a mapping", "How many GPUs may have Draguard's rules at once; see below."
    )
    emergency_stop: Annotated[EmergencyText | None, BeforeValidator(_read_switch)] = key(
        "`by` and `why`, or true",
        "Stops all new taints and evictions everywhere.",
        "Existing taints stay; recovery continues.",
    )
