"""Words that several decisions share, and the words by which the API calls the policy's.

The policy file and the metrics write modes and needs in lower case, as YAML and Prometheus do;
objects of Kubernetes in CamelCase. Classes of faults are not among them: they are part of the
taint's key `draguard.dev/<class>`, and one word for the policy, the taint and the incident is worth
more than the custom.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from remediator.diagnose.fault import SEVERITY, FaultClass, Need
from remediator.model.incident import Incident
from remediator.policy.table import Mode

LOST = "status lost: "
AWAY = "it seems to be in this machine no more: look, and confirm its repair (spec.repairConfirmed)"
RULES_ALONE = "rules of ours stand and their incident is gone"
"""Evidence of an incident that was made of its rules, because its status, or itself, was lost."""
_LAST_TEEN = 13
_CLASSES: Mapping[str, FaultClass] = {fault_class: fault_class for fault_class in SEVERITY}
_RANKS: Mapping[str, int] = {fault_class: rank for rank, fault_class in enumerate(SEVERITY)}


def class_of(name: str) -> FaultClass:
    """Read a class back from an object; one that this version does not know counts as `gpu`."""
    return _CLASSES.get(name, "gpu")


def severity(name: str) -> int:
    """Return the rank of a class that was read back."""
    return _RANKS.get(name, _RANKS["gpu"])


def was_lost(incident: Incident) -> bool:
    """Whether its status was lost: what was done in it is not known, so it counts."""
    return any(line.startswith(LOST) for line in incident.status.fault.evidence)


def knows_little(incident: Incident) -> bool:
    """Whether it was made of its rules alone: what only a status says is not known."""
    return was_lost(incident) or RULES_ALONE in incident.status.fault.evidence


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 21st."""
    teen = 11 <= number % 100 <= _LAST_TEEN
    ending = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def some(names: Iterable[str], most: int = 3) -> str:
    """Name the first of several and count the others: `a, b, c and 4 more`."""
    found = tuple(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def days(span: timedelta) -> str:
    """Return a span in days, or in seconds when it is no whole number of days."""
    if span >= timedelta(days=1) and span % timedelta(days=1) == timedelta():
        return f"{span.days} days" if span.days > 1 else "1 day"
    return f"{span.total_seconds():g} s"


def xid_in(evidence: str) -> str:
    """Return the code of the XID that a line of evidence reports, "" when it reports none."""
    begins, _, rest = evidence.partition(" ")
    return rest.partition(" ")[0] if begins == "XID" else ""


MODES: Mapping[Mode, str] = {
    "off": "Off",
    "incident-only": "IncidentOnly",
    "dry-run": "DryRun",
    "enforce": "Enforce",
}
NEEDS: Mapping[Need, str] = {
    "nothing": "Nothing",
    "diagnosis": "Diagnosis",
    "fabric-recovery": "FabricRecovery",
    "gpu-reset": "GPUReset",
    "human": "Human",
    "node-reboot": "NodeReboot",
    "replacement": "Replacement",
}
WAITS_FOR: Mapping[Need, str] = {
    "nothing": "the end of the fault",
    "diagnosis": "a diagnosis",
    "fabric-recovery": "a repair of the NVLink fabric",
    "gpu-reset": "a reset of the GPU",
    "human": "a user",
    "node-reboot": "a reboot of the node",
    "replacement": "another board",
}
"""What an emptied GPU waits for, by what it needs."""
_BACK: Mapping[str, str] = {word: ours for ours, word in (*MODES.items(), *NEEDS.items())}
_NEEDS_BACK: Mapping[str, Need] = {word: need for need, word in NEEDS.items()}


def ours(word: str) -> str:
    """Return the policy's word for a mode or a need; a word of another version as it is."""
    return _BACK.get(word, word)


def need_of(word: str) -> Need:
    """Return what would repair a GPU; of another version's word nothing is known."""
    return _NEEDS_BACK.get(word, "nothing")
