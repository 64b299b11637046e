"""Alerts on the stories of sick GPUs as the remediator tells them.

Both replicas tell every story; each is taken once. The alerts on missing taints step aside for what
people have decided: a GPU that somebody holds, ignores or maintains is known to them.
"""

from alerts import templates
from alerts.identity import DEVICE, on
from alerts.rule import Alert, Group
from alerts.subjects import OF_HELD_INCIDENT, OF_INCIDENT

_BY = f"max by ({', '.join(DEVICE)})"
_TAINTED = f'{_BY} (draguard_incident_rules{{effect=~"NoSchedule|NoExecute"}}) > 0'
_NOT_SICK = 'draguard_incident_phase{phase=~"Verifying|NeedsHuman|Recovered|Closed"} == 1'
"""Healthy again; without a taint NeedsHuman is entered after verified health alone."""
_MEANT = 'draguard_incident_held{reason=~"Human|Maintenance|NodeGone"} == 1'
"""People know of it; or the node was taken away, where no work can land."""

_UNCONFIRMED = "draguard_incident_unconfirmed"
_BLOCKED = "draguard_incident_eviction_blocked"

_HERE = f'unless {on(DEVICE)} draguard_incident_held{{reason="NodeGone"}} == 1'
"""A story is kept for a week after its node was taken away; there is nothing to repair."""

_KEEP = "5m"
_KEEP_WHY = "A remediator that restarts shows nothing until its watches are filled."

_HOUR = 3600
_DAY = 86400
LONGEST = {
    "Evicting": _HOUR,
    "Tainted": _DAY,
    "Drained": _DAY,
    "Repairing": _DAY,
    "Verifying": 2 * _HOUR,
}
"""Seconds in a phase after which somebody should look.

Suspected is not here: a GPU that should be tainted and is not has an alert of its own, and the
others have nothing to wait for. A soak time above two hours needs another limit."""


def _untainted(classes: str) -> str:
    return (
        f'{_BY} (draguard_incident_info{{class=~"{classes}"}})\n'
        f"unless {on(DEVICE)} {_TAINTED}\n"
        f"unless {on(DEVICE)} {_NOT_SICK}\n"
        f"unless {on(DEVICE)} {_MEANT}"
    )


def _stuck() -> str:
    told = (*DEVICE, "incident")
    since = "time() - draguard_incident_phase_since_timestamp_seconds"
    return "\nor ".join(
        f"{_BY} (\n  ({since} > {limit})\n"
        f'  and {on(told)} draguard_incident_phase{{phase="{phase}"}} == 1\n)'
        for phase, limit in LONGEST.items()
    )


