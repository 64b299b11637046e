"""Alerts on the explainer itself: only where one runs or ran."""

from alerts.identity import on
from alerts.recordings import EXPLAINERS, OF_EXPLAINERS
from alerts.rule import Alert, Group
from alerts.subjects import OF_FLEET
from alerts.templates import BLIND_EXPLAINER
from alerts.thresholds import LOOK_AGE, REASON_AGE

_PREFIX = "draguard_explainer"
_CLUSTER = ("cluster",)
_LEADS = f"{_PREFIX}_leader == 1"
_LOOKED = f'{_PREFIX}_rows_dropped{{family="claims"}}'
"""Exported with the claims, whether there are any or not."""
_KEEP = "5m"
_KEEP_WHY = "A restarting replica exports no metrics for a moment."


def _worst(family: str) -> str:
    return f"max by (cluster) ({_PREFIX}_{family})"


GROUP = Group(
    name="draguard-explainer",
    rules=(
        *OF_EXPLAINERS,
        Alert(
            name="DraguardExplainerDown",
            severity="warning",
            of=OF_FLEET,
            when="No explainer that leads can be scraped, but one was scraped within the last hour "
            "or is still a scrape target. Never fires where no explainer ran.",
            expr=f"(\n  count by (cluster) (up == 0 and on (cluster, job) {EXPLAINERS})\n"
            f"  or count by (cluster) (last_over_time({_PREFIX}_build_info[1h]))\n)\n"
            f"unless {on(_CLUSTER)} {_LEADS}",
            wait="5m",
            wait_why="A rollout takes minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="No explainer runs, or none is the leader.",
            description="No explainer that leads can be scraped (known: {{ $value }}). Why claims "
            "wait is unknown to metrics, Events and alerts. Taints and evictions go on.",
            next="Check `kubectl -n draguard-system get pods` and the explainer's log. After an "
            "uninstall the alert resolves within the hour. Meanwhile `draguard why POD` works.",
        ),
        Alert(
            name="DraguardExplainerBlind",
            severity="warning",
            of=OF_FLEET,
            when="The explainer leads and exports no claims, because it cannot trust a collection "
            f"or its looks fail; or its last look is older than {LOOK_AGE // 60} minutes; or a "
            f"reason that may have changed is older than {REASON_AGE // 60}.",
            expr=f"{_worst('collection_untrusted')} == 1\n"
            f"or max by (cluster) ({_LEADS}) unless {on(_CLUSTER)} {_LOOKED}\n"
            f"or {_worst('look_age_seconds')} > {LOOK_AGE}\n"
            f"or {_worst('reason_age_seconds')} > {REASON_AGE}",
            wait="5m",
            wait_why="The first look after a start takes minutes in a large cluster.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The explainer does not know why claims wait now.",
            description=BLIND_EXPLAINER,
            next="The explainer's log names the refused request or the error. Compare its "
            "ClusterRole with the chart's; `draguard doctor` checks the permissions.",
        ),
    ),
)
