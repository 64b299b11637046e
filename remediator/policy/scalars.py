"""Single values of a policy file: names, times, moments, zones; each misfit with its line.

The one place in the policy that looks up a time zone: what is made here are
plain values.
"""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import TypeVar
from zoneinfo import ZoneInfo

from remediator.policy import duration as lengths
from remediator.policy import shape
from remediator.policy.document import Document, Path
from remediator.policy.windows import DAYS

T = TypeVar("T")
LONGEST_NAME = 253
"""Of a Node or a pool; a pattern has no reason to be longer."""


class Scalars:
    """Reads values and collects what is wrong with them; a wrong one gives None or ""."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[str] = []

    def problem(self, path: Path, why: str) -> None:
        self.problems.append(shape.told(self._document, path, why))

    def written(self, path: Path) -> bool:
        return path in self._document.lines

    def required(self, text: str | None, path: Path) -> str:
        if text is None or not text.strip():
            self.problem(path, "is missing" if text is None else "is empty")
        return (text or "").strip()

    def duration(
        self, text: str | None, path: Path, longest: timedelta = lengths.LONGEST
    ) -> timedelta | None:
        return self._read(text, path, lambda said: lengths.duration(said, longest))

    def moment(self, text: str | None, path: Path) -> datetime | None:
        return self._read(text, path, _moment)

    def time_of_day(self, text: str | None, path: Path) -> time | None:
        return self._read(text, path, _time_of_day)

    def zone(self, text: str | None, path: Path) -> tzinfo:
        return self._read(text, path, _zone) or UTC

    def day(self, text: str | None, path: Path) -> int | None:
        return self._read(text, path, _day)

    def names(self, said: str | tuple[str, ...] | None, path: Path) -> tuple[str, ...]:
        names = (said,) if isinstance(said, str) else said or ()
        if said == () or any(not name.strip() for name in names):
            self.problem(path, "an empty name matches nothing; write a name, or * for any")
        if any(len(name) > LONGEST_NAME for name in names):
            self.problem(path, f"a name is longer than {LONGEST_NAME} characters")
        return names

    def uuids(self, said: str | tuple[str, ...] | None, path: Path) -> frozenset[str]:
        found = self.names(said, path)
        wrong = [one for one in found if one.strip() and not one.startswith(("GPU-", "MIG-"))]
        for one in wrong:
            why = f"{one!r} is no UUID; write GPU-... or MIG-... as `nvidia-smi -L` shows it"
            self.problem(path, why)
        return frozenset(found)

    def _read(self, text: str | None, path: Path, reader: Callable[[str], T]) -> T | None:
        if not text:
            return None
        try:
            return reader(text)
        except ValueError as error:
            self.problem(path, str(error))
            return None


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or not 1970 <= found.year < 9999:
        raise ValueError(f"{text!r} is no moment with its zone; write 2026-01-05T14:00:00Z")
    return found.astimezone(UTC)


def _time_of_day(text: str) -> time:
    try:
        found = time.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is not None:
        raise ValueError(f"{text!r} is no time of day; write 22:30, and the zone as timezone")
    return found


def _day(text: str) -> int:
    if text.lower() not in DAYS:
        raise ValueError(f"{text!r} is no day; one of {', '.join(DAYS)}")
    return DAYS.index(text.lower())


def _zone(text: str) -> tzinfo:
    if text == "UTC":
        return UTC
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:  # unknown, malformed, or a folder of zones
        raise ValueError(
            f"{text!r} is no zone that this machine knows; write a name such as Europe/Berlin, "
            "install the system's tzdata, or use UTC"
        ) from error
