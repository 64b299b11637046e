"""The policy's words, and the words by which the API calls the same: one table for both ways.

The policy file and the metrics write them in lower board, as YAML and Prometheus do; objects of
Kubernetes in CamelCase. Classes of faults are not among them: they are part of the taint's key
`draguard.dev/<class>`, and one word for the policy, the taint and the incident is worth more than
the custom. Pure.
"""

from collections.abc import Mapping

from remediator.diagnose.fault import Need
from remediator.policy.table import Mode

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
_BACK: Mapping[str, str] = {word: ours for ours, word in (*MODES.items(), *NEEDS.items())}
_MODES_BACK: Mapping[str, Mode] = {word: mode for mode, word in MODES.items()}
_NEEDS_BACK: Mapping[str, Need] = {word: need for need, word in NEEDS.items()}


def ours(word: str) -> str:
    """Return the policy's word for a mode or a need; a word of another version as it is."""
    return _BACK.get(word, word)


def mode_of(word: str) -> Mode | None:
    """Return the mode, None for none and for another version's word."""
    return _MODES_BACK.get(word)


def need_of(word: str) -> Need:
    """Return what would repair a GPU; of another version's word nothing is known."""
    return _NEEDS_BACK.get(word, "nothing")
