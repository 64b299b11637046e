"""The clock of the tests: time passes when the test says so."""

from datetime import datetime

from tests.remediator.builders import at


class Clock:
    """Seconds of a monotonic clock when it is called, and what the wall clock shows then."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def date(self) -> datetime:
        return at(self.seconds)
