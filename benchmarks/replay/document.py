"""Scores as tables: for the terminal and for docs/replay.md. Pure but for `write`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from benchmarks.figures import percentile
from benchmarks.replay.rates import Parameters
from benchmarks.replay.run import Budgeted, Result
from benchmarks.replay.scoring import Score
from benchmarks.replay.signs import Seen
from benchmarks.replay.sources import OLD_DRIVERS, LogRecall, Share

BEGIN = "<!-- replay: begin, written by `make replay` -->"
END = "<!-- replay: end -->"
SOURCES = (
    "<!-- replay sources: begin, written by `python -m benchmarks.replay --sources` -->",
    "<!-- replay sources: end -->",
)
LOGS = (
    "<!-- replay logs: begin, written by `python -m benchmarks.replay --logs` -->",
    "<!-- replay logs: end -->",
)
STATES = (
    "<!-- replay states: begin, written by `python -m benchmarks.replay --states` -->",
    "<!-- replay states: end -->",
)
RENUMBERED = (
    "<!-- replay renumbering: begin, written by `python -m benchmarks.replay --renumbering` -->",
    "<!-- replay renumbering: end -->",
)
HEADER = (
    "policy",
    "precision",
    "recall, signalled",
    "recall, all",
    "taints right / false / disputed",
    "false per 1,000 GPU-days",
    "healthy siblings",
    "slices left",
    "to taint p50 / p99",
    "to free p50 / p99 (never)",
    "pods lost wrongly",
    "healthy GPU-hours lost",
)


def scores(results: Iterable[Result]) -> str:
    """Return a Markdown section per fleet."""
    return "\n\n".join(_section(result) for result in results)


def whole(results: Iterable[Result], runs: Iterable[Budgeted]) -> str:
    """Return the generated part of docs/replay.md."""
    return f"{scores(results)}\n\n### Shipped budgets\n\n{budgeted(runs)}"


def budgeted(runs: Iterable[Budgeted]) -> str:
    """Return a table of what the shipped budgets deferred."""
    rows = [
        (
            budget_run.profile,
            f"{budget_run.parameters.nodes * 8:,} GPUs, {budget_run.parameters.days} days",
            f"{budget_run.held:,} of {budget_run.incidents:,}",
            _share(budget_run.score.precision),
            _share(budget_run.score.recall),
            _two(budget_run.score.to_taint),
        )
        for budget_run in runs
    ]
    header = ("profile", "fleet", "incidents held", "precision", "recall", "to taint p50 / p99")
    return _table(header, rows)


def by_sources(found: Iterable[Share]) -> str:
    """Return what fewer sources cost: faults that were reported and not tainted."""
    header = (
        "sources",
        "faults",
        "tainted",
        "emptied",
        "reported, not tainted",
        "no new incident",
        "precision",
    )
    rows = [
        (
            share.mode,
            f"{share.faults:,}",
            _of(share.tainted, share.faults),
            _of(share.emptied, share.faults),
            _of(share.reported, share.faults),
            _of(share.missed, share.faults),
            _share(share.precision),
        )
        for share in found
    ]
    return _table(header, rows)


def by_log(found: Iterable[LogRecall]) -> str:
    """Return the recall of signalled faults by way to read the log and by share of old drivers."""
    shares = (f"{share:.0%} before R565" for share in OLD_DRIVERS)
    rows = [(row.log, f"{row.faults:,}", *map(_share, row.recalls)) for row in found]
    return _table(("kernel log", "signalled faults", *shares), rows)


def unusable(found: Iterable[Seen]) -> str:
    """Return what became of GPUs that are of no use though nothing fails."""
    header = (
        "state",
        "GPUs",
        "shown on the page",
        "alert",
        "incidents",
        "tainted",
        "precision",
        "recall",
    )
    rows = [
        (
            seen.name,
            f"{seen.gpus:,}",
            _of(seen.shown, seen.gpus),
            f"`{seen.alert}`",
            f"{seen.incidents:,}",
            f"{seen.tainted:,}",
            _share(seen.score.precision),
            _share(seen.score.recall),
        )
        for seen in found
    ]
    return _table(header, rows)


def _of(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def misses(result: Result, prefix: str) -> str:
    """Return what one policy got wrong, a line each."""
    lines = [
        f"{score.policy}: {found.what} node {found.node} gpu {found.gpu} "
        f"at {found.at:.1f} s: {found.why}"
        for score in result.scores
        if score.policy.startswith(prefix)
        for found in sorted(score.misses, key=lambda miss: (miss.what, miss.node, miss.at))
    ]
    counts = [
        f"{score.policy}: {count:6} {what}"
        for score in result.scores
        if score.policy.startswith(prefix)
        for what, count in score.by_truth.most_common()
    ]
    return "\n".join([*lines, *counts])


def write(path: str, text: str, marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Put a text between the two marks of a document."""
    file = Path(path)
    begin, end = marks
    before, _, rest = file.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    file.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def in_words(parameters: Parameters) -> str:
    """Return all parameters in one line."""
    fields = msgspec.structs.asdict(parameters)
    if not parameters.renumber_share:
        del fields["renumber_share"]  # most fleets keep their numbers
    return ", ".join(f"{name} {value:g}" for name, value in fields.items())


def _section(result: Result) -> str:
    truths = ", ".join(f"{count:,} {truth}" for truth, count in result.truths.most_common())
    parameters = result.parameters
    return (
        f"### {result.profile}: {parameters.nodes * 8:,} GPUs, {parameters.days} days, "
        f"{parameters.app_rate:,.0f} application XIDs per M GPU-h, {parameters.mig_share:.0%} MIG"
        f"{_renumbered(parameters)}"
        f"\n\n{_table(HEADER, [_row(score) for score in result.scores])}\n\n"
        f"Truth: {truths}.\nParameters: {in_words(parameters)}."
    )


def _renumbered(parameters: Parameters) -> str:
    share = parameters.renumber_share
    return f", {share:.0%} renumbered" if share else ""


def _row(score: Score) -> Sequence[str]:
    return (
        score.policy,
        _share(score.precision),
        _share(score.recall),
        _share(score.recall_of_all),
        f"{score.right:,} / {score.false:,} / {score.disputed:,}",
        f"{score.false_per_1000_gpu_days:,.2f}",
        f"{score.siblings:,}",
        f"{score.slices_left:,}",
        _two(score.to_taint),
        f"{_two(score.to_free)} ({score.never_freed:,})",
        f"{score.pods_lost:,}",
        f"{score.lost_hours:,.0f}",
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _two(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{_seconds(percentile(values, 0.5))} / {_seconds(percentile(values, 0.99))}"


def _seconds(value: float) -> str:
    if value < 100.0:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 7200.0 else f"{value / 3600:.1f} h"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
