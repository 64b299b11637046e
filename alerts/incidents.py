"""Alerts on incidents of faulty GPUs, from the remediator's metrics.

Both replicas export every incident; each is counted once. The alerts on missing taints do not fire
for a GPU that a user holds, ignores or maintains.
"""

from alerts import templates
from alerts.identity import DEVICE, on
from alerts.rule import Alert, Group
from alerts.subjects import OF_HELD_INCIDENT, OF_INCIDENT
from alerts.thresholds import LONGEST_PHASE

_BY = f"max by ({', '.join(DEVICE)})"
_TAINTED = f'{_BY} (draguard_incident_rules{{effect=~"NoSchedule|NoExecute"}}) > 0'
_NOT_SICK = 'draguard_incident_phase{phase=~"Verifying|NeedsHuman|Recovered|Closed"} == 1'
"""Healthy again: without a taint, NeedsHuman follows only after verified health."""
_MEANT = 'draguard_incident_deferred{reason=~"Human|Maintenance|NodeGone"} == 1'
"""Users know of it, or the node was removed and gets no pods."""

_UNCONFIRMED = "draguard_incident_unconfirmed"
_BLOCKED = "draguard_incident_eviction_blocked"

_HERE = f'unless {on(DEVICE)} draguard_incident_deferred{{reason="NodeGone"}} == 1'
"""An incident is kept for a week after its node was removed; there is nothing to repair."""

_KEEP = "5m"
_KEEP_WHY = "A restarted remediator exports no metrics until its caches are synced."


def _untainted(classes: str) -> str:
    return (
        f'{_BY} (draguard_incident_info{{class=~"{classes}"}})\n'
        f"unless {on(DEVICE)} {_TAINTED}\n"
        f"unless {on(DEVICE)} {_NOT_SICK}\n"
        f"unless {on(DEVICE)} {_MEANT}"
    )


_STUCK = "\nor ".join(
    f"{_BY} (\n  (time() - draguard_incident_phase_since_timestamp_seconds > {limit})\n"
    f'  and {on((*DEVICE, "incident"))} draguard_incident_phase{{phase="{phase}"}} == 1\n)'
    for phase, limit in LONGEST_PHASE.items()
)


