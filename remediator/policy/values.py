"""Texts of a policy file into values: times, moments, zones, names. A refusal says what to write.

No other module of the policy looks up time zones: these are plain values elsewhere.
"""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import partial
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, PlainValidator, StrictInt

from remediator.policy.duration import duration
from remediator.policy.section import refusal, show_value, wrong_type
from remediator.policy.windows import DAYS, WEEK

LONGEST_NAME = 253
"""Characters in the name of a Node or a pool; no pattern needs more."""
MOST_INCIDENTS = 1000
_NO_NAME = "an empty name matches nothing; write a name, or * for any"
DURATION = "a duration such as 500ms, 3s, 10m, 24h or 30d"
NAMES = "a name or pattern, or a list of them"
MOMENT = "a moment with its zone, such as 2026-01-05T14:00:00Z"


def text(reader: Callable[[str], object], *, empty: bool = True) -> PlainValidator:
    """Read a text by a reader that raises ValueError; `empty`: an empty one counts as absent."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            raise wrong_type()
        if empty and not value:
            return None
        try:
            return reader(value)
        except ValueError as error:
            raise refusal(str(error)) from error

    return PlainValidator(read)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or not 1970 <= found.year < 9999:
        raise ValueError(
            f"{show_value(text)} is not a moment with its zone; write 2026-01-05T14:00:00Z"
        )
    return found.astimezone(UTC)


def _time_of_day(text: str) -> time:
    try:
        found = time.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is not None:
        raise ValueError(f"{show_value(text)} is not a time of day; write 22:30 and set timezone")
    return found


def _day(text: str) -> int:
    if text.lower() not in DAYS:
        raise ValueError(f"{show_value(text)} is not a day; one of {', '.join(DAYS)}")
    return DAYS.index(text.lower())


def _length_of_a_window(text: str) -> timedelta:
    found = duration(text)
    if not timedelta() < found < WEEK:
        raise ValueError(f"{text} is not between 0s and 7d; for a pause without end lower the mode")
    return found


def _zone(text: str) -> tzinfo:
    if text == "UTC":
        return UTC
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:  # unknown, malformed, or a folder of zones
        raise ValueError(
            f"{show_value(text)} is not a zone that this machine knows; write a name such as "
            "Europe/Berlin, install the system's tzdata, or use UTC"
        ) from error


def _require_text(text: str) -> str:
    if not text.strip():
        raise refusal("is empty")
    return text.strip()


def _incidents(count: int) -> int:
    if not 1 <= count <= MOST_INCIDENTS:
        raise refusal(f"{show_value(count)} is not a number from 1 to {MOST_INCIDENTS}")
    return count


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _name(text: str) -> str:
    if len(text) > LONGEST_NAME:
        raise refusal(f"a name is longer than {LONGEST_NAME} characters")
    if not text.strip():
        raise refusal(_NO_NAME)
    return text


def _require_some(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise refusal(_NO_NAME)
    return names


def _uuid(text: str) -> str:
    if not text.startswith(("GPU-", "MIG-")):
        raise refusal(
            f"{show_value(text)} is not a UUID; write GPU-... or MIG-... as `nvidia-smi -L` "
            "shows it"
        )
    return text


Duration = Annotated[timedelta, text(duration)]
WrittenDuration = Annotated[timedelta, text(duration, empty=False)]
UpToAYear = Annotated[timedelta, text(partial(duration, longest=timedelta(days=365)))]
Moment = Annotated[datetime, text(_moment)]
WrittenMoment = Annotated[datetime, text(_moment, empty=False)]
TimeOfDay = Annotated[time, text(_time_of_day, empty=False)]
Day = Annotated[int, text(_day, empty=False)]
LengthOfAWindow = Annotated[timedelta, text(_length_of_a_window, empty=False)]
Zone = Annotated[tzinfo, text(_zone)]
Text = Annotated[str, AfterValidator(_require_text)]
Incidents = Annotated[StrictInt, AfterValidator(_incidents)]
_Name = Annotated[str, AfterValidator(_name)]
Names = Annotated[tuple[_Name, ...], BeforeValidator(_as_list), AfterValidator(_require_some)]
Uuids = Annotated[
    tuple[Annotated[_Name, AfterValidator(_uuid)], ...],
    BeforeValidator(_as_list),
    AfterValidator(_require_some),
]
