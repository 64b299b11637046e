"""Hashes of policies, equal in every replica for equal policies. Pure."""

import hashlib

import msgspec

from remediator.policy.limits import Limits
from remediator.policy.table import Policy

_written = msgspec.json.Encoder(order="deterministic", enc_hook=str)
"""Writes sets in the same order in every process, and a time zone by its name."""


def name_of(policy: Policy) -> str:
    """Return the name of this policy: the same in all replicas, and no other policy has it."""
    return hashlib.sha256(_written.encode(policy)).hexdigest()[:12]


def of_permissions(policy: Policy) -> str:
    """Return a name for what a policy permits where, without budgets, windows, stop and texts."""
    rest = msgspec.structs.replace(policy, limits=Limits(), maintenance=(), stopped="")
    return name_of(rest.without_texts())


def of_brakes(policy: Policy) -> str:
    """Return a name for the stop, the windows and the budgets of a policy."""
    return name_of(
        Policy(limits=policy.limits, maintenance=policy.maintenance, stopped=policy.stopped)
    )


def modes(policy: Policy) -> str:
    """Return the mode of each class outside overrides, as `gpu=enforce,lost=dry-run`."""
    return ",".join(f"{row.fault_class}={row.mode}" for row in policy.rows)
