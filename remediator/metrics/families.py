"""The table of metrics of the cluster that any replica can export: incidents, budgets, devices.

Alerts and dashboards use these names. `incident` is the name of a DeviceIncident, `UUID` the
GPU's, as the node exporters spell it.
"""

from remediator.plan.stages import deferral_reasons_in_words
from serving.families import Family

PREFIX = "draguard"
INCIDENTS = 1000
"""Open incidents that are exported one by one."""
CONSUMERS = 64
"""Affected pods that are exported for one incident."""
ALL_CONSUMERS = 8000
"""Affected pods that are exported for all incidents together, shared out evenly."""
_INCIDENT = ("incident", "node", "UUID")


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name=name, kind="gauge", text=text, labels=labels, prefix=PREFIX)


def _incident(name: str, text: str, *labels: str) -> Family:
    return _gauge(f"incident_{name}", text, *_INCIDENT, *labels)


CLUSTER_FAMILIES: tuple[Family, ...] = (
    _incident(
        "info",
        "1 for each open incident: class of the fault, what it was seen by (such as `xid-79`), and "
        f"which devices it means. At most {INCIDENTS} incidents are shown, the worst classes and "
        "then the oldest first.",
        "class",
        "cause",
        "scope",
    ),
    _incident(
        "phase",
        "1 for the phase: Suspected, Tainted, Evicting, Drained, Repairing, Verifying, NeedsHuman.",
        "phase",
    ),
    _incident(
        "mode",
        "1 for the mode in which it is handled: off, incident-only, dry-run, enforce. Only enforce "
        "taints; nothing while no status is written.",
        "mode",
    ),
    _incident(
        "rules",
        "Draguard's DeviceTaintRules that are stored for it, by effect: None, NoSchedule, "
        "NoExecute. NoSchedule and NoExecute keep new pods away.",
        "effect",
    ),
    _incident(
        "deferred",
        "1 while something is deferred, by what defers it: "
        f"{deferral_reasons_in_words()}, NodeGone (it was taken away). "
        "A user's own taint counts as Maintenance.",
        "reason",
    ),
    _incident(
        "needs",
        "1 for what would repair it: nothing, diagnosis, fabric-recovery, gpu-reset, node-reboot, "
        "replacement, human.",
        "needs",
    ),
    _incident(
        "unconfirmed",
        "1 while only the kernel log reports the fault and no second source can confirm it, by why "
        "not: DriverTooOld (before R565), NvmlUnavailable, NotInNvml (an SXid, and NVML reads no "
        "failed link). It is tainted NoSchedule at most.",
        "reason",
    ),
    _incident(
        "eviction_blocked",
        "1 while pods stay on a tainted device and evictions alone do not remove them, by why not: "
        "DisruptionBudget (`evict.within` is over, and an eviction is refused or a pod passed by; "
        "evictions are requested on), PodsJoin (pods joined a shared claim in too many rounds; no "
        "eviction is requested), PodsStay (ten minutes after NoExecute nothing removes the pods "
        "that are left: they tolerate it, do not end, are on a device that is not evicted from, or "
        "are not reached by it and their eviction is refused). The GPU counts in no `evict` "
        "budget.",
        "reason",
    ),
    _incident(
        "consumer_info",
        "1 for each affected pod, by how it uses the device: by a `claim`, an `extended` resource, "
        "`admin` access, or as a `gang` peer; `evicted`: it was evicted. No pod name: an allocated "
        "claim that no pod uses. At most "
        f"{CONSUMERS} for one incident, and {ALL_CONSUMERS} in all; the object's status has more.",
        "dra_claim_namespace",
        "dra_claim_name",
        "pod_name",
        "via",
    ),
    _incident(
        "opened_timestamp_seconds", "When the incident was opened, by the API server's clock."
    ),
    _incident("phase_since_timestamp_seconds", "Since when it is in its phase."),
    _incident(
        "recurrence",
        "Number of this incident among those of its GPU within the policy's repeat window, from 1.",
    ),
    _incident(
        "evicted_pods",
        "Pods that used a device under NoExecute and no longer do, evicted or gone by themselves.",
    ),
    _gauge(
        "incidents_omitted",
        f"Open incidents without series of their own, because more than {INCIDENTS} are open.",
    ),
    _gauge(
        "budget_used_gpus",
        "GPUs that count for a limit of the policy, by `budget` (`evict`: being evicted from, not "
        "Drained yet; `taint`: standing with NoSchedule or more) and `ground`. Of node, pool, "
        "deviceClass, domain: the one that is fullest, while any counts. `rate`: begun within its "
        "time.",
        "budget",
        "ground",
    ),
    _gauge(
        "budget_limit_gpus",
        "What `draguard_budget_used_gpus` may reach; a percentage is reckoned of the GPUs seen "
        "within 24 hours. Nothing where the policy has no limit.",
        "budget",
        "ground",
    ),
    _gauge(
        "emergency_stop",
        "1 while an emergency stop is in force, by the annotation of the namespace or by the "
        "policy: nothing new is tainted and no disruption begins.",
    ),
    _gauge(
        "maintenance_windows_open",
        "Maintenance windows of the policy that are open now. Inside their areas nothing new is "
        "tainted and no disruption begins.",
    ),
    _gauge(
        "correlation_in_force",
        "What defers new evictions by correlation: SameCause (causes that are new on many nodes), "
        "NodeChanged (nodes whose driver or agent changed lately: faults that began since then "
        "are deferred), PolicyChanged (1: somewhere it allows more than before, and all "
        "are deferred there). All 0: none is.",
        "reason",
    ),
    _gauge(
        "agent_stale",
        "1 where a node's report is stored and its agent has written neither it nor its Lease for "
        "`--stale-after`, or never; 0 where it has. Nothing while the watches are silent.",
        "node",
    ),
    _gauge(
        "node_mig_config",
        "1 for each node of which the label `nvidia.com/mig.config` requests a MIG geometry, with "
        "what NVIDIA's MIG manager says of it (`nvidia.com/mig.config.state`): pending, rebooting, "
        "success, failed; `none` where it says nothing.",
        "node",
        "config",
        "state",
    ),
    _gauge(
        "node_mig_config_differs_gpus",
        "GPUs of the node whose reported slices are not what the label requests. Judged are "
        "`all-disabled`, `all-enabled` and `all-PROFILE`; nothing for other names, whose meaning "
        "is in the MIG manager's file.",
        "node",
    ),
    _gauge(
        "devices",
        "Published GPUs (`gpu`), slices (`mig`) and passed-through GPUs (`vfio`). State: allocated "
        "(a claim holds it, also when shared and not full; admin access holds nothing), free, "
        "unknown (some claim cannot be read). Taint, NoSchedule or NoExecute: `draguard` (of an "
        "incident), else `driver` (in its ResourceSlice), else `other` (other rules, `draguard "
        "cordon` among them), `none`, `unknown` (some rule cannot be read, or selects "
        "by DeviceClass or CEL). The sum is what is published: devices that exclude each other, as "
        "with dynamic MIG, each count. Slices that cannot be read are not in it: see "
        "draguard_unread_objects.",
        "driver",
        "type",
        "product",
        "profile",
        "state",
        "taint",
    ),
    _gauge(
        "unread_objects",
        "ResourceSlices (slices), ResourceClaims and DeviceTaintRules of which the present version "
        "cannot be read. Devices of such slices count as they were before, or not at all.",
        "kind",
    ),
    _gauge(
        "foreign_devices",
        "Published devices of drivers that are not in `gpuDrivers`, such as network cards, in the "
        "states and taints of draguard_devices. Of a pool that nodes share, those of one node are "
        "counted; of a pool of no node, none. Draguard only counts them.",
        "driver",
        "product",
        "state",
        "taint",
    ),
)
