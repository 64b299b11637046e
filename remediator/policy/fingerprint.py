"""Names for policies: the same in every replica, and another one for another policy. Pure."""

import hashlib

import msgspec

from remediator.policy.limits import Limits
from remediator.policy.table import Policy

_written = msgspec.json.Encoder(order="deterministic", enc_hook=str)
"""Sets in one order in every process; a time zone by its name."""


def name_of(policy: Policy) -> str:
    """Return a name that all replicas give this policy, and no other."""
    return hashlib.sha256(_written.encode(policy)).hexdigest()[:12]


def of_permissions(policy: Policy) -> str:
    """Return a name for what a policy permits where: no budget, window, stop or text is in it."""
    rest = msgspec.structs.replace(policy, limits=Limits(), maintenance=(), stopped="")
    return name_of(rest.without_texts())


def of_brakes(policy: Policy) -> str:
    """Return a name for the rest: the stop, the windows and the budgets of a policy."""
    return name_of(
        Policy(limits=policy.limits, maintenance=policy.maintenance, stopped=policy.stopped)
    )


def modes(policy: Policy) -> str:
    """Return the mode of each class outside overrides, as `gpu=enforce,lost=dry-run`."""
    return ",".join(f"{row.fault_class}={row.mode}" for row in policy.rows)
