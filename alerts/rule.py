"""What a rule is: rows of the tables that rule files, pages, documents and tests are made from."""

from typing import Literal

import msgspec

from dashboards.catalogue import Board

Severity = Literal["critical", "warning", "info"]
"""`critical`: look now; `warning`: in working hours; `info`: for the owner, or as context."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded series, named `level:metric:operation`: the labels that it keeps come first."""

    name: str
    says: str
    expr: str


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What alerts are of: the labels that identify one, and where to look at it."""

    name: str
    labels: tuple[str, ...]
    """Every label of such an alert besides `severity`; `cluster` where Prometheus adds one."""
    board: Board
    variables: dict[str, str]
    """Variables of that dashboard, to the alert's labels that have their values."""
    annotations: dict[str, str] = {}
    """Of all alerts of it: affected pods, what was done."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. Durations are as Prometheus writes them; each says why it is as long as it is."""

    name: str
    severity: Severity
    of: Subject
    when: str
    """For the document: what is true when it fires."""
    expr: str
    wait: str
    """`for`: how long it must be true."""
    wait_why: str
    keep: str
    """`keep_firing_for`: how long it goes on when it is no longer seen to be true."""
    keep_why: str
    summary: str
    """Fixed text, so that pages of one alert can be told to be one."""
    description: str
    """A template: what failed, with values."""
    next: str
    """A template, labels alone: what a person does now."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that are evaluated one after the other: a row may use the recordings above it."""

    name: str
    rules: tuple[Recording | Alert, ...]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What an installation may want to be different."""

    runbooks: str = "https://draguard.example.com/runbooks"
    """Where `alerts/runbooks/` is served; a page is found at `<runbooks>/<alert>.md`."""
    grafana: str = "https://grafana.example.com"
    """Grafana, with the path under which it is served."""
    labels: dict[str, str] = {}
    """Of the PrometheusRule, for a Prometheus that selects by them: `{"release": "..."}`."""
    namespace: str = "draguard-system"
