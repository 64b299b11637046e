"""What a rule is: rows of the tables for rule files, documents and tests."""

from typing import Literal

import msgspec

from dashboards.catalogue import Board

Severity = Literal["critical", "warning", "info"]
"""`critical`: act now; `warning`: in working hours; `info`: for the owner, or as context."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded series, named `level:metric:operation`: the labels that it keeps come first."""

    name: str
    says: str
    expr: str


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What alerts are about: the labels that identify one, and its dashboard."""

    name: str
    labels: tuple[str, ...]
    """Every label of such an alert besides `severity`; `cluster` where Prometheus adds one."""
    board: Board
    variables: dict[str, str]
    """Variables of that dashboard, to the alert's labels that have their values."""
    annotations: dict[str, str] = {}
    """Of all its alerts: affected pods, what Draguard did."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. Durations are in Prometheus' notation; each has a reason."""

    name: str
    severity: Severity
    of: Subject
    when: str
    """For the document: when it fires."""
    expr: str
    wait: str
    """`for`: how long it must be true."""
    wait_why: str
    keep: str
    """`keep_firing_for`: how long it fires after the condition is no longer true."""
    keep_why: str
    summary: str
    """Fixed text, so that notifications of one alert look alike."""
    description: str
    """A template: what failed, with values."""
    next: str
    """A template, labels only: what you do now."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that are evaluated one after the other: a row may use the recordings above it."""

    name: str
    rules: tuple[Recording | Alert, ...]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What an installation may change."""

    runbooks: str = "https://draguard.example.com/runbooks"
    """Where `alerts/runbooks/` is served; a page is found at `<runbooks>/<alert>.md`."""
    grafana: str = "https://grafana.example.com"
    """Grafana, with the path under which it is served."""
    labels: dict[str, str] = {}
    """Of the PrometheusRule, for a Prometheus that selects by them: `{"release": "..."}`."""
    namespace: str = "draguard-system"
