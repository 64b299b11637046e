"""What becomes of each fenced command when the tests run: a table, of which the first row counts.

`Run` runs it as it stands, `Plus` with flags that keep the cluster as it is, `Like` in another form
that does the same without effect, `Flags` has its program say that it takes each flag, `Elsewhere`
names the test that runs it. Those of `NOT_RUN` are not run at all.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from tests.docs.fenced import Command


class Run(NamedTuple):
    ends: tuple[int, ...] = (0,)
    """Exit statuses that are right here, where there is no GPU."""


class Plus(NamedTuple):
    flags: str


class Like(NamedTuple):
    pattern: str
    replacement: str


class Flags(NamedTuple):
    because: str
    """Why it is not run."""


class Elsewhere(NamedTuple):
    test: str


Way = Run | Plus | Like | Flags | Elsewhere
_ALERTS = "tests/alerts/test_alertmanager_document.py"
_SERVER = Plus("--dry-run=server")
_GONE = Plus("--dry-run=server --ignore-not-found")
_ENDLESS = Flags("runs until it is stopped")
_MINUTES = Flags("takes minutes; `make` runs it")

WAYS: tuple[tuple[str, Way], ...] = (
    (r"cli\.md: ", Elsewhere("tests/draguard/test_cli_documents.py::test_the_command_line_shows_real_output")),
    (r"alerts\.md: (cd|amtool) ", Elsewhere(f"{_ALERTS}::test_every_command_of_amtool_does_what_the_document_says")),
    (r"alerts\.md: python -m alerts ", Elsewhere(f"{_ALERTS}::test_rules_are_written_with_the_addresses_of_an_installation")),
    (r"simulator\.md: export ", Elsewhere("tests/simulator/test_node.py::test_the_command_line_creates_serves_injects_and_recovers")),
    (r".*: helm uninstall ", Elsewhere("tests/deploy/test_chart_life.py::test_a_release_is_installed_upgraded_and_leaves_no_fence")),
    (r".*: helm (install|upgrade) ", Like(r"helm (install|upgrade)", "helm template")),
    (r".*: ([A-Z]+=\S+ )?make ", Like(r"make", "make --dry-run")),
    (r".*: draguard exporter (run )?--check", Run(ends=(0, 1))),
    (r".*: draguard exporter ", _ENDLESS),
    (r".*: draguard remediator ", _ENDLESS),
    (r".*: draguard doctor", Run(ends=(0, 1))),
    (r".*: draguard release (--all|INCIDENT)$", Plus("--dry-run")),
    (r".*: draguard (fence|unfence) ", Plus("--dry-run")),
    (r".*: draguard ", Run()),
    (r".*: for file in ", Run()),
    (r".*: kubectl create namespace ", Plus("--dry-run=client")),
    (r".*: kubectl delete devicetaintrule NAME", Plus("--dry-run=server")),
    (r".*: kubectl (-n \S+ )?delete ", _GONE),
    (r".*: kubectl (-n \S+ )?(annotate|apply|label|patch|scale) ", _SERVER),
    (r".*: kubectl (-n \S+ )?get ", Run()),
    (r".*: (\.venv/bin/)?python -m (benchmarks|tests\.fuzz)", _MINUTES),
    (r".*: python -m simulator node ", _ENDLESS),
)  # fmt: skip
"""By what `str(Command)` begins with."""

NOT_RUN: tuple[tuple[str, str], ...] = (
    (r".*: docker ", "needs a container engine and a registry; the steps of the Dockerfile are replayed in tests/deploy"),
    (r".*: kubectl .*\bexec ", "needs a kubelet that runs the pod; the command in the container is run by itself"),
    (r".*: kubectl .*\blogs ", "needs a kubelet that runs the pod"),
    (r".*: curl ", "asks the program of the line before, which runs until it is stopped"),
    (r".*: nvidia-smi ", "needs a GPU"),
    (r".*: rm /run/draguard/release", "is of root; tests/exporter removes a release file of its own"),
    (r".*: git clone ", "needs the address of your copy"),
)  # fmt: skip
"""By what `str(Command)` begins with: why nothing can be run of it here."""


def way_of(command: Command) -> Way | None:
    return _first(WAYS, command)


def reason_of(command: Command) -> str:
    return _first(NOT_RUN, command) or ""


def unused(rows: Iterable[tuple[str, object]], commands: Iterable[Command]) -> list[str]:
    """Return the patterns that no command begins with."""
    said = [str(one) for one in commands]
    return [pattern for pattern, _ in rows if not any(re.match(pattern, one) for one in said)]


def _first[T](rows: Iterable[tuple[str, T]], command: Command) -> T | None:
    return next((one for pattern, one in rows if re.match(pattern, str(command))), None)
