"""Times and places of exception: maintenance windows and exempt devices.

In a window no new disruption or restriction begins, and recovery goes on. An exempt device is
incident-only, so our rules on it are removed at once. Pure: time zones are values here, which
`values` looks up.
"""

from datetime import UTC, datetime, time, timedelta, tzinfo

import msgspec

from remediator.policy.place import Area

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""In the order of `datetime.weekday`."""
WEEK = timedelta(days=7)


class Once(msgspec.Struct, frozen=True):
    """From a moment up to, not including, another; both have a time zone."""

    start: datetime
    until: datetime

    def open_until(self, now: datetime) -> datetime | None:
        """Return when it closes if it is open at `now`, None when it is not."""
        return self.until if self.start <= now < self.until else None


class Weekly(msgspec.Struct, frozen=True, kw_only=True):
    """Each week from a day's wall-clock time in a zone, for less than a week of real time."""

    day: int
    """As `datetime.weekday` counts: 0 is Monday."""
    start: time
    duration: timedelta
    zone: tzinfo = UTC

    def open_until(self, now: datetime) -> datetime | None:
        """Return when it closes if it is open at `now`, None when it is not."""
        local = now.astimezone(self.zone)
        days_since = (local.weekday() - self.day) % 7
        for back in (days_since, days_since + 7):  # today's may not have begun, last week's linger
            date = (local - timedelta(days=back)).date()
            opened = datetime.combine(date, self.start, self.zone).astimezone(UTC)
            if opened <= now < opened + self.duration:
                return opened + self.duration
        return None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A maintenance window."""

    name: str
    area: Area
    when: Once | Weekly


class Exemption(msgspec.Struct, frozen=True, kw_only=True):
    """Devices for which only incidents are kept."""

    name: str
    """Its place in the file: `exempt[0]`."""
    area: Area
    why: str
    until: datetime | None = None
    """None: for as long as the file says so."""


def moment(at: datetime) -> str:
    """Return a moment as the policy file writes it: `2026-01-05T14:00:00Z`."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
