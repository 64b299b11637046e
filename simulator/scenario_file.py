"""A scenario file on disk: read, edited under a lock, replaced whole.

The C library sees each version entire, because a new one comes by rename.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from simulator.gpu import Scenario
from simulator.scenario import ScenarioError, parse, render


class ScenarioFile:
    """The `scenario.ini` of a node; several processes may edit it."""

    def __init__(
        self, path: Path, saved: Callable[[Scenario], None] = lambda _scenario: None
    ) -> None:
        self.path = path
        self._saved = saved
        """Told each scenario that was saved."""

    def load(self) -> Scenario:
        """Read it; raises ScenarioError, also when there is no such file."""
        try:
            text = self.path.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            what = f"cannot be read: {error.strerror}; create the node first"
            raise ScenarioError(str(self.path), 0, what) from error
        return parse(text, str(self.path))

    def save(self, scenario: Scenario) -> None:
        """Replace it at once; raises ScenarioError and writes nothing when it is not valid."""
        text = render(scenario)
        parse(text, f"{self.path} (not saved)")
        self.save_text(text)
        self._saved(scenario)

    def save_text(self, text: str) -> None:
        """Replace it at once with any text, valid or not."""
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".scenario-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            # A kernel dates files by its tick, and a freed inode comes again: within one tick two
            # versions of one length would pass for the same.
            now = time.time_ns()
            os.utime(file.fileno(), ns=(now, now))
        Path(name).replace(self.path)

    @contextmanager
    def edit(self) -> Generator[Scenario]:
        """Give the scenario to be changed, and save it when the block ends well."""
        with (self.path.parent / ".scenario.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            scenario = self.load()
            yield scenario
            self.save(scenario)
