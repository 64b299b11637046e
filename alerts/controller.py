"""Alerts on the remediator itself: where one runs or ran, and only where there are GPUs."""

from alerts.identity import on
from alerts.recordings import GPUS, OF_REMEDIATORS, REMEDIATORS
from alerts.rule import Alert, Group
from alerts.subjects import OF_CLUSTER

_CLUSTER = ("cluster",)
_BUILD = "draguard_remediator_build_info"
_WITH_GPUS = f"and {on(_CLUSTER)} last_over_time({GPUS}[1h])"
"""The exporters may be away together with it."""
_ACTS = 'mode=~"dry-run|enforce"'
_KEEP = "5m"
_KEEP_WHY = "A replica that restarts shows nothing for a moment."


def _any(expr: str, operation: str = "max") -> str:
    return f"{operation} by (cluster) ({expr})"


def _counted(what: str, query: str) -> str:
    return (
        f"{what}{{{{ with printf `count({query})` $labels.cluster | query }}}}"
        "{{ (index . 0).Value }}{{ else }}none{{ end }}"
    )


GROUP = Group(
    name="draguard-remediator",
    rules=(
        *OF_REMEDIATORS,
        Alert(
            name="DraguardRemediatorDown",
            severity="critical",
            of=OF_CLUSTER,
            when="No remediator answers the scrape, where one did within the hour or a scrape job "
            "still has it as target. Never where there was none.",
            expr=f"(\n  {_any(f'up == 0 and on (cluster, job) {REMEDIATORS}', 'count')}\n"
            f"  or {_any(f'last_over_time({_BUILD}[1h])', 'count')}\n)\n"
            f"unless {on(_CLUSTER)} {_BUILD}\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A roll-out of both replicas takes minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="No remediator runs.",
            description="No remediator can be scraped, known are {{ $value }}: sick GPUs are "
            "neither fenced nor released, and what is fenced stays so.",
            next="`kubectl -n draguard-system get pods` and the log of the remediator. After an "
            "uninstall this ends within the hour by itself.",
        ),
        Alert(
            name="DraguardNoLeader",
            severity="critical",
            of=OF_CLUSTER,
            when="Remediators run and none of them leads.",
            expr=f"{_any('draguard_remediator_leader')} == 0\n{_WITH_GPUS}",
            wait="2m",
            wait_why="A new leader takes over within a quarter of a minute.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="Remediators run and none of them leads.",
            description="No remediator holds the Lease: sick GPUs are neither fenced nor released. "
            + _counted("Running: ", "draguard_remediator_leader{cluster=%q}")
            + ".",
            next="Look at the Lease in draguard-system and at the logs: the API server refuses it, "
            "or the policy file was never readable.",
        ),
        Alert(
            name="DraguardRemediatorBehind",
            severity="warning",
            of=OF_CLUSTER,
            when="A watch of the remediator has been silent for 150 s, or a node has waited for "
            "two minutes to be decided.",
            expr=f"(\n  {_any('draguard_remediator_watch_age_seconds')} > 150\n"
            f"  or {_any('draguard_remediator_queue_age_seconds')} > 120\n)\n{_WITH_GPUS}",
            wait="5m",
            wait_why="An API server that restarts takes minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The remediator does not keep up.",
            description="The remediator decides on what was {{ $value | humanizeDuration }} ago: "
            "a watch is silent, or nodes wait.",
            next="Look at draguard_remediator_api_requests_total by code, at "
            "draguard_remediator_watch_age_seconds by collection, and at its log.",
        ),
        Alert(
            name="DraguardPolicyFileBad",
            severity="warning",
            of=OF_CLUSTER,
            when="The policy file is unusable and the last good policy is in force.",
            expr=f"{_any('draguard_remediator_policy_file_bad')} == 1\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A file that is being edited is put right within minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The policy file is refused.",
            description="The policy file is unusable. "
            + _counted("Remediators: ", "draguard_remediator_policy_file_bad{cluster=%q} == 1")
            + ". The last good policy is in force there, and a restart would leave none.",
            next="`draguard policy check` names each problem with its line.",
        ),
        Alert(
            name="DraguardRulesNotServed",
            severity="warning",
            of=OF_CLUSTER,
            when="The policy wants rules (dry-run or enforce) and the API server serves no "
            "DeviceTaintRules.",
            expr=f"{_any('draguard_remediator_rules_served')} == 0\n"
            f"and {on(_CLUSTER)} (\n  draguard_remediator_policy_mode{{{_ACTS}}} == 1\n"
            f"  or draguard_incident_mode{{{_ACTS}}} == 1\n)\n{_WITH_GPUS}",
            wait="10m",
            wait_why="An API server that is upgraded serves its groups one after the other.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The policy wants fences and the cluster has no rules for them.",
            description="DeviceTaintRules are not served: nothing is fenced, whatever the policy "
            "says. "
            + _counted(
                "Classes that should be acted on: ",
                "max by (class) (draguard_remediator_policy_mode{cluster=%q," + _ACTS + "} == 1)",
            )
            + ".",
            next="Enable the feature gate DRADeviceTaintRules and its API version "
            "(`draguard doctor` says which), or set the classes to incident-only.",
        ),
        Alert(
            name="DraguardRuleStatusMissing",
            severity="warning",
            of=OF_CLUSTER,
            when="NoExecute rules of ours are stored and the eviction controller says nothing of "
            "them. Not where rules have no status (before Kubernetes 1.35).",
            expr=f"{_any('draguard_remediator_rule_status_missing')} > 0\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A controller manager that hands over its lease takes a minute or two.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="Nobody acts on the rules that should move pods.",
            description="NoExecute rules without a status: {{ $value }}. Pods are not moved from "
            "sick GPUs.",
            next="Enable the feature gates DRADeviceTaints and DRADeviceTaintRules in the "
            "kube-controller-manager as well (`draguard doctor`).",
        ),
    ),
)
