"""What a policy file may say: every key, with its type, its meaning and the reason for it.

`reading` reads a file by these, and `tools/generated_docs` writes docs/policy.md from
them. A key that is left out changes nothing, so a file written for an older
version works; an unknown key refuses the file, so that one written for a newer
version is never obeyed in part. Pure.
"""

from typing import Annotated

import msgspec

from remediator.policy.table import Ceiling, ForExtended, Mode, Then

DURATION = "a duration such as 500ms, 3s, 10m, 24h or 30d"
NAMES = "a name or pattern, or a list of them"
MOMENT = "a moment with its zone, such as 2026-01-05T14:00:00Z"


def _key(kind: str, what: str, why: str = "") -> msgspec.Meta:
    """Describe a key: what is written there, what it does, and why it is there."""
    return msgspec.Meta(title=kind, description=what, extra={"why": why})


_Names = str | tuple[str, ...] | None
_MODE = _key(
    "a mode",
    "`off`: the class is ignored. `incident-only`: incidents, no rules. `dry-run`: rules with "
    "effect `None` on allocated devices. `enforce`: up to the ceiling.",
    "Each class earns trust by itself. Lowering a mode takes our rules down at once.",
)
_SETTLE = _key(
    DURATION,
    "From the last NoSchedule of a scope to its first NoExecute; a patient class also waits so "
    "long for its second source.",
    "Scheduler and eviction controller watch apart: an evicted pod must not land on a sibling "
    "that is about to be tainted.",
)
_SOAK = _key(
    DURATION,
    "How long evidence of health must hold, without a gap, before the rules go. Longer than "
    "`settle`.",
    "A GPU that answers after a reset may fail again with the next load.",
)
_PROBATION = _key(
    DURATION,
    "For so long after the release a new fault counts as a relapse.",
    "A repair that does not last is no repair.",
)
_REPEAT = _key(
    "a mapping",
    "When repeated incidents of one GPU need a user. Written whole: what it leaves out is as "
    "shipped.",
)


class RepeatText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    count: Annotated[
        int | None,
        _key(
            "a whole number above 0",
            "The n-th incident of one GPU within the window is sticky.",
            "A GPU that fails, heals and fails again wears out jobs one by one.",
        ),
    ] = None
    within: Annotated[
        str | None, _key(DURATION, "The window, at most 365d.", "Old incidents are no evidence.")
    ] = None


_EVICT = _key(
    "a mapping",
    "Between NoSchedule and NoExecute: pods that hold a tainted device are evicted by the Eviction "
    "API. Written whole: what it leaves out is as below.",
    "NoExecute asks no PodDisruptionBudget and gives pods no time to checkpoint.",
)


class EvictText(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"extended_resources": "extendedResources"},
):
    within: Annotated[
        str | None,
        _key(
            DURATION,
            "How long pods are evicted by the Eviction API, from the first attempt on. `0s` with "
            "`then: NoExecute`: they are not, NoExecute follows `settle`.",
            "A hold, an emergency stop or a maintenance window restarts it, and time in which "
            "nothing can be requested does not count, so pods always get the whole time.",
        ),
    ] = None
    then: Annotated[
        Then | None,
        _key(
            "a next step",
            "`NoExecute`: pods that are left are deleted by the taint. `wait`: evictions are "
            "requested on, with the condition `EvictionBlocked` and outside of `budget.evict`.",
            "Not every fault is worth an outage that a PodDisruptionBudget forbids.",
        ),
    ] = None
    extended_resources: Annotated[
        ForExtended | None,
        _key(
            "an action",
            "For pods that have the GPU by an extended resource, under `then: NoExecute`: `wait` "
            "requests evictions on, `delete` deletes them, which needs the right to delete pods.",
            "NoExecute does not reach them (kubernetes#141290).",
        ),
    ] = None


class DefaultsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be said of all classes at once."""

    mode: Annotated[Mode | None, _MODE] = None
    settle: Annotated[str | None, _SETTLE] = None
    soak: Annotated[str | None, _SOAK] = None
    repeat: Annotated[RepeatText | None, _REPEAT] = None
    probation: Annotated[str | None, _PROBATION] = None
    evict: Annotated[EvictText | None, _EVICT] = None


class RowText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be said of one class."""

    mode: Annotated[Mode | None, _MODE] = None
    ceiling: Annotated[
        Ceiling | None,
        _key(
            "a ceiling",
            "The strongest effect: `observe` (no rule at all), `None` (a mark), `NoSchedule` (no "
            "new pods), `NoExecute` (pods are deleted).",
            "Each class has its own; one whose evidence never justifies moving pods cannot be "
            "raised to NoExecute.",
        ),
    ] = None
    settle: Annotated[str | None, _SETTLE] = None
    soak: Annotated[str | None, _SOAK] = None
    patient: Annotated[
        bool | None,
        _key(
            "true or false",
            "Whether doubtful evidence waits for a second source, up to `settle`, before anything "
            "is tainted.",
            "For signals that often arrive in two parts, of which the second says how far to go.",
        ),
    ] = None
    repeat: Annotated[RepeatText | None, _REPEAT] = None
    sticky: Annotated[
        bool | None,
        _key(
            "true or false",
            "Whether recovery alone never untaints: a user confirms the repair.",
            "Some faults hide after a reset.",
        ),
    ] = None
    probation: Annotated[str | None, _PROBATION] = None
    evict: Annotated[EvictText | None, _EVICT] = None


