"""The rule files for Prometheus and its operator: YAML from the tables, the same each time."""
# pyright: reportUnknownMemberType=false
# PyYAML's types leave the value of a scalar open.

from typing import Any

import yaml

from alerts.rule import Alert, Recording, Settings
from alerts.table import GROUPS
from dashboards.catalogue import alert_path

Plain = dict[str, Any]
_HEAD = "# Written by `python -m alerts`: change the tables in alerts/ and run it again.\n"


def rules_file(settings: Settings) -> str:
    """Return a rule file, for `rule_files` of a Prometheus."""
    return _yaml({"groups": _groups(settings)})


def prometheus_rule(settings: Settings) -> str:
    """Return a PrometheusRule, for the Prometheus operator."""
    labels = {"app.kubernetes.io/name": "draguard", **settings.labels}
    metadata = {"name": "draguard", "namespace": settings.namespace, "labels": labels}
    return _yaml(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": metadata,
            "spec": {"groups": _groups(settings)},
        }
    )


def annotations(alert: Alert, settings: Settings) -> dict[str, str]:
    """Return an alert's annotations: fixed text, templates, runbook and dashboard."""
    path = alert_path(alert.of.board, alert.of.variables)
    return {
        "summary": alert.summary,
        "description": alert.description,
        **alert.of.annotations,
        "next": alert.next,
        "runbook_url": f"{settings.runbooks.rstrip('/')}/{alert.name}.md",
        "dashboard_url": f"{settings.grafana.rstrip('/')}{path}",
    }


def _groups(settings: Settings) -> list[Plain]:
    return [
        {"name": group.name, "rules": [_rule(rule, settings) for rule in group.rules]}
        for group in GROUPS
    ]


def _rule(rule: Recording | Alert, settings: Settings) -> Plain:
    if isinstance(rule, Recording):
        return {"record": rule.name, "expr": rule.expr}
    timed = {"for": rule.wait, "keep_firing_for": rule.keep}
    return {
        "alert": rule.name,
        "expr": rule.expr,
        **{key: span for key, span in timed.items() if span != "0s"},
        "labels": {"severity": rule.severity},
        "annotations": annotations(rule, settings),
    }


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def _yaml(document: Plain) -> str:
    return _HEAD + yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True
    )
