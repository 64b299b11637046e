"""One node while its history is drawn: what is broken, what it shows, and what comes later.

It keeps one hardware fault per GPU at a time, repairs each after a lognormal
time whatever any policy did, and reboots the node for all that a reboot repairs.
A pending row remap ends by a reset or a boot, never by itself. Pure.
"""

import heapq
import random
from collections.abc import Callable, Container

from benchmarks.replay.numbering import SEEN, Numbering
from benchmarks.replay.rates import UNSENT, Parameters, Profile
from benchmarks.replay.truth import (
    GPUS,
    SLICES,
    Device,
    Episode,
    Happening,
    NodeHistory,
    Repair,
    State,
    TruthClass,
    devices,
)

DAY = 86400.0
SOONEST = 1200.0
"""Seconds before which nothing is repaired: the longest burst is over by then."""
BY_HAND = 7200.0
"""Seconds until an administrator has repaired a GPU that is of no use."""


class NodeDrawing:
    def __init__(self, parameters: Parameters, profile: Profile, node: int) -> None:
        self.parameters, self.profile, self.node = parameters, profile, node
        seed = f"{parameters.seed}/{profile.name}/{node}"
        self.random = random.Random(seed)  # noqa: S311 - no secret is drawn
        self._numbering = Numbering(seed, parameters.renumber_share)
        self.mig = self.random.random() < parameters.mig_share
        self.has_action = self.random.random() >= parameters.no_action_share
        self.open_modules = self.random.random() < profile.assumed.open_modules
        self.lemons = [self.random.random() < parameters.lemon_share for _ in range(GPUS)]
        self.end = parameters.days * DAY
        self.shown: list[Happening] = []
        self.episodes: list[Episode] = []
        self.broken: dict[int, tuple[Episode, Repair]] = {}
        self._remaps: list[Episode] = []
        """Row remaps that are pending."""
        self._lost: set[int] = set()
        """Broken GPUs that NVML does not reach."""
        self.mute: set[int] = set()
        """Broken GPUs on which no program runs any more."""
        self.busy_until = 0.0
        """The node is down, or without NVML, until then."""
        self._agenda: list[tuple[float, int, Callable[[float], None]]] = []
        self._entries = 0
        self._away: list[tuple[float, float]] = []
        """When the node was down."""

    def run(self) -> NodeHistory:
        """Let all that is planned happen, in the order of time."""
        while self._agenda:
            at, _, act = heapq.heappop(self._agenda)
            if at < self.end:
                act(at)
        seen = (
            happening
            for happening in self.shown
            if happening.at < self.end
            # A node that is down prints nothing.
            and not (
                happening.kind in {"xid", "sxid"}
                and any(begin <= happening.at < end for begin, end in self._away)
            )
            # Nor does a board that is not in it.
            and not self._numbering.is_out(happening.gpu, happening.at)
        )
        shown = sorted(seen, key=lambda happening: happening.at)
        return NodeHistory(
            node=self.node,
            mig=self.mig,
            has_action=self.has_action,
            answers=self.parameters.answers,
            unsent=frozenset() if self.parameters.sends_all else UNSENT,
            boot=self.profile.assumed.boot,
            product=self.profile.product,
            driver=self.profile.driver if self.has_action else "550.90.07",
            happenings=tuple(shown),
            episodes=tuple(self.episodes),
        )

    def later(self, at: float, act: Callable[[float], None]) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (at, self._entries, act))

    def show(self, **fields: object) -> None:
        self.shown.append(Happening(**fields))  # pyright: ignore[reportArgumentType] - checked by its callers below

    def all_of(self, gpu: int) -> frozenset[Device]:
        return devices(gpu, mig=self.mig)

    def any_gi(self) -> int | None:
        return self.random.randint(1, SLICES) if self.mig else None

    def line(
        self,
        at: float,
        gpu: int,
        code: int,
        *,
        gi: int | None = None,
        reset: bool | None = None,
        drain_reset: bool | None = None,
        caused_by: int | None = None,
        message: str = "",
    ) -> None:
        self.show(
            at=at,
            kind="xid",
            gpu=gpu,
            code=code,
            gi=gi,
            gi_printed=gi is not None and not self.open_modules,
            reset=reset,
            drain_reset=drain_reset,
            caused_by=caused_by if self.has_action else None,
            message=message,
        )

    def channels_end(self, at: float, gpu: int, cause: int, gi: int | None = None) -> None:
        """An XID 45 for each channel that an error took down."""
        for number in range(self.random.randint(1, 8)):
            self.line(at + 0.2 + 0.02 * number, gpu, 45, gi=gi, caused_by=cause)

    def ask(self, gpu: int, at: float, action: int) -> None:
        """The driver sets the recovery action and logs it."""
        if self.sets_action(gpu, at, action):
            self.show(at=at + 0.01, kind="xid", gpu=gpu, code=154, action=action)

    def sets_action(self, gpu: int, at: float, action: int) -> bool:
        """Whether the driver sets the recovery action; it logs nothing here."""
        sets = self.has_action and self.parameters.answers != "always 0"
        if sets:
            self.show(at=at, kind="asks", gpu=gpu, action=action)
        return sets

    def tell(
        self,
        truth: TruthClass,
        label: str,
        gpu: int,
        begin: float,
        *,
        until: float = float("inf"),
        must: frozenset[Device] = frozenset(),
        may: frozenset[Device] = frozenset(),
        signalled: bool = True,
        resets: bool = False,
        needs: Repair | None = None,
    ) -> Episode:
        episode = Episode(
            truth=truth,
            label=label,
            node=self.node,
            gpu=gpu,
            begin=begin,
            until=until,
            must=must,
            may=may,
            signalled=signalled,
            resets=resets,
            needs=needs,
        )
        self.episodes.append(episode)
        return episode

    def breaks(
        self,
        truth: TruthClass,
        label: str,
        gpu: int,
        at: float,
        repair: Repair,
        *,
        lost: bool = False,
        mute: bool = False,
    ) -> None:
        """Open an episode in which the whole GPU is unfit, and plan its repair.

        Its programs go on, and fail on, unless it is lost or `mute`.
        """
        must = self.all_of(gpu)
        episode = self.tell(truth, label, gpu, at, must=must, resets=True, needs=repair)
        if repair == "reset" and not self.has_action:
            repair = "reboot"  # a reset would not be reported below R565
        self.broken[gpu] = (episode, repair)
        if lost:
            self._lost.add(gpu)
        if lost or mute:
            self.mute.add(gpu)
        wait = self.random.lognormvariate(0.0, self.parameters.repair_sigma)
        after = max(wait * self.parameters.repair_median, SOONEST)
        self.later(at + after, lambda now: self._repair(gpu, now))
        if self._numbering.happens:
            self.later(at + self._numbering.within(after), self._renumber)

    def remap_pends(self, gpu: int, at: float, wait: float) -> None:
        """Open the episode of a row remap, and plan the reset or the reboot that carries it out.

        It never ends by itself: a pending remap ends with the GPU's epoch.
        """
        remap = self.tell("information", "XID 63", gpu, at)
        self._remaps.append(remap)
        self.later(at + wait, lambda now: self._carry_out(remap, now))

    def of_no_use(
        self, state: State, gpu: int, at: float, must: frozenset[Device] = frozenset()
    ) -> None:
        """Open an episode in which the GPU is of no use though it works; end it later."""
        self.show(at=at, kind="state", gpu=gpu, state=state)
        self.broken[gpu] = self.tell("of no use", state, gpu, at, must=must), "by hand"
        self.mute.add(gpu)
        self.later(at + BY_HAND, lambda now: self._repair(gpu, now))

    def unless_unfit(
        self, gpu: int, act: Callable[[int, float], None], *, programs: bool = False
    ) -> Callable[[float], None]:
        """Return what acts unless the GPU is broken, or of `programs` unless they run no more."""

        def guarded(at: float) -> None:
            if at >= self.busy_until and gpu not in (self.mute if programs else self.broken):
                act(gpu, at)

        return guarded

    def upgrade(self, at: float) -> None:
        if self.broken or at < self.busy_until:
            self.later(at + 6 * 3600.0, self.upgrade)
            return
        back = at + self.profile.assumed.upgrade
        self.show(at=at, kind="nvml-down")
        self._enumerate(back)
        self.show(at=back, kind="nvml-up")
        self._carried_out(range(GPUS), back)
        self.busy_until = back + 60.0

    def _repair(self, gpu: int, at: float) -> None:
        if gpu not in self.broken:
            return
        if at < self.busy_until:
            self.later(self.busy_until + 1.0, lambda now: self._repair(gpu, now))
            return
        episode, repair = self.broken[gpu]
        if repair in {"reset", "by hand"}:
            if repair == "reset":
                self._reset(gpu, at)
            else:
                self.show(at=at, kind="state", gpu=gpu)
            self._ends(gpu, episode, at)
        elif self._can_be_out(gpu, at) and self._numbering.tossed():
            # The node goes on without the board until it, or another one, is back.
            self._reboot(at, board=None, without=gpu)
            self.later(at + self.parameters.repair_median, lambda now: self._repair(gpu, now))
        else:
            self._reboot(at, board=gpu if repair == "board" else None, back_again=gpu)

    def _ends(self, gpu: int, episode: Episode, at: float) -> None:
        episode.until = at
        del self.broken[gpu]
        self._lost.discard(gpu)
        self.mute.discard(gpu)

    def _can_be_out(self, gpu: int, at: float) -> bool:
        episode, repair = self.broken[gpu]
        sick = repair == "board" or gpu in self._lost
        return sick and episode.begin + SEEN <= at and gpu not in self._numbering.out

    def _renumber(self, at: float) -> None:
        """Let the driver enumerate anew while the node runs; lost boards may be taken off the bus
        first."""
        if at < self.busy_until:
            return
        for gpu in sorted(self._lost):
            if self._can_be_out(gpu, at) and self._numbering.tossed():
                self._numbering.takes_out(gpu, at)
        self._enumerate(at)

    def _enumerate(self, at: float) -> None:
        if self._numbering.happens:
            self.show(at=at, kind="numbered", order=self._numbering.anew())

    def _carry_out(self, remap: Episode, at: float) -> None:
        if remap not in self._remaps:
            return  # another reset or boot has done it
        # Planned work waits for repairs, and most of them carry out the remap, too.
        waits = remap.gpu in self.broken if self.has_action else self.broken
        if waits or at < self.busy_until:
            again = max(self.busy_until + 1.0, at + SOONEST)
            self.later(again, lambda now: self._carry_out(remap, now))
        else:
            remap.needs = "reset"
            if self.has_action:
                self._reset(remap.gpu, at)
            else:
                self._reboot(at, board=None)  # a reset would not be reported below R565

    def _carried_out(self, gpus: Container[int], at: float) -> None:
        """End the remaps that were pending on GPUs whose new epoch begins."""
        for remap in self._remaps:
            if remap.gpu in gpus:
                remap.until = at
        self._remaps = [remap for remap in self._remaps if remap.gpu not in gpus]

    def _reset(self, gpu: int, at: float) -> None:
        self.show(at=at, kind="reset", gpu=gpu)
        self._carried_out((gpu,), at)

    def _reboot(
        self,
        at: float,
        board: int | None,
        *,
        without: int | None = None,
        back_again: int | None = None,
    ) -> None:
        back = at + self.profile.assumed.boot
        boards = () if board is None else (board,)
        self.show(at=at, kind="down")
        if without is not None:
            self._numbering.takes_out(without, back)
        if back_again is not None:
            self._numbering.puts_back(back_again, back)
        self._enumerate(back)
        self.show(at=back, kind="booted", boards=boards)
        self.busy_until = back + 60.0
        self._away.append((at, back))
        self._carried_out(range(GPUS), back)
        for gpu, (episode, repair) in tuple(self.broken.items()):
            if gpu in self._numbering.out:
                continue
            if repair != "board" or gpu in boards:
                self._ends(gpu, episode, back)
            else:  # it shows again what a boot finds
                self.show(at=back + 5.0, kind="remap", gpu=gpu, failure=True)
                self.ask(gpu, back + 5.0, 1)
        for episode in self.episodes:
            # A booting node runs no process, so contained errors are over, too.
            episode.until = back if episode.begin <= at < episode.until < back else episode.until
