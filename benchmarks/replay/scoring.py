"""Taints against truth: the figures of one policy on one fleet. Pure.

A taint counts for the hardware that has its name at the time (`names`).
Definitions, the same for every policy:

- A *taint* is one GPU with at least one of its devices kept away from the
  scheduler (NoSchedule or more, a cordon, unhealthy) without a gap.
- A taint is *right* when it began while a truth demanded one on a device of that GPU,
  *disputed* when NVIDIA's own sources disagree (`Episode.may`), else *false*.
  Precision is right / (right + false).
- Per node the same holds with all devices of a node for those of a GPU, for policies whose unit
  is the node: a taint is right when it began while any GPU of the node demanded one, and an episode
  is recalled when any device of its node stayed tainted.
- An episode is *recalled* when every device that it demands was tainted within
  `IN_TIME` of its first sign and stayed so until its repair.
- A *healthy sibling* is a device without any truth of its own, tainted from a moment
  at which another device of its node was truly unfit. A device that was tainted for a truth of
  its own is not one.
- A *slice left* is a slice that its GPU's need for a reset demands and that was
  not tainted in time.
- A *reboot* is charged to a policy that needs one: all need it where the hardware does, some for
  what a reset of the GPU repairs. It costs each GPU that was fit `DRAIN` and the boot, but for the
  time in which the policy had tainted it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal

import msgspec

from benchmarks.replay.names import SLACK, by_hardware
from benchmarks.replay.rates import DRAIN
from benchmarks.replay.taints import FOREVER, Taint
from benchmarks.replay.truth import GPUS, SLICES, WHOLE, Device, Episode, NodeHistory

IN_TIME = 300.0
"""Seconds: RSC's own health checks look every five minutes."""


class Miss(msgspec.Struct, frozen=True):
    """Something that went wrong, for `--misses`."""

    what: str
    node: int
    gpu: int
    at: float
    why: str


class Score(msgspec.Struct, kw_only=True):
    policy: str
    delay: float = 0.0
    """Seconds after which administrators acted."""
    gpu_days: float = 0.0
    right: int = 0
    false: int = 0
    disputed: int = 0
    node_right: int = 0
    node_false: int = 0
    node_recalled: int = 0
    demanded: int = 0
    """Episodes that demand a taint and give any sign."""
    recalled: int = 0
    silent: int = 0
    """Episodes that demand a taint and give none."""
    silent_recalled: int = 0
    siblings: int = 0
    false_devices: int = 0
    slices_left: int = 0
    to_taint: list[float] = []
    """Seconds from the first sign to the last demanded device."""
    to_free: list[float] = []
    """Seconds from the repair to the last device that is untainted again."""
    never_freed: int = 0
    lost_hours: float = 0.0
    """GPU-hours that healthy devices were kept away; a slice counts a seventh."""
    rebooted: int = 0
    """GPUs without a fault whose node was rebooted for another one, as the policy needs it."""
    reboot_hours: float = 0.0
    """GPU-hours that this took from them."""
    pods_lost: int = 0
    """Devices that were emptied by eviction without a truth that demands a taint."""
    misses: list[Miss] = []
    by_truth: Counter[str] = msgspec.field(default_factory=Counter[str])
    """Number of false taints and of missed episodes, by label."""

    @property
    def precision(self) -> float | None:
        judged = self.right + self.false
        return self.right / judged if judged else None

    @property
    def node_precision(self) -> float | None:
        judged = self.node_right + self.node_false
        return self.node_right / judged if judged else None

    @property
    def node_recall(self) -> float | None:
        return self.node_recalled / self.demanded if self.demanded else None

    @property
    def recall(self) -> float | None:
        return self.recalled / self.demanded if self.demanded else None

    @property
    def recall_of_all(self) -> float | None:
        every = self.demanded + self.silent
        return (self.recalled + self.silent_recalled) / every if every else None

    @property
    def false_per_1000_gpu_days(self) -> float:
        return 1000.0 * self.false / self.gpu_days if self.gpu_days else 0.0


def score_node(
    score: Score,
    history: NodeHistory,
    taints: Iterable[Taint],
    end: float,
    *,
    by_reset: bool = True,
) -> None:
    """Add one node's taints to a score; `end` is when the history ends.

    Without `by_reset`, the policy needs a reboot for what a GPU reset repairs.
    """
    judge = _Judge(score, history, by_hardware(history, taints), end)
    judge.taints()
    judge.episodes()
    judge.reboots(by_reset=by_reset)


