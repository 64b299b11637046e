"""What is dated, after the node's clock was set: what came first stays first.

After a step back all dates move along. Else an old reading would seem to come after an error that
it came before, and an error that a reading had answered would stand again. A step shows by the
boot time: when the node booted, by the clock that dated something. Pure.
"""

from datetime import datetime, timedelta
from typing import TypeVar, cast

import msgspec

from exporter.agent.report import gpu_state
from exporter.model.node_health import MOST_SET_BACK, NodeHealth, VersionSince
from exporter.model.readings import NvmlReading, Observation
from exporter.model.signals import Signal
from kubeapi.types import EARLIEST, LATEST

NOISE = timedelta(seconds=1)
"""Boot times that differ by less prove no step."""

Dated = TypeVar("Dated", bound=msgspec.Struct)
FromSensor = TypeVar("FromSensor", Signal, NvmlReading, Observation)


def by_clock_of(report: NodeHealth, booted_at: datetime) -> NodeHealth:
    """Return the report with its dates by the clock by which the node booted at `booted_at`.

    After a step forwards only a GPU that is being missed, and a version, keep their age.
    """
    known = report.booted_at
    if known is None:
        return msgspec.structs.replace(report, booted_at=booted_at)
    step = booted_at - known
    if abs(step) < NOISE:
        return report
    if step < timedelta():
        back = -(step // timedelta(milliseconds=1))
        moved = earlier(report, timedelta(milliseconds=back))
        in_all = min(report.clock_set_back_ms + back, MOST_SET_BACK)
        return msgspec.structs.replace(moved, clock_set_back_ms=in_all)
    return msgspec.structs.replace(
        report,
        booted_at=booted_at,
        gpus=tuple(gpu_state.missed_as_long(gpu, step) for gpu in report.gpus),
        agent_since=_as_old(report.agent_since, step),
        driver_since=_as_old(report.driver_since, step),
    )


def dated_as(report: NodeHealth, value: FromSensor) -> FromSensor:
    """Return what the sensor dated, by the clock of the report, if that was set back since.

    What is sent again gets the same dates again.
    """
    if value.booted_at is None or report.booted_at is None:
        return value
    step = value.booted_at - report.booted_at
    return value if step < NOISE else earlier(value, step)


def earlier(value: Dated, by: timedelta) -> Dated:
    """Return it with each date in it earlier by so much."""
    return cast("Dated", _earlier(value, by))


def _earlier(value: object, by: timedelta) -> object:
    if isinstance(value, datetime):
        return value - min(by, value - EARLIEST)
    if isinstance(value, tuple):
        return tuple(_earlier(part, by) for part in cast("tuple[object, ...]", value))
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        return msgspec.structs.replace(
            value, **{name: _earlier(getattr(value, name), by) for name in names}
        )
    return value


def _as_old(since: VersionSince, step: timedelta) -> VersionSince:
    if since.time is None:
        return since
    return msgspec.structs.replace(since, time=since.time + min(step, LATEST - since.time))
