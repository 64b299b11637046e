"""A scenario file on disk: read, edited under a lock, replaced whole.

The C library sees each version entire, because a new one comes by rename.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from simulator import replaced_file
from simulator.gpu import Scenario
from simulator.scenario import ScenarioError, parse, render


class ScenarioFile:
    """The `scenario.ini` of a node; several processes may edit it."""

    def __init__(
        self, path: Path, saved: Callable[[Scenario], None] = lambda _scenario: None
    ) -> None:
        self.path = path
        self._saved = saved
        """Receives each scenario that was saved."""

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
        replaced_file.replace(self.path, text)

    @contextmanager
    def edit(self) -> Generator[Scenario]:
        """Give the scenario to be changed, and save it when the block ends well."""
        with replaced_file.locked(self.path):
            scenario = self.load()
            yield scenario
            self.save(scenario)