class _Judge:
    def __init__(self, score: Score, history: NodeHistory, taints: list[Taint], end: float) -> None:
        self._score, self._history, self._end = score, history, end
        self._taints: dict[Device, list[Taint]] = defaultdict(list)
        for taint in taints:
            self._taints[taint.device].append(taint)
        self._of_gpu: dict[int, list[Episode]] = defaultdict(list)
        for episode in history.episodes:
            self._of_gpu[episode.gpu].append(episode)
        self._true = [truth for truth in history.episodes if truth.must and truth.signalled]
        self._of_node = gapless(taints)

    def taints(self) -> None:
        of_gpu: dict[int, list[Taint]] = defaultdict(list)
        for device, taints in self._taints.items():
            of_gpu[device[0]] += taints
        for gpu, taints in of_gpu.items():
            for begin, _ in gapless(taints):
                self._judge_taint(gpu, begin)
        for begin, _ in self._of_node:
            found = _judged(self._history.episodes, begin)
            self._score.node_right += found == "right"
            self._score.node_false += found == "false"
        for device, taints in self._taints.items():
            for taint in taints:
                self._judge_device(device, taint)

    def _judge_taint(self, gpu: int, begin: float) -> None:
        found = _judged(self._of_gpu[gpu], begin)
        self._score.right += found == "right"
        self._score.disputed += found == "disputed"
        if found == "false":
            self._score.false += 1
            label = self._label(gpu, begin)
            self._score.by_truth[f"false: {label}"] += 1
            self._miss("false taint", gpu, begin, label)

    def _label(self, gpu: int, at: float) -> str:
        """Return what was going on when a false taint began."""
        own = [
            episode
            for episode in self._of_gpu[gpu]
            if episode.begin <= at <= episode.begin + 7200.0
        ]
        if own:
            return max(own, key=lambda episode: episode.begin).label
        others = [
            episode for episode in self._true if episode.begin <= at <= episode.until + 7200.0
        ]
        return f"beside {others[-1].label}" if others else "no episode"

    def _judge_device(self, device: Device, taint: Taint) -> None:
        mine = [
            episode
            for episode in self._of_gpu[device[0]]
            if device in episode.must | episode.may
            and episode.begin <= taint.begin <= episode.until + SLACK
        ]
        weight = 1.0 if device[1] == WHOLE else 1.0 / SLICES
        unfit = sum(
            _overlap((taint.begin, taint.end), (episode.begin, min(episode.until, self._end)))
            for episode in self._true
            if device in episode.must
        )
        kept = min(taint.end, self._end) - taint.begin
        self._score.lost_hours += weight * max(kept - unfit, 0.0) / 3600.0
        if mine:
            return
        self._score.false_devices += 1
        self._score.pods_lost += taint.evicts_from < FOREVER
        others = (episode for episode in self._true if device not in episode.must)
        if any(episode.begin <= taint.begin <= episode.until for episode in others):
            self._score.siblings += 1
            self._miss("sibling", device[0], taint.begin, str(device))

    def episodes(self) -> None:
        for episode in self._history.episodes:
            if not episode.must:
                continue
            if episode.begin + IN_TIME > self._end:
                continue  # the history ended before the end of its time
            self._judge_episode(episode)

    def _judge_episode(self, episode: Episode) -> None:
        covers = {device: self._cover(device, episode) for device in episode.must}
        missed = [device for device, cover in covers.items() if cover is None]
        if not episode.signalled:
            self._score.silent += 1
            self._score.silent_recalled += not missed
            return
        self._score.demanded += 1
        self._score.node_recalled += any(
            _covers(episode, *span, self._end) for span in self._of_node
        )
        if episode.resets:
            deadline = min(episode.begin + IN_TIME, episode.until)
            late = (
                device
                for device in episode.must
                if not any(
                    taint.begin <= deadline <= taint.end for taint in self._taints.get(device, ())
                )
            )
            self._score.slices_left += sum(device[1] != WHOLE for device in late)
        if missed:
            self._score.by_truth[f"missed: {episode.label}"] += 1
            why = f"{episode.label}: {len(missed)} of {len(episode.must)} devices"
            self._miss("not recalled", episode.gpu, episode.begin, why)
            return
        self._score.recalled += 1
        found = [cover for cover in covers.values() if cover is not None]
        self._score.to_taint.append(max(max(cover.begin for cover in found) - episode.begin, 0.0))
        if episode.until >= self._end:
            return
        ends = [min(cover.end, self._after(cover)) for cover in found]
        if max(ends) == FOREVER:
            if any(other.until >= self._end for other in self._of_gpu[episode.gpu]):
                return  # what the history leaves open, such as a pending remap, keeps it tainted
            self._score.never_freed += 1
            self._miss("never freed", episode.gpu, episode.begin, episode.label)
        else:
            self._score.to_free.append(max(max(ends) - episode.until, 0.0))

    def _after(self, cover: Taint) -> float:
        """Return when a later fault, even a disputed one, justified the taint, else FOREVER."""
        later = (
            episode.begin
            for episode in self._of_gpu[cover.device[0]]
            if cover.device in episode.must | episode.may and episode.begin > cover.begin + IN_TIME
        )
        return min((begin for begin in later if begin < cover.end), default=FOREVER)

    def _cover(self, device: Device, episode: Episode) -> Taint | None:
        """Return the taint that covers an episode in time and up to its repair."""
        for taint in self._taints.get(device, ()):
            if _covers(episode, taint.begin, taint.end, self._end):
                return taint
        return None

    def reboots(self, *, by_reset: bool) -> None:
        """Charge what the reboots of a node cost those of its GPUs that had no fault."""
        needs = {"reboot", "board"} if by_reset else {"reboot", "board", "reset"}
        booted = {episode.until for episode in self._history.episodes if episode.needs in needs}
        away = DRAIN + self._history.boot
        for at in sorted(booted):
            if at >= self._end:
                continue
            for gpu in range(GPUS):
                own = (truth for truth in self._of_gpu[gpu] if truth.begin <= at <= truth.until)
                if any(truth.must or truth.needs for truth in own):
                    continue  # it is repaired by the reboot, too, or still broken after it
                self._score.rebooted += 1
                for device in self._history.devices(gpu):
                    weight = 1.0 if device[1] == WHOLE else 1.0 / SLICES
                    kept = sum(
                        _overlap((taint.begin, taint.end), (at - away, at))
                        for taint in self._taints.get(device, ())
                    )
                    self._score.reboot_hours += weight * max(away - kept, 0.0) / 3600.0

    def _miss(self, what: str, gpu: int, at: float, why: str) -> None:
        if len(self._score.misses) < 1000:
            self._score.misses.append(Miss(what, self._history.node, gpu, at, why))


