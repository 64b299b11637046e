"""Marks on every time series: XIDs, taints and untaints, where and when. Pure."""

from msgspec import structs

from dashboards.panel import BLUE, ORANGE, RED, Annotation
from dashboards.promql import LEADING, Scope, once

_WHO = "incident, node, UUID"
_TAINTING = 'effect!="None"'
STEP = "2m"
"""Resolution of untaints: a range of two weeks still fits within Prometheus' limit of points."""


def of(scope: Scope, among: str = "") -> tuple[Annotation, ...]:
    """Return the marks of a dashboard; `among` narrows them to the GPUs of an expression."""
    only = f" and on (cluster, UUID) {among}" if among else ""
    marks = _xids(scope), _taints(scope), _untaints(scope)
    return tuple(structs.replace(mark, expr=f"({mark.expr}){only}") for mark in marks)


def _xids(scope: Scope) -> Annotation:
    seen = scope.seen("draguard_xid_last_seen_timestamp_seconds")
    return Annotation(
        name="XIDs",
        expr=f"{once('Hostname, UUID, code', seen)} * 1000",
        title="XID {{code}}",
        text="{{Hostname}} {{UUID}}",
        colour=RED,
        value_is_time=True,
        empty="no XID since the boot",
    )


def _taints(scope: Scope) -> Annotation:
    since = once(_WHO, scope.done("draguard_incident_phase_since_timestamp_seconds"))
    phases = scope.done("draguard_incident_phase", 'phase=~"Tainted|Evicting"')
    # One phase, where two replicas disagree for a moment.
    latest = f"topk by (cluster, incident) (1, {once('incident, phase', phases)})"
    named = f"{since} * on (cluster, incident) group_left (phase) {latest}"
    return Annotation(
        name="Taints",
        expr=f"({named}) * 1000",
        title="{{phase}}",
        text="{{node}} {{UUID}} {{incident}}",
        colour=ORANGE,
        value_is_time=True,
        empty="no incident was in phase Tainted or Evicting",
    )


def _untaints(scope: Scope) -> Annotation:
    """Return marks where a rule of one step ago is gone; without a leader that means nothing."""
    rules = scope.done("draguard_incident_rules", _TAINTING)
    before = f"{rules} offset {STEP}"
    stored, stood = _rules(rules), _rules(before)
    freed = f"({stood} > 0) unless on (cluster, node, UUID) ({stored} > 0)"
    return Annotation(
        name="Untaints",
        expr=f"({freed}) and on (cluster) ({LEADING})",
        title="Untainted",
        text="{{node}} {{UUID}}",
        colour=BLUE,
        empty="no GPU was untainted",
    )


def _rules(selector: str) -> str:
    once_each = once(f"{_WHO}, effect", selector)
    return f"sum by (cluster, node, UUID) ({once_each})"
