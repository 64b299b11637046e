"""The tables of docs/alerts.md, from the tables of the rules."""

import re

from alerts.rule import Alert
from alerts.table import GROUPS, alerts, recorded


def updated(text: str) -> str:
    """Return the document with its marked sections regenerated; other text stays."""
    for name, table in _TABLES.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        made = f"{begin}{table()}{end}".replace("\\", r"\\")
        text = pattern.sub(made, text)
    return text


def alerts_table() -> str:
    """Return each alert: name, severity, what it is of, when it fires, `for`, what to do."""
    head = ("alert", "severity", "of", "when", "for", "what to do")
    rows = [
        (
            f"[{alert.name}](../alerts/runbooks/{alert.name}.md)",
            alert.severity,
            alert.of.name,
            alert.when,
            alert.wait,
            _plain(alert.next),
        )
        for alert in alerts()
    ]
    return _table(head, rows)


def times_table() -> str:
    """Return for each alert the reasons of `for` and `keep_firing_for`."""
    head = ("alert", "for", "why", "keep_firing_for", "why")
    rows = [
        (rule.name, rule.wait, rule.wait_why, rule.keep, rule.keep_why)
        for group in GROUPS
        for rule in group.rules
        if isinstance(rule, Alert)
    ]
    return _table(head, rows)


def recorded_table() -> str:
    """Return each recorded series and its meaning."""
    return _table(
        ("series", "meaning"), [(f"`{recording.name}`", recording.says) for recording in recorded()]
    )


_TABLES = {"alerts": alerts_table, "times": times_table, "recorded": recorded_table}


def _plain(template: str) -> str:
    """Write `{{ $labels.node }}` as NODE."""
    return re.sub(r"{{ \$labels\.(\w+) }}", lambda found: found[1].upper(), template)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines
    )