def gapless(taints: Iterable[Taint]) -> list[tuple[float, float]]:
    """Return from when to when at least one of some devices was tainted."""
    spans: list[tuple[float, float]] = []
    for taint in sorted(taints, key=lambda taint: taint.begin):
        if spans and taint.begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], taint.end)
        else:
            spans.append((taint.begin, taint.end))
    return spans


def _judged(episodes: Iterable[Episode], begin: float) -> Literal["right", "disputed", "false"]:
    """Return what a taint that begins at a moment is, by what was going on then."""
    near = [episode for episode in episodes if episode.begin <= begin <= episode.until + SLACK]
    if any(episode.must for episode in near):
        return "right"
    return "disputed" if any(episode.may for episode in near) else "false"


def _covers(episode: Episode, begin: float, end: float, last: float) -> bool:
    """Whether a taint came in time for an episode and stayed up to its repair."""
    deadline = min(episode.begin + IN_TIME, max(episode.until, episode.begin + SLACK))
    return begin <= deadline and end >= min(episode.until, last)


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(min(one[1], other[1]) - max(one[0], other[0]), 0.0)


def joined(scores: Iterable[Score]) -> Score:
    """Return the sum of one policy's scores over parts of a fleet."""
    first, *rest = scores
    whole = msgspec.structs.replace(
        first,
        to_taint=list(first.to_taint),
        to_free=list(first.to_free),
        misses=list(first.misses),
        by_truth=Counter(first.by_truth),
    )
    for score in rest:
        for name in Score.__struct_fields__[2:]:
            setattr(whole, name, getattr(whole, name) + getattr(score, name))
    return whole
