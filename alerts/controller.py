"""Alerts on the remediator itself: only where one runs or ran, and where there are GPUs."""

from alerts.identity import on
from alerts.recordings import GPUS, OF_REMEDIATORS, REMEDIATORS
from alerts.rule import Alert, Group
from alerts.subjects import OF_CLUSTER
from alerts.thresholds import QUEUE_AGE, WATCH_AGE
from remediator.freshness import TRUSTED

_CLUSTER = ("cluster",)
_BUILD = "draguard_remediator_build_info"
_WITH_GPUS = f"and {on(_CLUSTER)} last_over_time({GPUS}[1h])"
"""The exporters may be down at the same time."""
_STANDING = 'budget="taint",ground="cluster"'
_USED = f"draguard_budget_used_gpus{{{_STANDING}}}"
_LIMIT = f"draguard_budget_limit_gpus{{{_STANDING}}}"
_UNTRUSTED = "draguard_remediator_collection_untrusted"
_POLICY = "draguard_remediator_policy_info"
_AHEAD = "draguard_remediator_clock_ahead_seconds"
_APART = int(TRUSTED.total_seconds())
_ACTS = 'mode=~"dry-run|enforce"'
_KEEP = "5m"
_KEEP_WHY = "A restarting replica exports no metrics for a moment."


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
            when="No remediator can be scraped, but one was scraped within the last hour or is "
            "still a scrape target. Never fires where no remediator ran.",
            expr=f"(\n  {_any(f'up == 0 and on (cluster, job) {REMEDIATORS}', 'count')}\n"
            f"  or {_any(f'last_over_time({_BUILD}[1h])', 'count')}\n)\n"
            f"unless {on(_CLUSTER)} {_BUILD}\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A rollout of both replicas takes minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="No remediator runs.",
            description="No remediator can be scraped (known: {{ $value }}). GPUs are neither "
            "tainted nor untainted; existing taints stay.",
            next="Check `kubectl -n draguard-system get pods` and the remediator's log. After an "
            "uninstall the alert resolves within the hour.",
        ),
        Alert(
            name="DraguardNoLeader",
            severity="critical",
            of=OF_CLUSTER,
            when="Remediators run, but none of them is the leader.",
            expr=f"{_any('draguard_remediator_leader')} == 0\n{_WITH_GPUS}",
            wait="2m",
            wait_why="A new leader takes over within 15 seconds.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="Remediators run, but none of them is the leader.",
            description="No remediator holds the Lease. No GPU is tainted or untainted. "
            + _counted("Running: ", "draguard_remediator_leader{cluster=%q}")
            + ".",
            next="Check the Lease in draguard-system and the logs. Either the API server rejects "
            "the Lease update, or the policy file was never readable.",
        ),
        Alert(
            name="DraguardRemediatorBlind",
            severity="critical",
            of=OF_CLUSTER,
            when="The remediator's cache of a collection is untrusted: the API server refuses the "
            "collection, does not serve it, or its watch has been stale for 150 s.",
            expr=f"{_any(f'{_UNTRUSTED} == 1', 'count')} > 0\n{_WITH_GPUS}",
            wait="1m",
            wait_why="A watch that is refused once is reopened within seconds.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The remediator's cache is untrusted: nothing is tainted or untainted.",
            description="Untrusted collections: "
            "{{ with printf `max by (collection) (draguard_remediator_collection_untrusted"
            "{cluster=%q} == 1)` $labels.cluster | query }}"
            "{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ $one.Labels.collection }}{{ end }}"
            "{{ else }}unknown{{ end }}. "
            "Faulty GPUs stay schedulable unless they are already tainted.",
            next="The remediator's log names the refused request. Compare its ClusterRole with the "
            "chart's; `draguard doctor` checks the permissions. It then resumes automatically.",
        ),
        Alert(
            name="DraguardRemediatorBehind",
            severity="warning",
            of=OF_CLUSTER,
            when="A watch of the remediator has been stale for 150 s, or a node has waited in its "
            "workqueue for two minutes.",
            expr=f"(\n  {_any('draguard_remediator_watch_age_seconds')} > {WATCH_AGE}\n"
            f"  or {_any('draguard_remediator_queue_age_seconds')} > {QUEUE_AGE}\n)\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A restart of the API server takes minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The remediator works on old data.",
            description="The remediator is {{ $value | humanizeDuration }} behind: "
            "a watch is stale, or nodes wait in the workqueue.",
            next="Check draguard_remediator_api_requests_total by code, "
            "draguard_remediator_watch_age_seconds by collection, and the log.",
        ),
        Alert(
            name="DraguardPolicyFileBad",
            severity="warning",
            of=OF_CLUSTER,
            when="The policy file is invalid, and the last good policy stays in force.",
            expr=f"{_any('draguard_remediator_policy_file_bad')} == 1\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A file that is being edited is usually fixed within minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The policy file is invalid.",
            description="The policy file is invalid. "
            + _counted("Remediators: ", "draguard_remediator_policy_file_bad{cluster=%q} == 1")
            + ". They use the last good policy; after a restart they would have none.",
            next="`draguard policy check` lists each problem with its line.",
        ),
        Alert(
            name="DraguardPolicyDisagrees",
            severity="warning",
            of=OF_CLUSTER,
            when="The remediator replicas have had different policies in force for five minutes.",
            expr=f"{_any(f'count by (cluster, hash) ({_POLICY} == 1)', 'count')} > 1\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A ConfigMap reaches all nodes within a minute or two.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The remediator replicas have different policies.",
            description="Different policies in force: {{ $value }}. "
            "The leader's policy applies; a failover changes what Draguard does. "
            + _counted("Replicas: ", "draguard_remediator_policy_info{cluster=%q} == 1")
            + ".",
            next="Compare the policy files of the replicas. One does not get the ConfigMap, or "
            "rejects it (DraguardPolicyFileBad). `draguard_remediator_policy_info` has each hash "
            "by `instance`.",
        ),
        Alert(
            name="DraguardClockDisagrees",
            severity="warning",
            of=OF_CLUSTER,
            when="The clocks of a remediator's node and of the API server differ by more than "
            f"{_APART} s.",
            expr=f"{_any(f'abs({_AHEAD}) > {_APART}')}\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A corrected clock is trusted again within minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The remediator's clock is wrong: nothing is untainted or evicted.",
            description="The clocks of a remediator and of the API server differ by "
            "{{ $value | humanizeDuration }}. While that remediator leads, no soak time counts and "
            "no GPU is untainted and no eviction begins. NoSchedule continues.",
            next="Check time synchronization (chrony, systemd-timesyncd) on the remediators' nodes "
            "and on the control plane. `draguard_remediator_clock_ahead_seconds` by `instance` "
            "shows which clock is wrong.",
        ),
        Alert(
            name="DraguardRulesNotServed",
            severity="warning",
            of=OF_CLUSTER,
            when="The policy has dry-run or enforce classes, but the API server does not serve "
            "DeviceTaintRules.",
            expr=f"{_any('draguard_remediator_rules_served')} == 0\n"
            f"and {on(_CLUSTER)} (\n  draguard_remediator_policy_mode{{{_ACTS}}} == 1\n"
            f"  or draguard_incident_mode{{{_ACTS}}} == 1\n)\n{_WITH_GPUS}",
            wait="10m",
            wait_why="During an upgrade the API server serves its API groups one after the other.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The cluster does not serve the DeviceTaintRules that the policy needs.",
            description="DeviceTaintRules are not served. Nothing is tainted or evicted, whatever "
            "the policy; requests for node repair work. "
            + _counted(
                "Classes set to dry-run or enforce: ",
                "max by (class) (draguard_remediator_policy_mode{cluster=%q," + _ACTS + "} == 1)",
            )
            + ".",
            next="Enable the feature gate DRADeviceTaintRules and its API version "
            "(`draguard doctor` shows which). Where the control plane does not let you, cordon the "
            "nodes of sick GPUs, and silence this alert.",
        ),
        Alert(
            name="DraguardRuleStatusMissing",
            severity="warning",
            of=OF_CLUSTER,
            when="NoExecute taint rules exist, but the eviction controller reports no status for "
            "them. Not before Kubernetes 1.35, where rules have no status.",
            expr=f"{_any('draguard_remediator_rule_status_missing')} > 0\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A failover of the controller manager takes a minute or two.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The eviction controller ignores NoExecute taint rules.",
            description="NoExecute taint rules without a status: {{ $value }}. Pods on faulty GPUs "
            "are not deleted.",
            next="Enable the feature gates DRADeviceTaints and DRADeviceTaintRules in the "
            "kube-controller-manager as well (`draguard doctor`).",
        ),
        Alert(
            name="DraguardTaintBudgetFull",
            severity="warning",
            of=OF_CLUSTER,
            when="The number of tainted GPUs (NoSchedule or NoExecute) has reached "
            "`budget.taint.cluster`. Not where the policy allows none.",
            expr=f"{_any(f'{_USED} >= {_LIMIT} > 0')}\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A verified or repaired GPU frees the budget at once.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The taint budget is full: no further GPU is tainted.",
            description="{{ $value }} GPUs are tainted, the limit of the policy. The next faulty "
            "GPU stays schedulable.",
            next="Check whether the GPUs fail for a common cause (driver, power, switch). If not, "
            "repair them, or raise `budget.taint.cluster`.",
        ),
        Alert(
            name="DraguardTaintIgnored",
            severity="warning",
            of=OF_CLUSTER,
            when="Claims without a toleration were allocated a device well after its taint.",
            expr=f"{_any('draguard_remediator_taint_ignored_claims')} > 0\n{_WITH_GPUS}",
            wait="2m",
            wait_why="A claim that is deallocated at once is not a problem.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A scheduler allocates tainted GPUs.",
            description="Claims that were allocated a tainted GPU: {{ $value }}. The condition "
            "TaintIgnored of the incidents names them.",
            next="Enable the feature gates DRADeviceTaints and DRADeviceTaintRules in every "
            "kube-scheduler (`draguard doctor`). Other schedulers must honor device taints, too.",
        ),
        Alert(
            name="DraguardGpusNotTaintable",
            severity="warning",
            of=OF_CLUSTER,
            when="GPUs are published in a way that no taint rule can select: by a node selector, "
            "or in a pool that does not belong to one node.",
            expr=f"{_any('draguard_remediator_gpus_not_taintable')} > 0\n{_WITH_GPUS}",
            wait="15m",
            wait_why="A starting DRA driver publishes its ResourceSlices one after the other.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="Draguard cannot taint some GPUs because of how they are published.",
            description="GPUs that cannot be tainted: {{ $value }}. A new release of the DRA "
            "driver may publish them differently.",
            next="Check `kubectl get resourceslices -o yaml` for one of their nodes: "
            "`spec.nodeName` and `spec.pool.name` must be the node's name. Roll back the driver.",
        ),
    ),
)
