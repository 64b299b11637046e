"""What may be done about each class of fault: one row per class.

The safety argument, in prose, before the table:

A taint can kill jobs, so each class has its own ceiling. The shipped mode of every class is
`incident-only`: it records what it would do. A class whose evidence often arrives in two parts
(`patient`) is not tainted until the second part came or the settle time passed. A class under which
running work may finish (`memory`, `fabric`) never goes beyond NoSchedule. Recovery needs positive
evidence for the whole soak time. The soak is longer than the settle time, so that nothing is
untainted before its fault could be judged.

Which row holds depends on the place. Overrides apply in the order of the file, and later ones win.
For a GPU that is claimed through two DeviceClasses, the mildest value of each field holds. An
exemption caps the result. A device that is published in two pools is two devices, each under the
row of its own pool, so another publisher changes nothing for the first.

`load` and `file` read files; here are values only. Pure.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Literal, get_args

import msgspec

from remediator.diagnose.fault import SEVERITY, FaultClass
from remediator.policy.duration import spell
from remediator.policy.error import PolicyError
from remediator.policy.limits import Limits
from remediator.policy.place import ANYWHERE, Match, Place, Point, points
from remediator.policy.windows import Exemption, Window, moment

Mode = Literal["off", "incident-only", "dry-run", "enforce"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""From the mildest to the strongest."""
Ceiling = Literal["observe", "None", "NoSchedule", "NoExecute"]
"""`observe`: an incident and no rule at all."""
CEILINGS: tuple[Ceiling, ...] = get_args(Ceiling)
Highest = Literal["observe", "None", "NoSchedule", "Evict", "NoExecute"]
HIGHESTS: tuple[Highest, ...] = get_args(Highest)
"""How far a row goes: a ceiling, or `Evict` where NoExecute never follows refused evictions."""
Then = Literal["NoExecute", "wait"]
THENS: tuple[Then, ...] = get_args(Then)
ForExtended = Literal["wait", "delete"]
FOR_EXTENDED: tuple[ForExtended, ...] = get_args(ForExtended)


class Repeat(msgspec.Struct, frozen=True):
    """The n-th incident of one GPU within a window is sticky: it needs a user."""

    count: int = 3
    within: timedelta = timedelta(days=30)


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """How pods are evicted by the Eviction API, which respects their PodDisruptionBudgets."""

    within: timedelta = timedelta(minutes=10)
    """How long evictions are requested, from the first attempt on."""
    then: Then = "NoExecute"
    """`NoExecute`: the taint deletes the pods that are left. `wait`: evictions go on."""
    extended_resources: ForExtended = "wait"
    """Pods with GPUs by an extended resource, which NoExecute does not reach
    (kubernetes#141290). `wait`: evictions go on. `delete`: they are deleted."""

    def __str__(self) -> str:
        if self == AT_ONCE:
            return "no"
        extended = ", extended resources too" if self.extended_resources == "delete" else ""
        return f"{spell(self.within)}, then {self.then}{extended}"


AT_ONCE = Evict(within=timedelta())
"""No eviction by the API: NoExecute follows the settle time."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done about one class of fault."""

    fault_class: FaultClass
    ceiling: Ceiling
    mode: Mode = "incident-only"
    settle: timedelta = timedelta(seconds=3)
    """From the last NoSchedule of a scope to its first NoExecute; also how long a patient class
    waits for better evidence. Scheduler and eviction controller watch rules independently, so the
    scheduler needs time to see the NoSchedule first."""
    soak: timedelta = timedelta(minutes=10)
    """How long evidence of health must last before the rules are deleted."""
    patient: bool = False
    """A second source is waited for, up to the settle time, before anything is tainted."""
    repeat: Repeat = Repeat()
    sticky: bool = False
    """Recovery alone never untaints: a user confirms the repair."""
    probation: timedelta = timedelta(hours=24)
    """After the untaint: a fault in this time continues the incident count and is a relapse."""
    evict: Evict = AT_ONCE
    """Evictions by the API before NoExecute, or in its place."""
    name: str = "shipped"
    """Where the row comes from, for the incident: `classes.gpu`, `overrides[2]`."""
    why: str = ""
    """Why it was shipped so."""

    def __post_init__(self) -> None:
        if self.soak <= self.settle:
            raise PolicyError(
                f"class {self.fault_class}: soak ({self.soak}) must be longer than settle "
                f"({self.settle}), or a fault would be untainted before it was judged"
            )

    @property
    def evicts_first(self) -> bool:
        """Whether pods are evicted by the Eviction API before, or instead of, NoExecute."""
        return self.evict.then == "wait" or bool(self.evict.within)

    @property
    def restricts(self) -> bool:
        """Whether work is kept away for it, and not only something shown."""
        return self.mode == "enforce" and self.highest not in {"observe", "None"}

    @property
    def highest(self) -> Highest:
        """How far it goes in the end."""
        waits = self.ceiling == "NoExecute" and self.evict.then == "wait"
        return "Evict" if waits else self.ceiling


