"""A short way to write down what happened to a node."""

from benchmarks.replay.truth import Episode, Happening, NodeHistory


def history(
    *happenings: Happening,
    mig: bool = False,
    has_action: bool = True,
    episodes: tuple[Episode, ...] = (),
) -> NodeHistory:
    """Return the history of a node of H100; older drivers have no recovery action."""
    return NodeHistory(
        node=0,
        mig=mig,
        has_action=has_action,
        product="NVIDIA H100 80GB HBM3",
        driver="580.82.07" if has_action else "550.90.07",
        happenings=happenings,
        episodes=episodes,
    )
