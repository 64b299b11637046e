"""Maintenance windows, exemptions and the emergency stop of a policy file into values."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, timedelta

from remediator.policy.document import Path, dotted
from remediator.policy.place import Area
from remediator.policy.scalars import Scalars
from remediator.policy.schema import EmergencyText, ExemptText, WeeklyText, WindowText
from remediator.policy.windows import WEEK, Exemption, Once, Weekly, Window

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""In place of a moment that could not be read: its problem refuses the file."""


def window(said: WindowText, path: Path, read: Scalars) -> Window:
    name = read.required(said.name, (*path, "name"))
    nodes = read.names(said.nodes, (*path, "nodes"))
    pools = read.names(said.pools, (*path, "pools"))
    _exactly_one({"nodes": said.nodes, "pools": said.pools}, path, read)
    if said.weekly is not None and (said.from_ is not None or said.until is not None):
        read.problem(path, "give either from and until, or weekly")
    when = _weekly(said.weekly, (*path, "weekly"), read) if said.weekly else _once(said, path, read)
    return Window(name=name, area=Area(nodes=nodes, pools=pools), when=when)


def _once(said: WindowText, path: Path, read: Scalars) -> Once:
    if said.from_ is None or said.until is None:
        read.problem(path, "give from and until, or weekly")
    start = read.moment(said.from_, (*path, "from"))
    until = read.moment(said.until, (*path, "until"))
    if start and until and until <= start:
        read.problem((*path, "until"), f"{said.until} is not after from ({said.from_})")
    return Once(start or _NEVER, until or _NEVER)


def _weekly(said: WeeklyText, path: Path, read: Scalars) -> Weekly:
    for key in ("day", "start", "duration"):
        read.required(getattr(said, key), (*path, key))
    lasts = read.duration(said.duration, (*path, "duration"))
    if lasts is not None and not timedelta() < lasts < WEEK:
        why = f"{said.duration} is not between 0s and 7d; for a pause without end lower the mode"
        read.problem((*path, "duration"), why)
    return Weekly(
        day=read.day(said.day, (*path, "day")) or 0,
        start=read.time_of_day(said.start, (*path, "start")) or time(),
        duration=lasts or timedelta(),
        zone=read.zone(said.timezone, (*path, "timezone")),
    )


def distinct(windows: Iterable[Window], read: Scalars) -> None:
    """A window is told of by its name, so each has its own."""
    seen: set[str] = set()
    for index, one in enumerate(windows):
        if one.name and one.name in seen:
            read.problem(("maintenance", index, "name"), f"{one.name!r} is another window's name")
        seen.add(one.name)


def exemption(said: ExemptText, path: Path, read: Scalars) -> Exemption:
    given = {"devices": said.devices, "nodes": said.nodes, "pools": said.pools}
    _exactly_one(given, path, read)
    area = Area(
        nodes=read.names(said.nodes, (*path, "nodes")),
        pools=read.names(said.pools, (*path, "pools")),
        devices=read.uuids(said.devices, (*path, "devices")),
    )
    why = read.required(said.why, (*path, "why"))
    until = read.moment(said.until, (*path, "until"))
    return Exemption(name=dotted(path), area=area, why=why, until=until)


def _exactly_one(given: Mapping[str, object], path: Path, read: Scalars) -> None:
    if sum(value is not None for value in given.values()) != 1:
        keys = ", ".join(given)
        read.problem(path, f"give exactly one of {keys}; write an entry for each")


def emergency(said: EmergencyText | bool | None, read: Scalars) -> str:  # noqa: FBT001 - as written
    """Return who stopped all new harm and why, "" when nobody did."""
    if said is None or said is False:
        return ""
    if said is True:
        return "the policy file"
    path: Path = ("emergency_stop",)
    by, why = read.required(said.by, (*path, "by")), read.required(said.why, (*path, "why"))
    return f"{by}, in the policy file: {why}"
