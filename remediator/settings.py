"""The remediator's settings: flags into one frozen value, validated once."""

import argparse
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

from remediator.plan.node_condition import HandoverOptions


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Each field is a flag of the same name."""

    policy: Path | None = None
    """Policy file; without one every class is incident-only."""
    listen: str = "0.0.0.0:9401"
    """Address of /metrics, /healthz, /readyz and /debug/plan."""
    kube_server: str | None = None
    """API server URL; without it the service account of the pod is used."""
    kube_token_file: str | None = None
    kube_ca_file: str | None = None
    kubeconfig: Path | None = None
    """Read instead of the three above, with its current context."""
    lease_namespace: str = "draguard-system"
    """Where the agents keep their Leases, and we ours."""
    leader_elect: bool = True
    """Write only while holding the Lease `draguard-remediator`; off: there is one replica."""
    leader_identity: str = ""
    """Name in that Lease; "": host name and something random."""
    writes_per_second: float = 50.0
    """Writes in the long run, new taints and deletions first. Twice as many may go at once."""
    stale_after: float = 150.0
    """Seconds without a word after which an agent counts as silent: two Leases missed and slack."""
    resync: float = 60.0
    """Seconds between reconciles of all nodes; changes are reconciled at once."""
    node_condition: bool = False
    """Say on the Node when a node-level repair is due; needs a role of its own."""
    node_condition_deadline: float = 3600.0
    """Seconds for which pods on the node are waited for, from when the repair was needed."""
    accelerated_hardware_ready: bool = False
    """Also write AcceleratedHardwareReady, for node repair of EKS and Karpenter."""
    log_level: str = "INFO"

    @property
    def handover(self) -> HandoverOptions:
        return HandoverOptions(
            enabled=self.node_condition,
            deadline=timedelta(seconds=self.node_condition_deadline),
            accelerated_hardware_ready=self.accelerated_hardware_ready,
        )


_VALUES: tuple[tuple[str, type, str], ...] = (
    ("policy", Path, "policy file (YAML); without one nothing is tainted"),
    ("listen", str, "address of /metrics, /healthz, /readyz and /debug/plan"),
    ("kube_server", str, "API server URL; default: the pod's service account"),
    ("kube_token_file", str, "file with a bearer token, read again when it changes"),
    ("kube_ca_file", str, "certificate authority of the API server"),
    ("kubeconfig", Path, "kubeconfig to use instead"),
    ("lease_namespace", str, "namespace of the agents' Leases and of the leader's"),
    (
        "leader_identity",
        str,
        "name in the leader's Lease; default: host name and a random part",
    ),
    ("writes_per_second", float, "writes to the API server in the long run"),
    ("stale_after", float, "seconds of silence after which an agent is not believed"),
    ("resync", float, "seconds between reconciles of all nodes"),
    (
        "node_condition_deadline",
        float,
        "seconds for which a due repair waits for pods on its node",
    ),
    ("log_level", str, "DEBUG, INFO, WARNING or ERROR"),
)
"""Flags with a value: field, type, help."""
_SWITCHES = (
    ("leader_elect", "write only while holding the Lease draguard-remediator"),
    ("node_condition", "set DraguardDeviceRepairNeeded on Nodes (docs/handover.md)"),
    (
        "accelerated_hardware_ready",
        "with --node-condition: also set AcceleratedHardwareReady, for EKS and Karpenter",
    ),
)


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line; prints usage and exits on a mistake."""
    parser = argparse.ArgumentParser(
        prog="draguard remediator",
        description="Taint failed GPUs and slices, evict their pods, verify the repair, untaint.",
    )
    standard = Settings()
    for name, kind, help_text in _VALUES:
        flag = f"--{name.replace('_', '-')}"
        default = getattr(standard, name)
        parser.add_argument(flag, type=kind, default=default, help=f"{help_text} [{default}]")
    for name, help_text in _SWITCHES:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            action=argparse.BooleanOptionalAction,
            default=getattr(standard, name),
            help=help_text,
        )
    found = parser.parse_args(arguments)
    wrong = _impossible(Settings(**vars(found)))
    if wrong:
        parser.error(wrong)
    return Settings(**vars(found))


def _impossible(found: Settings) -> str:
    """Return what cannot be, "" when all is well."""
    checks = (
        (found.stale_after <= 0 or found.resync <= 0, "--stale-after and --resync are above 0"),
        (found.node_condition_deadline < 0, "--node-condition-deadline is seconds, 0 or more"),
        (
            found.accelerated_hardware_ready and not found.node_condition,
            "--accelerated-hardware-ready needs --node-condition",
        ),
        (
            found.writes_per_second <= 0,
            "--writes-per-second is above 0; to stop all writes, scale to 0 replicas",
        ),
    )
    return next((text for wrong, text in checks if wrong), "")
