"""Alerts on the remediator itself: where one runs or ran, and only where there are GPUs."""

from alerts.identity import on
from alerts.recordings import GPUS, OF_REMEDIATORS, REMEDIATORS
from alerts.rule import Alert, Group
from alerts.subjects import OF_CLUSTER
from remediator.diagnose.clock_trust import TRUSTED

_CLUSTER = ("cluster",)
_BUILD = "draguard_remediator_build_info"
_WITH_GPUS = f"and {on(_CLUSTER)} last_over_time({GPUS}[1h])"
"""The exporters may be away together with it."""
_STANDING = 'budget="taint",ground="cluster"'
_USED = f"draguard_budget_used_gpus{{{_STANDING}}}"
_LIMIT = f"draguard_budget_limit_gpus{{{_STANDING}}}"
_UNTRUSTED = "draguard_remediator_collection_untrusted"
_POLICY = "draguard_remediator_policy_info"
_AHEAD = "draguard_remediator_clock_ahead_seconds"
_APART = int(TRUSTED.total_seconds())
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
            "neither tainted nor untainted, and what is tainted stays so.",
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
            description="No remediator holds the Lease: no GPU is tainted or untainted. "
            + _counted("Running: ", "draguard_remediator_leader{cluster=%q}")
            + ".",
            next="Look at the Lease in draguard-system and at the logs: the API server refuses it, "
            "or the policy file was never readable.",
        ),
        Alert(
            name="DraguardRemediatorBlind",
            severity="critical",
            of=OF_CLUSTER,
            when="The remediator cannot trust its copy of a collection: the API server refuses it, "
            "does not serve it, or nothing was heard of it for 150 s.",
            expr=f"{_any(f'{_UNTRUSTED} == 1', 'count')} > 0\n{_WITH_GPUS}",
            wait="1m",
            wait_why="A watch that is refused once is opened again within seconds.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The remediator is blind: nothing is tainted or untainted.",
            description="Collections that cannot be trusted: "
            "{{ with printf `max by (collection) (draguard_remediator_collection_untrusted"
            "{cluster=%q} == 1)` $labels.cluster | query }}"
            "{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ $one.Labels.collection }}{{ end }}"
            "{{ else }}unknown{{ end }}. "
            "Sick GPUs stay schedulable if they are not tainted already.",
            next="The log of the remediator says which request is refused. Compare its ClusterRole "
            "with the chart's; `draguard doctor` checks the rights. It goes on by itself.",
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
            name="DraguardPolicyDisagrees",
            severity="warning",
            of=OF_CLUSTER,
            when="The replicas of the remediator have had different policies in force for five "
            "minutes.",
            expr=f"{_any(f'count by (cluster, hash) ({_POLICY} == 1)', 'count')} > 1\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A ConfigMap reaches all nodes within a minute or two.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The replicas of the remediator have different policies.",
            description="Different policies in force: {{ $value }}. "
            "The policy of the leader decides; a fail-over changes what Draguard does. "
            + _counted("Replicas: ", "draguard_remediator_policy_info{cluster=%q} == 1")
            + ".",
            next="Compare the policy files of the replicas: one does not get the ConfigMap, or "
            "refuses it (DraguardPolicyFileBad). `draguard_remediator_policy_info` has the hash of "
            "each by `instance`.",
        ),
        Alert(
            name="DraguardClockDisagrees",
            severity="warning",
            of=OF_CLUSTER,
            when="The clock of a remediator's machine and the API server's are more than "
            f"{_APART} s apart.",
            expr=f"{_any(f'abs({_AHEAD}) > {_APART}')}\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A clock that is stepped back into time is trusted again within minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="The remediator's clock is wrong: nothing is untainted.",
            description="A remediator's clock and the API server's are "
            "{{ $value | humanizeDuration }} apart. While it leads, no soak time counts and no GPU "
            "is untainted; taints and evictions go on.",
            next="Look at the time synchronisation (chrony, systemd-timesyncd) of the remediators' "
            "nodes and of the control plane. `draguard_remediator_clock_ahead_seconds` by "
            "`instance` says which one is off.",
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
            summary="The policy wants taints and the cluster has no rules for them.",
            description="DeviceTaintRules are not served: nothing is tainted, whatever the policy "
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
        Alert(
            name="DraguardTaintBudgetFull",
            severity="warning",
            of=OF_CLUSTER,
            when="As many GPUs stand tainted (NoSchedule or NoExecute) as `budget.taint.cluster` "
            "allows. Not where the policy allows none.",
            expr=f"{_any(f'{_USED} >= {_LIMIT} > 0')}\n{_WITH_GPUS}",
            wait="5m",
            wait_why="A GPU that is verified or repaired makes room at once.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="No further sick GPU is tainted: the budget is full.",
            description="{{ $value }} GPUs are tainted, which is all that the policy allows. The "
            "next sick GPU stays schedulable.",
            next="Look whether they fail for one reason (driver, power, switch). If they do not, "
            "repair them, or raise `budget.taint.cluster`.",
        ),
        Alert(
            name="DraguardTaintIgnored",
            severity="warning",
            of=OF_CLUSTER,
            when="Claims without a toleration were allocated a device well after it was tainted.",
            expr=f"{_any('draguard_remediator_taint_ignored_claims')} > 0\n{_WITH_GPUS}",
            wait="2m",
            wait_why="A claim that is given back at once is no trouble.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A scheduler allocates GPUs that are tainted.",
            description="Claims that were allocated a tainted GPU: {{ $value }}. Their incidents "
            "name them in the condition TaintIgnored.",
            next="Enable the feature gates DRADeviceTaints and DRADeviceTaintRules in every "
            "kube-scheduler (`draguard doctor`); another scheduler must honour them, too.",
        ),
        Alert(
            name="DraguardGpusNotTaintable",
            severity="warning",
            of=OF_CLUSTER,
            when="GPUs are reported and published in a way for which no taint rule can be made: by "
            "a node selector, or in a pool that is not one node's own.",
            expr=f"{_any('draguard_remediator_gpus_not_taintable')} > 0\n{_WITH_GPUS}",
            wait="15m",
            wait_why="A driver that starts publishes its slices one after the other.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="GPUs are published in a way that keeps Draguard from tainting them.",
            description="GPUs that cannot be tainted: {{ $value }}. A new release of the DRA "
            "driver may publish them in another way.",
            next="`kubectl get resourceslices -o yaml` on one of their nodes: `spec.nodeName` and "
            "`spec.pool.name` must be the node's name. Go back to the release of before.",
        ),
    ),
)
