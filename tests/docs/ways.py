"""What becomes of each fenced command when the tests run: two tables, read from above.

A command is in `WAYS`, where something is run of it, or in `NOT_RUN` with the reason.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from tests.docs.fenced import Command

T = TypeVar("T")


class Run(NamedTuple):
    """As it stands."""

    ends: tuple[int, ...] = (0,)
    """Exit statuses that are right here, where there is no GPU."""


class Plus(NamedTuple):
    """With flags that leave the cluster as it is."""

    flags: str


class Like(NamedTuple):
    """In another form, which reads the same and has no effect."""

    pattern: str
    replacement: str


class Flags(NamedTuple):
    """Its program says that it takes each of the flags; `because` it is not run itself."""

    because: str


class Elsewhere(NamedTuple):
    """Another test runs it."""

    test: str


Way = Run | Plus | Like | Flags | Elsewhere
_ALERTS = "tests/alerts/test_alertmanager_document.py"
_AMTOOL = Elsewhere(f"{_ALERTS}::test_every_command_of_amtool_does_what_the_document_says")
_RULES = Elsewhere(f"{_ALERTS}::test_rules_are_written_with_the_addresses_of_an_installation")
_CLI = Elsewhere("tests/draguard/test_cli_documents.py::test_the_command_line_shows_real_output")
_WHY = Elsewhere(
    "tests/draguard/commands/test_why.py::test_the_page_that_the_documents_show_is_its_golden"
)
_NODE = Elsewhere(
    "tests/simulator/test_node.py::test_the_command_line_creates_serves_injects_and_recovers"
)
_RELEASE = Elsewhere(
    "tests/deploy/test_chart_life.py::test_a_release_is_installed_upgraded_and_leaves_no_taint"
)
_MANIFESTS = Elsewhere(
    "tests/deploy/test_applied_settings.py"
    "::test_the_plain_manifests_are_applied_in_their_order_and_again"
)
_ENDLESS = Flags("runs until it is stopped")
_MINUTES = Flags("takes minutes")

WAYS: tuple[tuple[str, Way], ...] = (
    (r"cli\.md: ", _CLI),
    (r"alerts\.md: (cd|amtool) ", _AMTOOL),
    (r"alerts\.md: python -m alerts ", _RULES),
    (r"simulator\.md: export ", _NODE),
    (r".*: helm uninstall ", _RELEASE),
    (r".*: helm (install|upgrade) ", Like(r"helm (install|upgrade)", "helm template")),
    (r".*: make ", Like("make", "make --dry-run")),
    (r".*: draguard exporter (run )?--check", Run(ends=(0, 1))),
    (r".*: draguard exporter ", _ENDLESS),
    (r".*: draguard remediator ", _ENDLESS),
    (r".*: draguard doctor", Run(ends=(0, 1))),
    (r".*: draguard cleanup --all$", Plus("--dry-run")),
    (r".*: draguard untaint ", Plus("--dry-run")),
    (r".*: draguard confirm-repaired ", Run(ends=(0, 1))),
    (r".*: draguard why ", _WHY),
    (r".*: draguard ", Run()),
    (r".*: for file in ", Run()),
    (r".*: kubectl apply --server-side -f deploy/manifests/", _MANIFESTS),
    (r".*: kubectl create namespace ", Plus("--dry-run=client")),
    (r".*: kubectl (-n \S+ )?delete ", Plus("--dry-run=server --ignore-not-found")),
    (r".*: kubectl (-n \S+ )?(annotate|apply|label|patch|scale) ", Plus("--dry-run=server")),
    (r".*: kubectl (-n \S+ )?get ", Run()),
    (
        r".*: kubectl describe pod POD",
        Like(r"kubectl describe pod POD -n NAMESPACE", "kubectl describe pods -A"),
    ),
    (
        r".*: kubectl -n \S+ rollout status deployment ",
        Like(r"kubectl -n (\S+) rollout status deployment \S+", r"kubectl -n \1 get deployments"),
    ),
    (r".*: (\.venv/bin/)?python -m (benchmarks|tests\.fuzz)", _MINUTES),
    (r".*: python -m simulator node ", _ENDLESS),
)
"""By what `str(Command)` begins with."""

NOT_RUN: tuple[tuple[str, str], ...] = (
    (r".*: docker ", "no container engine, no registry; tests/deploy replays the Dockerfile"),
    (r".*: kubectl .*\bexec ", "no kubelet runs the pod; what runs in it is run by itself"),
    (r".*: curl ", "asks the program of a line before, which runs until it is stopped"),
    (r".*: nvidia-smi ", "there is no GPU"),
    (r".*: (mv|rm) /run/draguard/release", "root's; tests/exporter has a release file of its own"),
)
"""By what `str(Command)` begins with: why nothing can be run of it here."""


def way_of(command: Command) -> Way | None:
    return _first(WAYS, command)


def reason_of(command: Command) -> str | None:
    return _first(NOT_RUN, command)


def unused(rows: Iterable[tuple[str, object]], commands: Iterable[Command]) -> list[str]:
    """Return the patterns that no command begins with."""
    stated = [str(command) for command in commands]
    return [pattern for pattern, _ in rows if not any(re.match(pattern, text) for text in stated)]


def _first(rows: Iterable[tuple[str, T]], command: Command) -> T | None:
    return next((way for pattern, way in rows if re.match(pattern, str(command))), None)