GROUP = Group(
    name="draguard-incidents",
    rules=(
        Alert(
            name="DraguardDeviceNotTainted",
            severity="critical",
            of=OF_HELD_INCIDENT,
            when="An incident of class gpu, lost or node is open, the GPU is not healthy again, "
            "and it has no NoSchedule or NoExecute taint rule. Not where a user holds, ignores or "
            "maintains the GPU, nor where its node is gone.",
            expr=_untainted("gpu|lost|node"),
            wait="2m",
            wait_why="A taint rule is stored within seconds and scraped within a minute.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A faulty GPU is not tainted and stays schedulable.",
            description="The GPU has " + templates.CAUSE + ", and is not tainted. " + templates.WHY,
            next="Keep new pods away: `draguard cordon`, or a higher mode of its class in the "
            "policy; without DeviceTaintRules, cordon node {{ $labels.node }}. Then drain and "
            "repair it.",
        ),
        Alert(
            name="DraguardDegradedNotTainted",
            severity="warning",
            of=OF_HELD_INCIDENT,
            when="The same for the classes contained, fabric and memory, where running pods may "
            "continue.",
            expr=_untainted("contained|fabric|memory"),
            wait="5m",
            wait_why="Some classes wait for a second source before they taint, and a contained "
            "error ends with its process.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A partly faulty GPU is not tainted and stays schedulable.",
            description="The GPU has " + templates.CAUSE + ", and is not tainted. " + templates.WHY,
            next="Decide whether pods may still use the GPU. If not: `draguard cordon`, or a "
            "higher mode of its class in the policy; without DeviceTaintRules, cordon node "
            "{{ $labels.node }}.",
        ),
        Alert(
            name="DraguardDeviceTainted",
            severity="warning",
            of=OF_INCIDENT,
            when="An open incident has a taint rule (NoSchedule or NoExecute), and its node still "
            "exists.",
            expr=f"{_TAINTED}\n{_HERE}",
            wait="1m",
            wait_why="Two scrapes; a tainted GPU is not urgent.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A faulty GPU is tainted and waits for repair.",
            description="The GPU has " + templates.CAUSE + ". " + templates.NEEDED,
            next="Repair the GPU (`draguard incidents` shows how). The taint is removed "
            "automatically after the GPU has been healthy for the soak time.",
        ),
        Alert(
            name="DraguardDeferredByBudget",
            severity="warning",
            of=OF_HELD_INCIDENT,
            when="A budget or a correlation of many faults defers a step for a GPU.",
            expr=f'{_BY} (draguard_incident_deferred{{reason=~"Budget|Correlation"}}) == 1',
            wait="10m",
            wait_why="Repairs of other GPUs free the budget; a burst of faults passes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A budget or correlation defers the remediation of a faulty GPU.",
            description="The GPU has " + templates.CAUSE + ". " + templates.WHY,
            next="Check whether many GPUs fail for a common cause (driver, power, switch). If not, "
            "repair the tainted GPUs, or raise the budget.",
        ),
        Alert(
            name="DraguardIncidentStuck",
            severity="warning",
            of=OF_INCIDENT,
            when="An incident is Evicting for an hour, Tainted, Drained or Repairing for a day, or "
            "Verifying for two hours. Not where evictions are blocked, which has its own alert.",
            expr=f"(\n{_STUCK}\n)\n{_HERE}\nunless {on(DEVICE)} {_BLOCKED} == 1",
            wait="5m",
            wait_why="The expression already contains the limits.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="An incident is stuck in its phase.",
            description="The incident has been in its phase for {{ $value | humanizeDuration }}: "
            + templates.CAUSE
            + ". "
            + templates.NEEDED,
            next="Read its message and conditions (`kubectl get di -o wide`): a pod tolerates the "
            "taint, a PodDisruptionBudget blocks, or the repair is not done.",
        ),
        Alert(
            name="DraguardNeedsHuman",
            severity="warning",
            of=OF_INCIDENT,
            when="An incident is in phase NeedsHuman. Not for unconfirmed faults or blocked "
            "evictions, which have their own alerts.",
            expr=f'{_BY} (draguard_incident_phase{{phase="NeedsHuman"}}) == 1\n'
            f"unless {on(DEVICE)} {_UNCONFIRMED} == 1\n"
            f"unless {on(DEVICE)} {_BLOCKED} == 1",
            wait="5m",
            wait_why="Not urgent: the GPU is tainted where it should be.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A GPU needs your confirmation that it is repaired.",
            description="The GPU has " + templates.CAUSE + ". " + templates.NEEDED,
            next="Diagnose or replace the GPU, then `draguard confirm-repaired` its incident.",
        ),
        Alert(
            name="DraguardEvictionBlocked",
            severity="warning",
            of=OF_INCIDENT,
            when="Pods stay on a tainted device after the time for their eviction "
            "(`evict: {then: wait}`), because pods join its claim repeatedly, or because "
            "NoExecute does not remove them. Not where a user holds, ignores or maintains the "
            "GPU, nor where its node is gone.",
            expr=f"{_BY} ({_BLOCKED}) == 1\nunless {on(DEVICE)} {_MEANT}",
            wait="5m",
            wait_why="`evict.within` is already over; a pod may still end by itself.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="Evictions are blocked: pods stay on a faulty GPU.",
            description="The GPU has "
            + templates.CAUSE
            + ". Its pods are not evicted"
            + templates.BLOCKED
            + ", so the GPU is not drained for its repair. "
            + templates.NEEDED,
            next="Read the condition EvictionBlocked (`draguard incidents`): it names the pods and "
            "the PodDisruptionBudget. Ask the owner to delete the pods or to allow a disruption, "
            "or stop the controller that creates pods that join. Processes that hang end with a "
            "reboot of the node.",
        ),
        Alert(
            name="DraguardFaultUnconfirmed",
            severity="critical",
            of=OF_HELD_INCIDENT,
            when="Only the kernel log reports a fault, and no second source can confirm it: NVML "
            "does not answer on the node, the driver is older than R565, or of an NVSwitch no GPU "
            "reads a failed link. Not where a user holds, ignores or maintains the GPU, nor "
            "where its node is gone.",
            expr=f"{_BY} ({_UNCONFIRMED}) == 1\nunless {on(DEVICE)} {_MEANT}",
            wait="1m",
            wait_why="The settle time for a second source is already over.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="No second source confirms a logged fault; Draguard evicts nothing.",
            description="The GPU has "
            + templates.CAUSE
            + ". Only the kernel log reports it, and no second source can confirm it"
            + templates.UNCONFIRMED
            + ". The GPU gets NoSchedule at most: pods stay on it. "
            + templates.WHY,
            next="Check the GPU now (`nvidia-smi` on its node, the kernel log). If it is faulty, "
            "drain it by hand and reset it or reboot the node. After a reset, `draguard "
            "confirm-repaired` its incident.",
        ),
    ),
)
