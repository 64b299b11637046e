"""The policy that was found, and what the leader publishes, into what is in force. Pure.

A ConfigMap may be newer than the file of the leader, or invalid, or unreadable for the caller. The
leader's record has a hash of what its policy permits, and the mode of each class.
"""

import msgspec

from draguard.cluster.installation import PolicyInForce
from draguard.cluster.leader import Leader
from remediator.policy import fingerprint
from remediator.policy.table import Policy


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    modes: dict[str, str] | None
    """Of each class of fault outside of overrides; None: not known."""
    source: str
    policy: Policy | None
    """The whole policy; None where only its modes are known, or nothing."""
    doubt: str = ""
    """Why what was found may not be what the leader obeys, "" where it is the same."""


_LATE = (
    "the leader obeys another policy (hash {leader}, here {here}): it reads a change within two "
    "minutes, and refuses an invalid file (its log has the line)"
)
_SHIPPED = (
    "the shipped policy, as the leader publishes it (hash {leader}); budget and maintenance "
    "windows may differ"
)
_ONLY_MODES = "of the leader, as its Lease publishes it (hash {leader}); its text is unknown: {why}"


def judged(found: PolicyInForce, leader: Leader) -> Judged:
    """Return what is in force, as far as it can be known."""
    record = leader.policy if leader.holder and not leader.problem else type(leader.policy)()
    here = fingerprint.of_permissions(found.policy) if found.known else ""
    words = {"leader": record.hash, "here": here, "why": found.source}
    if not record.hash:
        known = found.policy if found.known else None
        return Judged(modes=_modes(known), source=found.source, policy=known)
    if here == record.hash:
        source = f"{found.source}, in force (hash {here})"
        return Judged(modes=_modes(found.policy), source=source, policy=found.policy)
    if found.known:
        doubt = _LATE.format_map(words)
        modes = recorded_modes(record.modes)
        return Judged(modes=modes, source=found.source, policy=found.policy, doubt=doubt)
    if not found.problems and record.hash == fingerprint.of_permissions(Policy()):
        shipped = Policy()
        return Judged(modes=_modes(shipped), source=_SHIPPED.format_map(words), policy=shipped)
    source = _ONLY_MODES.format_map(words)
    return Judged(modes=recorded_modes(record.modes), source=source, policy=None)


def _modes(policy: Policy | None) -> dict[str, str] | None:
    return None if policy is None else {row.fault_class: row.mode for row in policy.rows}


def recorded_modes(text: str) -> dict[str, str] | None:
    """Read modes as a leader publishes them, `gpu=enforce,lost=dry-run`; None for none."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    found = {name: mode for name, equals, mode in pairs if name and equals and mode}
    return found or None