GROUP = Group(
    name="draguard-incidents",
    rules=(
        Alert(
            name="DraguardDeviceNotTainted",
            severity="critical",
            of=OF_HELD_INCIDENT,
            when="An incident of class gpu, lost or node is open, the GPU is not healthy again, "
            "and no NoSchedule or NoExecute rule of ours is stored. Not where a person holds, "
            "ignores or maintains it, nor where its node is gone.",
            expr=_untainted("gpu|lost|node"),
            wait="2m",
            wait_why="A taint is stored within seconds, and its page scraped within a minute.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A GPU is sick and nothing keeps new work off it.",
            description="The GPU has " + templates.CAUSE + ", and is not tainted. " + templates.WHY,
            next="Cordon it by hand (`draguard cordon`), or raise the mode of its class in the "
            "policy; then drain and repair it.",
        ),
        Alert(
            name="DraguardDegradedNotTainted",
            severity="warning",
            of=OF_HELD_INCIDENT,
            when="The same for the classes contained, fabric and memory, with which running work "
            "may go on.",
            expr=_untainted("contained|fabric|memory"),
            wait="5m",
            wait_why="Patient classes wait for a second source before they taint, and a contained "
            "error is over when its process is dead.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A GPU is at fault in part and new work may still get it.",
            description="The GPU has " + templates.CAUSE + ", and is not tainted. " + templates.WHY,
            next="Decide whether work may go on there; cordon it by hand (`draguard cordon`), or "
            "raise the mode of its class in the policy.",
        ),
        Alert(
            name="DraguardDeviceTainted",
            severity="warning",
            of=OF_INCIDENT,
            when="A rule of ours (NoSchedule or NoExecute) is stored for an open incident, and the "
            "node is still there.",
            expr=f"{_TAINTED}\n{_HERE}",
            wait="1m",
            wait_why="Two scrapes; what is tainted is safe, so nothing is urgent.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A sick GPU is tainted and waits for its repair.",
            description="The GPU has " + templates.CAUSE + ". " + templates.NEEDED,
            next="Repair it as needed (`draguard incidents` says what). The taint goes by itself "
            "when the GPU has been healthy for the soak time.",
        ),
        Alert(
            name="DraguardHeldByBudget",
            severity="warning",
            of=OF_HELD_INCIDENT,
            when="A budget, or a correlation of many faults, holds a step back for a GPU.",
            expr=f'{_BY} (draguard_incident_held{{reason=~"Budget|Correlation"}}) == 1',
            wait="10m",
            wait_why="Budgets are free again when other GPUs are repaired; a burst passes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A limit holds back what should be done about a sick GPU.",
            description="The GPU has " + templates.CAUSE + ". " + templates.WHY,
            next="Look whether many GPUs fail for one reason (driver, power, switch). If they do "
            "not, repair those that are tainted, or raise the budget.",
        ),
        Alert(
            name="DraguardIncidentStuck",
            severity="warning",
            of=OF_INCIDENT,
            when="An incident is Evicting for an hour, Tainted, Drained or Repairing for a day, or "
            "Verifying for two hours. Not where evictions are blocked, which has an alert of its "
            "own.",
            expr=f"(\n{_stuck()}\n)\n{_HERE}\nunless {on(DEVICE)} {_BLOCKED} == 1",
            wait="5m",
            wait_why="The limits are in the question.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="An incident does not go on.",
            description="The incident has been in its phase for {{ $value | humanizeDuration }}: "
            + templates.CAUSE
            + ". "
            + templates.NEEDED,
            next="Read its message and conditions (`kubectl get di -o wide`): somebody tolerates "
            "the taint, a PodDisruptionBudget refuses, or the repair has not been done.",
        ),
        Alert(
            name="DraguardNeedsHuman",
            severity="warning",
            of=OF_INCIDENT,
            when="An incident is in phase NeedsHuman, and not for a fault that nothing confirms or "
            "for evictions that are blocked, which have alerts of their own.",
            expr=f'{_BY} (draguard_incident_phase{{phase="NeedsHuman"}}) == 1\n'
            f"unless {on(DEVICE)} {_UNCONFIRMED} == 1\n"
            f"unless {on(DEVICE)} {_BLOCKED} == 1",
            wait="5m",
            wait_why="Nobody is hit: what should be tainted is.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A GPU is untainted only when a person says that it is repaired.",
            description="The GPU has " + templates.CAUSE + ". " + templates.NEEDED,
            next="Diagnose or replace the GPU, then `draguard confirm-repaired` its incident.",
        ),
        Alert(
            name="DraguardEvictionBlocked",
            severity="warning",
            of=OF_INCIDENT,
            when="Pods stay on a tainted device after the time for their eviction "
            "(`evict: {then: wait}`), or because pods join its claim again and again. Not where a "
            "user holds, ignores or maintains the GPU, nor where its node is gone.",
            expr=f"{_BY} ({_BLOCKED}) == 1\nunless {on(DEVICE)} {_MEANT}",
            wait="5m",
            wait_why="`evict.within` is over when it begins; a pod may still end by itself.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="Pods stay on a sick GPU, and evictions do not move them.",
            description="The GPU has "
            + templates.CAUSE
            + ". Its pods are not evicted"
            + templates.BLOCKED
            + ", so it is not drained for its repair. "
            + templates.NEEDED,
            next="Read the condition EvictionBlocked (`draguard incidents`): it names the pods and "
            "the PodDisruptionBudget. Ask the owner to move them or to allow a disruption, or "
            "stop what creates pods that join.",
        ),
        Alert(
            name="DraguardFaultUnconfirmed",
            severity="critical",
            of=OF_HELD_INCIDENT,
            when="Only the kernel log reports a fault, and no second source can confirm it: NVML "
            "does not answer on the node, or the driver is older than R565. Not where a user "
            "holds, ignores or maintains the GPU, nor where its node is gone.",
            expr=f"{_BY} ({_UNCONFIRMED}) == 1\nunless {on(DEVICE)} {_MEANT}",
            wait="1m",
            wait_why="The settle time for a second source is over when it begins.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A fault was logged that no second source confirms; Draguard evicts nothing.",
            description="The GPU has "
            + templates.CAUSE
            + ". Only the kernel log reports it, and nothing else can be asked"
            + templates.UNCONFIRMED
            + ". It gets NoSchedule at most: pods stay on it. "
            + templates.WHY,
            next="Look at the GPU now (`nvidia-smi` on its node, the kernel log). If it is sick, "
            "drain it by hand and reset it or reboot the node; then `draguard confirm-repaired` "
            "its incident.",
        ),
    ),
)