SHIPPED: tuple[Row, ...] = (
    Row(
        fault_class="suspect",
        ceiling="None",
        why="Application XIDs are mostly the application's, and a contained error is over when it "
        "is logged. If they follow the GPU, it is marked and not restricted.",
    ),
    Row(
        fault_class="pending",
        ceiling="observe",
        why="A row remap or a page retirement waits for the next reset. The GPU is sound until "
        "then: a taint would only cost capacity.",
    ),
    Row(
        fault_class="contained",
        ceiling="NoExecute",
        patient=True,
        why="The error has hit one slice and killed its process; the slice is emptied so that the "
        "next pod does not start on it. The kernel line names no slice, the NVML event does and "
        "comes a moment later: hence patient.",
    ),
    Row(
        fault_class="fabric",
        ceiling="NoSchedule",
        patient=True,
        why="Work that does not use NVLink goes on, and the driver lets it finish. Often several "
        "GPUs report one broken link; the second source shows which GPU it belongs to.",
    ),
    Row(
        fault_class="memory",
        ceiling="NoSchedule",
        sticky=True,
        why="Running work may go on after a failed row remap or above the SRAM threshold. A reset "
        "hides the sign and repairs nothing, so recovery alone proves nothing: a user confirms the "
        "diagnosis or the new board.",
    ),
    Row(
        fault_class="gpu",
        ceiling="NoExecute",
        why="The driver requests a reset, and nothing that runs on the GPU can be trusted or can "
        "finish. Its pods block the reset.",
    ),
    Row(
        fault_class="lost",
        ceiling="NoExecute",
        why="The GPU has left the bus: its pods cannot finish, they only hang.",
    ),
    Row(
        fault_class="node",
        ceiling="NoExecute",
        why="The driver requests a reboot. The GPU's own pods are lost; its neighbours on the node "
        "are not touched, and the reboot is requested from node repair.",
    ),
)