class ClassesText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry per class of fault."""

    suspect: Annotated[
        RowText | None, _key("a mapping", "Application XIDs that follow the GPU and not the job.")
    ] = None
    pending: Annotated[
        RowText | None,
        _key("a mapping", "A reset when convenient: a row remap or page retirement waits."),
    ] = None
    contained: Annotated[
        RowText | None, _key("a mapping", "An error contained in one slice or process (XID 94).")
    ] = None
    fabric: Annotated[
        RowText | None, _key("a mapping", "NVLink, NVSwitch or IMEX: the links, not the GPU.")
    ] = None
    memory: Annotated[
        RowText | None,
        _key("a mapping", "A failed row remap, or the SRAM error threshold exceeded."),
    ] = None
    gpu: Annotated[RowText | None, _key("a mapping", "The GPU needs a reset.")] = None
    lost: Annotated[RowText | None, _key("a mapping", "The GPU is off the bus.")] = None
    node: Annotated[RowText | None, _key("a mapping", "The driver wants a reboot.")] = None


class MatchText(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"device_class": "deviceClass"}
):
    device_class: Annotated[
        _Names,
        _key(
            NAMES,
            "DeviceClasses through which the GPU or a slice of it is claimed, as of the opening of "
            "its incident.",
        ),
    ] = None
    driver: Annotated[_Names, _key(NAMES, "DRA drivers that publish it.")] = None
    pool: Annotated[_Names, _key(NAMES, "Pools in which it is published.")] = None
    node: Annotated[_Names, _key(NAMES, "Nodes by name.")] = None


class OverrideText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    match: Annotated[
        MatchText | None,
        _key(
            "a mapping",
            "Which places are meant: each key that is given must match. Required.",
            "Never labels: a kubelet can set labels on its own Node.",
        ),
    ] = None
    defaults: Annotated[
        DefaultsText | None, _key("a mapping", "As above, for all classes at these places.")
    ] = None
    classes: Annotated[
        ClassesText | None, _key("a mapping", "As above, for single classes at these places.")
    ] = None


class WeeklyText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    day: Annotated[str | None, _key("one of mon, tue, wed, thu, fri, sat, sun", "Required.")] = None
    start: Annotated[
        str | None, _key("a time of day such as 22:30", "By the clock of the zone. Required.")
    ] = None
    duration: Annotated[str | None, _key(DURATION, "Less than 7d. Required.")] = None
    timezone: Annotated[str | None, _key("a zone such as Europe/Berlin", "Left out: UTC.")] = None


class WindowText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    name: Annotated[
        str | None, _key("a text", "What incidents call the window. Required, and its own.")
    ] = None
    nodes: Annotated[_Names, _key(NAMES, "Nodes by name; either this or `pools`.")] = None
    pools: Annotated[_Names, _key(NAMES, "Pools; either this or `nodes`.")] = None
    from_: Annotated[str | None, _key(MOMENT, "When it opens; with `until`.")] = None
    until: Annotated[str | None, _key(MOMENT, "When it closes.")] = None
    weekly: Annotated[
        WeeklyText | None, _key("a mapping", "Instead of `from` and `until`: once a week.")
    ] = None


class ExemptText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    devices: Annotated[
        _Names,
        _key(
            "a UUID (GPU-... or MIG-...), or a list of them",
            "GPUs; a slice's UUID means the GPU that it is on. One of `devices`, `nodes`, `pools`.",
            "A UUID stays with its board, wherever that is plugged in.",
        ),
    ] = None
    nodes: Annotated[_Names, _key(NAMES, "Nodes by name.")] = None
    pools: Annotated[_Names, _key(NAMES, "Pools.")] = None
    why: Annotated[
        str | None, _key("a text", "Shown in the incident. Required.", "Someone will ask.")
    ] = None
    until: Annotated[
        str | None,
        _key(MOMENT, "When it runs out; left out: never.", "Exceptions are forgotten."),
    ] = None


class EmergencyText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    by: Annotated[str | None, _key("a text", "The user who set it. Required.")] = None
    why: Annotated[str | None, _key("a text", "Why. Required.")] = None


class PolicyText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    defaults: Annotated[
        DefaultsText | None, _key("a mapping", "What holds for every class, unless it says more.")
    ] = None
    classes: Annotated[ClassesText | None, _key("a mapping", "What holds for single classes.")] = (
        None
    )
    overrides: Annotated[
        tuple[OverrideText, ...] | None,
        _key(
            "a list",
            "What is different at some places. Later entries win over earlier ones.",
            "A GPU that several candidates match (two DeviceClasses, two pools) gets, key by key, "
            "the mildest of what they say.",
        ),
    ] = None
    maintenance: Annotated[
        tuple[WindowText, ...] | None,
        _key(
            "a list",
            "Windows in which no new taint or eviction begins at some places.",
            "What already stands stays, and healing goes on.",
        ),
    ] = None
    exempt: Annotated[
        tuple[ExemptText, ...] | None,
        _key(
            "a list",
            "Devices that are incident-only whatever the classes say.",
            "Rules of ours on them come down at once.",
        ),
    ] = None
    budget: Annotated[
        dict[str, object] | None,
        _key("a mapping", "How many GPUs may carry rules of ours at once; see below."),
    ] = None
    emergency_stop: Annotated[
        EmergencyText | bool | None,
        _key(
            "`by` and `why`, or true",
            "Stops all new taints and evictions everywhere.",
            "Healing goes on, and what stands stays.",
        ),
    ] = None
