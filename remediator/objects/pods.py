"""What is read of a Pod: who owns it, what it claims, whether it still runs. Pure."""

import msgspec


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of a node."""

    namespace: str
    name: str
    uid: str
    owner: str = ""
    """Top owner as far as the pod itself tells: `Job/train`, `Deployment/web`; "" for none."""
    pod_group: str = ""
    """Name of its PodGroup in its namespace; "" for none."""
    running: bool = True
    """Not finished: it may still use its devices."""
    terminating: bool = False
    extended_claim: str = ""
    """ResourceClaim made for its extended resources; "" for none."""
    claims: tuple[str, ...] = ()
    """ResourceClaims of its spec, by name."""