HIGHEST: dict[FaultClass, Ceiling] = {
    "suspect": "NoSchedule",
    "pending": "NoSchedule",
    "fabric": "NoSchedule",
    "memory": "NoSchedule",
}
"""How far a file may raise a class whose evidence never justifies deleting pods."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a line of the file changes in a row; None changes nothing."""

    mode: Mode | None = None
    ceiling: Ceiling | None = None
    settle: timedelta | None = None
    soak: timedelta | None = None
    patient: bool | None = None
    repeat: Repeat | None = None
    sticky: bool | None = None
    probation: timedelta | None = None
    evict: Evict | None = None

    def changed_fields(self) -> dict[str, object]:
        """Return the fields that are changed."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if value is not None}

    def apply_to(self, row: Row, name: str) -> Row:
        """Return the row with these changes and this name; without changes, the row itself."""
        stated = self.changed_fields()
        return msgspec.structs.replace(row, **stated, name=name) if stated else row


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """What is different at some places."""

    name: str
    """Its place in the file: `overrides[2]`."""
    match: Match
    changes: dict[FaultClass, Change]

    def apply_to(self, row: Row) -> Row:
        change = self.changes.get(row.fault_class)
        return change.apply_to(row, self.name) if change else row


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[Row, ...] = SHIPPED
    """What holds where no override says otherwise."""
    limits: Limits = Limits()
    overrides: tuple[Override, ...] = ()
    maintenance: tuple[Window, ...] = ()
    exempt: tuple[Exemption, ...] = ()
    stopped: str = ""
    """The user and the reason of the emergency stop in the file, "" without one. While it is set
    nothing new is tainted or evicted; untainting goes on."""
    disagrees: str = ""
    """Why no rule is removed because of this policy, and no disruption begins: the leader before
    had another policy a moment ago. "" if they may."""

    def __post_init__(self) -> None:
        if sorted(row.fault_class for row in self.rows) != sorted(SEVERITY):
            raise PolicyError(f"a policy has one row for each of {', '.join(SEVERITY)}")

    @property
    def longest_repeat(self) -> timedelta:
        """The longest time for which a closed incident may count, in any class at any place."""
        others = [override.apply_to(row) for override in self.overrides for row in self.rows]
        return max(row.repeat.within for row in (*self.rows, *others))

    def row(self, fault_class: FaultClass, place: Place = ANYWHERE) -> Row:
        """Return the row that holds for a class of fault at a place.

        For a GPU that is published in several pools, this is the row of the GPU as a whole.
        """
        if len(place.pools) < 2:
            return self._row_in_pool(fault_class, place)
        return row_of_several_pools(
            [self._row_in_pool(fault_class, place.within(*pool)) for pool in sorted(place.pools)]
        )

    def _row_in_pool(self, fault_class: FaultClass, place: Place) -> Row:
        row = next(row for row in self.rows if row.fault_class == fault_class)
        if self.overrides:
            # A set, because most points have the same row.
            row = mildest_row({self._row_at(row, point) for point in points(place)})
        for exemption in self.exempt:
            if exemption.area.holds(place):
                row = cap_mode(row, "incident-only", f"{exemption.name}: {exemption.why}")
        return row

    def _row_at(self, row: Row, point: Point) -> Row:
        for override in self.overrides:
            if override.match.covers(point):
                row = override.apply_to(row)
        return row

    def permits_more(self, before: "Policy", place: Place) -> bool:
        """Whether any class may go further at a place than before, or be untainted sooner.

        Texts and names of lines never count, and what is milder does not.
        """
        places = [place.within(*pool) for pool in place.pools] or [place]
        return any(
            _is_stronger(self.row(kind, where), before.row(kind, where))
            for where in places
            for kind in SEVERITY
        )

    def may_permit_more(self, before: "Policy") -> bool:
        """Whether there may be a place where it permits more; if this is False, there is none."""
        # An exemption that is gone, or any other change of overrides, may permit more somewhere.
        areas = {exemption.area for exemption in self.exempt}
        unspared = any(exemption.area not in areas for exemption in before.exempt)
        matched = self.without_texts().overrides != before.without_texts().overrides
        return unspared or matched or self.permits_more(before, ANYWHERE)

    def without_texts(self) -> "Policy":
        """Return the policy without what only explains it: reasons, and places in the file."""
        return msgspec.structs.replace(
            self,
            rows=tuple(msgspec.structs.replace(row, name="", why="") for row in self.rows),
            overrides=tuple(msgspec.structs.replace(each, name="") for each in self.overrides),
            exempt=tuple(msgspec.structs.replace(each, name="", why="") for each in self.exempt),
        )

    def why_paused(self, place: Place, now: datetime) -> str:
        """Return why no new disruption or restriction may begin at a place now, "" if one may."""
        found = self._open_window(place, now)
        return f"maintenance window {found[1]!r} until {moment(found[0])}" if found else ""

    def pause_end(self, place: Place, now: datetime) -> datetime | None:
        """Return when the pause at a place ends, None where there is none now."""
        found = self._open_window(place, now)
        return found[0] if found else None

    def _open_window(self, place: Place, now: datetime) -> tuple[datetime, str] | None:
        """Return end and name of the open window that ends last, None where none is open."""
        ends = [
            (until, window.name)
            for window in self.maintenance
            if window.area.holds(place) and (until := window.when.open_until(now)) is not None
        ]
        return max(ends, default=None)

    def at(self, now: datetime) -> "Policy":
        """Return the policy without the exemptions that have expired."""
        lasting = tuple(
            exemption
            for exemption in self.exempt
            if exemption.until is None or now < exemption.until
        )
        if len(lasting) == len(self.exempt):
            return self
        return msgspec.structs.replace(self, exempt=lasting)


def cap_mode(row: Row, mode: Mode, name: str) -> Row:
    """Return the row with a mode no stronger than this; its name changes when its mode does."""
    if MODES.index(row.mode) <= MODES.index(mode):
        return row
    return msgspec.structs.replace(row, mode=mode, name=name)


def _is_stronger(row: Row, before: Row) -> bool:
    """Whether a row is stronger than another in any field: then the mildest of both differs."""
    both = mildest_row((row, before))
    return msgspec.structs.replace(both, name=row.name, why=row.why) != row


def mildest_row(rows: Collection[Row]) -> Row:
    """Return, field by field, the mildest of at least one row of a class, whatever their order."""
    if len(rows) == 1:
        return next(iter(rows))
    names = sorted({row.name for row in rows})
    return Row(
        fault_class=next(iter(rows)).fault_class,
        mode=MODES[min(MODES.index(row.mode) for row in rows)],
        ceiling=CEILINGS[min(CEILINGS.index(row.ceiling) for row in rows)],
        settle=max(row.settle for row in rows),
        soak=max(row.soak for row in rows),
        patient=any(row.patient for row in rows),
        repeat=Repeat(
            min(row.repeat.count for row in rows), max(row.repeat.within for row in rows)
        ),
        sticky=any(row.sticky for row in rows),
        probation=max(row.probation for row in rows),
        evict=mildest_eviction([row.evict for row in rows]),
        name=names[0] if len(names) == 1 else f"the mildest of {' and '.join(names)}",
        why=min(row.why for row in rows),
    )


def row_of_several_pools(rows: Sequence[Row]) -> Row:
    """Return the row of a GPU that has devices in several pools, from the row of each.

    It is the mildest, except for its mode: what one pool enforces is done there in any case.
    """
    leading = max(rows, key=lambda row: MODES.index(row.mode))
    return msgspec.structs.replace(mildest_row(rows), mode=leading.mode, name=leading.name)


def mildest_eviction(stated: Collection[Evict]) -> Evict:
    """Return, field by field, the mildest of at least one setting."""
    return Evict(
        within=max(setting.within for setting in stated),
        then="wait" if any(setting.then == "wait" for setting in stated) else "NoExecute",
        extended_resources="wait"
        if any(setting.extended_resources == "wait" for setting in stated)
        else "delete",
    )
