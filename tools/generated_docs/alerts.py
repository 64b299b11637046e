"""The tables of docs/alerts.md, from the tables of the alerting rules."""

import re
from collections.abc import Iterator, Sequence

from alerts.claim_reasons import CANNOT, QUIET
from alerts.rule import Alert
from alerts.table import GROUPS, alerts, recorded
from tools.generated_docs.table import Tables


def _alerts() -> Iterator[Sequence[str]]:
    yield "alert", "severity", "of", "when", "for", "what to do"
    for alert in alerts():
        name = f"[{alert.name}](../alerts/runbooks/{alert.name}.md)"
        # `{{ $labels.node }}` is written as NODE.
        to_do = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: found[1].upper(), alert.next)
        yield name, alert.severity, alert.of.name, alert.when, alert.wait, to_do


def _times() -> Iterator[Sequence[str]]:
    """Give for each alert the reasons of `for` and `keep_firing_for`."""
    yield "alert", "for", "why", "keep_firing_for", "why"
    for group in GROUPS:
        for rule in group.rules:
            if isinstance(rule, Alert):
                yield rule.name, rule.wait, rule.wait_why, rule.keep, rule.keep_why


def _recorded() -> Iterator[Sequence[str]]:
    yield "series", "meaning"
    for series in recorded():
        yield f"`{series.name}`", series.says


def _claim_reasons() -> Iterator[Sequence[str]]:
    """Give for each reason of a pending claim its alert, and why it is that one."""
    yield "reason", "alert", "why"
    cannot = ", ".join(f"`{reason}`" for reason in CANNOT)
    yield cannot, "DraguardClaimCannotBeAllocated", "they do not end by themselves"
    for reason, why in QUIET.items():
        yield f"`{reason}`", "none", why
    yield "any other", "DraguardClaimPending", "it may end by itself"


TABLES: Tables = {
    "alerts": _alerts,
    "claim-reasons": _claim_reasons,
    "times": _times,
    "recorded": _recorded,
}
