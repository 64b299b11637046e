"""The remediator's settings: flags into one frozen value, validated once."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Each field is a flag of the same name."""

    policy: Path | None = None
    """Policy file; without one every class is incident-only."""
    listen: str = "0.0.0.0:9401"
    """Address of /metrics, /healthz and /readyz."""
    kube_server: str | None = None
    """API server URL; without it the service account of the pod is used."""
    kube_token_file: str | None = None
    kube_ca_file: str | None = None
    kubeconfig: Path | None = None
    """Read instead of the three above, with its current context."""
    lease_namespace: str = "draguard-system"
    """Where the agents keep their Leases."""
    stale_after: float = 150.0
    """Seconds without a word after which an agent counts as silent: two Leases missed and slack."""
    resync: float = 60.0
    """Seconds between reconciles of all nodes; changes are reconciled at once."""
    log_level: str = "INFO"


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line; prints usage and exits on a mistake."""
    parser = argparse.ArgumentParser(
        prog="draguard remediator",
        description="Fence failed GPUs and slices, move their pods, prove the repair, release.",
    )
    standard = Settings()
    for name, kind, help_text in (
        ("policy", Path, "policy file (YAML); without one nothing is fenced"),
        ("listen", str, "address of /metrics, /healthz and /readyz"),
        ("kube_server", str, "API server URL; default: the pod's service account"),
        ("kube_token_file", str, "file with a bearer token, read again when it changes"),
        ("kube_ca_file", str, "certificate authority of the API server"),
        ("kubeconfig", Path, "kubeconfig to use instead"),
        ("lease_namespace", str, "namespace of the agents' Leases"),
        ("stale_after", float, "seconds of silence after which an agent is not believed"),
        ("resync", float, "seconds between reconciles of all nodes"),
        ("log_level", str, "DEBUG, INFO, WARNING or ERROR"),
    ):
        flag = f"--{name.replace('_', '-')}"
        default = getattr(standard, name)
        parser.add_argument(flag, type=kind, default=default, help=f"{help_text} [{default}]")
    found = parser.parse_args(arguments)
    if found.stale_after <= 0 or found.resync <= 0:
        parser.error("--stale-after and --resync are seconds above 0")
    return Settings(**vars(found))
