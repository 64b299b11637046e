"""The columns of a table of scores, and why Draguard is not the best in one. Pure."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from benchmarks.figures import percentile
from benchmarks.replay.scoring import Score

VERIFIES = (
    "it untaints only after the driver reported the GPU healthy for the soak time. The third fault "
    "in 30 days, and drivers before R565, need an administrator's confirmation too. The others' "
    "administrators know of each repair at once"
)
POLLS = (
    "a GPU that NVML no longer lists is lost after 60 s. The other policies do not see it, or "
    "their polls are played as if they took no time"
)
OLD_DRIVERS = (
    "a driver before R565 does not report a reset, so the node is rebooted for it. A plugin is "
    "only restarted"
)


class Column(msgspec.Struct, frozen=True):
    title: str
    text: Callable[[Score], str]
    worth: Callable[[Score], float | None] | None = None
    """The more the better; None: the column has no best."""
    why: str = ""
    """Why Draguard may lose here."""


def fraction(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def two(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    return f"{spelled(percentile(seconds, 0.5))} / {spelled(percentile(seconds, 0.99))}"


def spelled(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200.0 else f"{seconds / 3600:.1f} h"


def _late(seconds: Sequence[float]) -> float | None:
    return -percentile(seconds, 0.99) if seconds else None


def _hours(hours: float) -> float:
    return -round(hours)


COLUMNS: tuple[Column, ...] = (
    Column(
        "precision per GPU", lambda score: fraction(score.precision), lambda score: score.precision
    ),
    Column("recall per GPU", lambda score: fraction(score.recall), lambda score: score.recall),
    Column(
        "precision per node",
        lambda score: fraction(score.node_precision),
        lambda score: score.node_precision,
    ),
    Column(
        "recall per node",
        lambda score: fraction(score.node_recall),
        lambda score: score.node_recall,
    ),
    Column(
        "recall per GPU, all",
        lambda score: fraction(score.recall_of_all),
        lambda score: score.recall_of_all,
    ),
    Column(
        "taints of GPUs right / false / disputed",
        lambda score: f"{score.right:,} / {score.false:,} / {score.disputed:,}",
        lambda score: -score.false,
    ),
    Column(
        "of nodes right / false",
        lambda score: f"{score.node_right:,} / {score.node_false:,}",
        lambda score: -score.node_false,
    ),
    Column(
        "false per 1,000 GPU-days",
        lambda score: f"{score.false_per_1000_gpu_days:.2f}",
        lambda score: -score.false_per_1000_gpu_days,
    ),
    Column("healthy siblings", lambda score: f"{score.siblings:,}", lambda score: -score.siblings),
    Column("slices left", lambda score: f"{score.slices_left:,}", lambda score: -score.slices_left),
    Column(
        "to taint p50 / p99",
        lambda score: two(score.to_taint),
        lambda score: _late(score.to_taint),
        POLLS,
    ),
    Column(
        "to free p50 / p99 (never)",
        lambda score: f"{two(score.to_free)} ({score.never_freed})",
        lambda score: _late(score.to_free),
        VERIFIES,
    ),
    Column(
        "pods lost wrongly", lambda score: f"{score.pods_lost:,}", lambda score: -score.pods_lost
    ),
    Column(
        "healthy GPU-hours lost by taints",
        lambda score: f"{score.lost_hours:,.0f}",
        lambda score: _hours(score.lost_hours),
        VERIFIES,
    ),
    Column(
        "by reboots",
        lambda score: f"{score.reboot_hours:,.0f}",
    ),
    Column(
        "by both",
        lambda score: f"{score.lost_hours + score.reboot_hours:,.0f}",
        lambda score: _hours(score.lost_hours + score.reboot_hours),
        f"{VERIFIES}. And {OLD_DRIVERS}",
    ),
    Column(
        "healthy GPUs rebooted",
        lambda score: f"{score.rebooted:,}",
        lambda score: -score.rebooted,
        OLD_DRIVERS,
    ),
)


def losses(ours: Score, others: Iterable[Score]) -> list[tuple[Column, Score]]:
    """Return the columns in which another policy is better, and the best one there."""
    found: list[tuple[Column, Score]] = []
    others = list(others)
    for column in COLUMNS:
        if column.worth is None or (mine := column.worth(ours)) is None:
            continue
        theirs = [(worth, score) for score in others if (worth := column.worth(score)) is not None]
        best = max(theirs, key=lambda pair: pair[0], default=(mine, ours))
        if best[0] > mine:
            found.append((column, best[1]))
    return found
