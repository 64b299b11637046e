"""Short ways to write down what happened to a node, what tainted it when, and the score of that."""

from benchmarks.replay.agent import EVERYTHING, Inputs
from benchmarks.replay.drawing import DAY
from benchmarks.replay.ours import enforced, play
from benchmarks.replay.scoring import Score, score_node
from benchmarks.replay.taints import FOREVER, Taint
from benchmarks.replay.truth import WHOLE, Episode, Happening, NodeHistory, Repair, devices

BEGUN, REPAIRED, END = 1000.0, 9000.0, 100 * DAY


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


def xid(code: int, at: float = BEGUN, gpu: int = 0, gi: int | None = None) -> Happening:
    return Happening(at=at, kind="xid", gpu=gpu, code=code, gi=gi)


def asks(at: float = BEGUN, gpu: int = 0) -> Happening:
    """Return that the driver requests a reset."""
    return Happening(at=at, kind="asks", gpu=gpu, action=1)


def fault(
    gpu: int = 0,
    begin: float = BEGUN,
    until: float = REPAIRED,
    *,
    mig: bool = False,
    needs: Repair = "reset",
) -> Episode:
    """Return an XID 95, for which the whole GPU must be tainted."""
    return Episode(
        truth="gpu-reset",
        label="XID 95",
        node=0,
        gpu=gpu,
        begin=begin,
        until=until,
        must=devices(gpu, mig=mig),
        resets=True,
        needs=needs,
    )


def taint(gpu: int, begin: float, end: float, part: int = WHOLE, evicts: float = FOREVER) -> Taint:
    return Taint((gpu, part), begin, end, evicts)


def cordon(begin: float = BEGUN, end: float = REPAIRED) -> list[Taint]:
    """Return taints of all GPUs of a node."""
    return [taint(gpu, begin, end) for gpu in range(8)]


def score_of(seen: NodeHistory, *taints: Taint, by_reset: bool = True) -> Score:
    score = Score(policy="hand-made", gpu_days=8 * END / DAY)
    score_node(score, seen, taints, END, by_reset=by_reset)
    return score


def our_taints(seen: NodeHistory, received: Inputs = EVERYTHING) -> list[Taint]:
    return play(seen, enforced(), received).store.taints.all()
