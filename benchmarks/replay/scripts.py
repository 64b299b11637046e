"""What each kind of fault shows, as short scripts on a node that is being drawn. Pure."""

from benchmarks.replay import unusable
from benchmarks.replay.drawing import DAY, NodeDrawing
from benchmarks.replay.rates import Kind
from benchmarks.replay.truth import GPUS, Device, TruthClass

CONTAINED = 300.0
"""Seconds for which the slice of a contained error must stay empty: its process is dying."""
FATAL_TO_FABRIC = 23001
"""An SXid after which every GPU behind the switch needs a reboot of the node."""
CHURN_NODES, CHURN_LINES, CHURN_TIME = 3, 672, 3 * 3600.0


def churn(node: NodeDrawing, at: float) -> None:
    node.tell("app noise", "churn of XID 45", 0, at, until=at + CHURN_TIME)
    for number in range(CHURN_LINES // CHURN_NODES):
        gpu = node.random.randrange(GPUS)
        if gpu not in node.mute:
            when = at + node.random.uniform(0.0, CHURN_TIME)
            node.line(when, gpu, 45, gi=node.any_gi(), message=f"Ch {number:08x}")


def _app(node: NodeDrawing, gpu: int, at: float) -> None:
    code = node.random.choices((13, 43, 45), (30, 30, 40))[0]
    looping = node.random.random() < node.profile.assumed.crash_loop
    loops = node.random.randint(10, 35) if looping else 1
    node.tell("app noise", f"XID {code}", gpu, at, until=at + 600.0 * loops)
    for number in range(loops):
        when, gi = at + 600.0 * number, node.any_gi()
        for _ in range(node.random.randint(1, 3)):
            node.line(when + node.random.uniform(0.0, 2.0), gpu, code, gi=gi)


def _mmu(node: NodeDrawing, gpu: int, at: float) -> None:
    node.tell("app noise", "XID 31", gpu, at, until=at + 600.0)
    gi = node.any_gi()
    for _ in range(node.random.choice((1, 1, 1, 2, 4, 8, 20))):
        node.line(at + node.random.uniform(0.0, 6.0), gpu, 31, gi=gi)
    node.channels_end(at + 6.0, gpu, 31, gi)


def _gsp(node: NodeDrawing, gpu: int, at: float) -> None:
    if node.random.random() < node.profile.assumed.gsp_passes:
        may = node.all_of(gpu)
        node.tell("information", "a single XID 119", gpu, at, until=at + 3600.0, may=may)
        node.line(at, gpu, 119)
        return
    node.breaks("gpu-reboot", "XID 119", gpu, at, "reboot", mute=True)
    for number in range(8):  # then one line in thirty: enough for a policy that counts
        node.line(at + 6.0 * number, gpu, 119)
    node.sets_action(gpu, at + 12.05, 1)  # marked after the third, without an XID 154


def _nvlink(node: NodeDrawing, gpu: int, at: float) -> None:
    luck, assumed = node.random.random(), node.profile.assumed
    if luck < assumed.nvlink_ends:
        may = node.all_of(gpu)
        node.tell("information", "XID 74 that passes", gpu, at, until=at + 3600.0, may=may)
        node.line(at, gpu, 74)
    else:
        node.breaks("gpu-reset", "XID 74", gpu, at, "reset")
        for number in range(node.random.randint(1, 3)):
            node.line(at + 0.1 * number, gpu, 74)
        node.ask(gpu, at + 0.05, 1)
    if node.random.random() < assumed.nvlink_spreads:
        others = [index for index in range(GPUS) if index != gpu and index not in node.broken]
        for peer in node.random.sample(others, min(len(others), node.random.randint(1, 4))):
            when = at + node.random.uniform(0.1, 0.4)
            may = frozenset[Device]() if node.has_action else node.all_of(peer)
            node.tell("sympathetic", "XID 74 of a peer", peer, when, until=when + 3600.0, may=may)
            node.line(when, peer, 74)
    if node.random.random() < assumed.nvlink_again:
        again = at + node.random.expovariate(1 / (12 * 3600.0))
        node.later(again, node.unless_unfit(gpu, lambda index, when: _nvlink(node, index, when)))


def _nvlink5(node: NodeDrawing, gpu: int, at: float) -> None:
    others = [index for index in range(GPUS) if index != gpu and index not in node.broken]
    node.breaks("gpu-reset", "XID 149", gpu, at, "reset")
    node.line(at, gpu, 149, message=_link_down(node, 0x0A))
    node.ask(gpu, at + 0.05, 1)
    if others and node.random.random() < 0.5:  # assumption: half of them show at the other end
        peer = node.random.choice(others)
        node.tell("link at peer", "XID 149 caused by a peer", peer, at + 0.1, until=at + 3600.0)
        node.line(at + 0.1, peer, 149, message=_link_down(node, 0x15))


def _link_down(node: NodeDrawing, reason: int) -> str:
    """Return the text of an XID 149 link-down; R575 changed how its first word is laid out."""
    unit, low = ("DOWN", 0x11) if node.has_action else ("EVT", 0x1C6)
    word = reason << 20 | low
    return f"NETIR_LINK_{unit} Link Fatal XC0 i0 Link 04 (0x{word:08x} 0x00000000)"


def _spi(node: NodeDrawing, gpu: int, at: float) -> None:
    may = node.all_of(gpu)
    node.tell("information", "XID 122", gpu, at, until=at + 3600.0, may=may)
    node.line(at, gpu, 122)
    if node.random.random() < 0.82:
        node.line(at + 0.05, gpu, 31)


def _dbe(node: NodeDrawing, gpu: int, at: float) -> None:
    node.breaks("gpu-reset", "XID 48", gpu, at, "reset")
    remapped = node.random.random() < 0.5
    for number in range(node.random.randint(1, 6)):
        node.line(at + 0.1 * number, gpu, 48)
    if remapped:
        node.line(at + 0.3, gpu, 63)
        node.show(at=at + 0.3, kind="remap", gpu=gpu, failure=False)
    node.ask(gpu, at + 0.05, 4 if remapped else 1)
    node.channels_end(at + 1.0, gpu, 48)


def _remap(node: NodeDrawing, gpu: int, at: float) -> None:
    node.remap_pends(gpu, at, wait=node.random.expovariate(1 / DAY))
    node.line(at, gpu, 63, message="Row Remapper: New row marked for remapping")
    node.show(at=at + 0.05, kind="remap", gpu=gpu, failure=False)


def _remap_failure(node: NodeDrawing, gpu: int, at: float) -> None:
    node.breaks("gpu-reboot", "XID 64", gpu, at, "board")
    node.line(at, gpu, 64, message="Row Remapper Error: All reserved rows are remapped")
    node.show(at=at + 0.05, kind="remap", gpu=gpu, failure=True)
    node.ask(gpu, at + 0.05, 1)
    node.channels_end(at + 0.5, gpu, 64)


def _contained(node: NodeDrawing, gpu: int, at: float) -> None:
    source = node.random.choices(("cbc", "sm", "mmu"), (25, 60, 15))[0] if node.mig else ""
    gi = node.any_gi() if source in {"cbc", "sm"} else None
    if source == "cbc":
        node.breaks("gpu-reset", "XID 94 with D-RST", gpu, at, "reset")
    elif source == "sm" and gi is not None:
        slices = frozenset({(gpu, gi - 1)})
        until = at + CONTAINED
        node.tell("mig-contained", "XID 94 on a slice", gpu, at, until=until, must=slices)
    else:
        may = node.all_of(gpu)
        label = "XID 94 without instance" if node.mig else "XID 94 without MIG"
        node.tell("information", label, gpu, at, until=at + 3600.0, may=may)
    drains = source == "cbc"
    node.line(at, gpu, 94, gi=gi, reset=False, drain_reset=drains, message="Contained")
    if drains:
        node.ask(gpu, at + 0.05, 4)
    node.channels_end(at, gpu, 94, gi)


def _uncontained(node: NodeDrawing, gpu: int, at: float) -> None:
    node.breaks("gpu-reset", "XID 95", gpu, at, "reset")
    node.ask(gpu, at + 0.05, 1)
    lasts = min(node.random.lognormvariate(4.3, 1.5), 860.0)
    for number in range(12):  # up to tens of thousands; no policy here distinguishes 12 from more
        node.line(at + lasts * number / 11, gpu, 95, reset=True, message="Uncontained")
    node.channels_end(at, gpu, 95)


def _gone(node: NodeDrawing, gpu: int, at: float) -> None:
    unanswered = node.random.random() < node.profile.assumed.no_xid
    listed = not unanswered or node.random.random() < 0.5
    truth: TruthClass = "no-XID loss" if unanswered else "gpu-reboot"
    label = "XID 79" if not unanswered else f"lost without XID, {'' if listed else 'not '}listed"
    node.breaks(truth, label, gpu, at, "reboot", lost=True)
    if not unanswered:
        node.line(at, gpu, 79)
    node.show(at=at + 0.05, kind="gone", gpu=gpu, listed=listed)


def _silent(node: NodeDrawing, gpu: int, at: float) -> None:
    label, until = "silent corruption", at + 7 * DAY
    must = node.all_of(gpu)
    node.tell(label, label, gpu, at, until=until, must=must, signalled=False)


def _switch(node: NodeDrawing, gpu: int, at: float) -> None:
    if node.broken:
        return
    for every in range(GPUS):
        node.breaks("gpu-reboot", f"SXid {FATAL_TO_FABRIC}", every, at, "reboot")
    node.show(at=at, kind="sxid", code=FATAL_TO_FABRIC)
    if node.random.random() < 0.5:  # assumption: half of them take a link down that NVML shows
        node.show(at=at + 0.05, kind="link-down", gpu=gpu)


SCRIPTS: dict[Kind, unusable.Script] = {
    "app": _app,
    "mmu": _mmu,
    "gsp": _gsp,
    "nvlink": _nvlink,
    "nvlink5": _nvlink5,
    "spi": _spi,
    "dbe": _dbe,
    "remap": _remap,
    "remap-failure": _remap_failure,
    "contained": _contained,
    "uncontained": _uncontained,
    "gone": _gone,
    "silent": _silent,
    "switch": _switch,
    **unusable.SCRIPTS,
}
