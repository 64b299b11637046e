"""What is dated, after the node's clock was set: what came first stays first.

After a step back all dates move along. Else an old reading would seem to come after an error that
it came before, and an error that a reading had answered would stand again. Pure.
"""

from datetime import datetime, timedelta
from typing import TypeVar, cast

import msgspec

from exporter.agent.report import presence
from exporter.model.node_health import NodeHealth, VersionSince
from kubeapi.types import EARLIEST

NOISE = timedelta(seconds=1)
"""A date so little ahead proves no step: clocks are slewed, and read one after the other."""

Dated = TypeVar("Dated", bound=msgspec.Struct)


def clock_was_set(report: NodeHealth, step: timedelta) -> NodeHealth:
    """Return the report after the wall clock was set forwards (or back, negative) by `step`.

    Forwards, only a GPU that is being missed, and a version, keep their age.
    """
    if step < timedelta():
        back = -(step // timedelta(milliseconds=1))
        moved = earlier(report, timedelta(milliseconds=back))
        return msgspec.structs.replace(moved, clock_set_back_ms=back)
    return msgspec.structs.replace(
        report,
        gpus=tuple(presence.missed_as_long(gpu, step) for gpu in report.gpus),
        agent_since=_as_old(report.agent_since, step),
        driver_since=_as_old(report.driver_since, step),
    )


def not_ahead(value: Dated, at: datetime, now: datetime) -> Dated:
    """Return what is dated `at`; dates from before the clock was set back move along."""
    return earlier(value, at - now) if at - now > NOISE else value


def earlier(value: Dated, by: timedelta) -> Dated:
    """Return it with each date in it earlier by so much."""
    return cast("Dated", _earlier(value, by))


def _earlier(value: object, by: timedelta) -> object:
    if isinstance(value, datetime):
        return max(value - by, EARLIEST)
    if isinstance(value, tuple):
        return tuple(_earlier(part, by) for part in cast("tuple[object, ...]", value))
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        return msgspec.structs.replace(
            value, **{name: _earlier(getattr(value, name), by) for name in names}
        )
    return value


def _as_old(since: VersionSince, step: timedelta) -> VersionSince:
    if since.time is None or not step:
        return since
    return msgspec.structs.replace(since, time=since.time + step)
