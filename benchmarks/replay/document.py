"""Scores as tables: for the terminal and for docs/replay.md. Pure but for `write`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.replay.columns import COLUMNS, fraction, losses, two
from benchmarks.replay.peer import About
from benchmarks.replay.peers import PEERS
from benchmarks.replay.rates import Parameters
from benchmarks.replay.run import OURS, Budgeted, Result
from benchmarks.replay.scoring import Score
from benchmarks.replay.signs import Seen
from benchmarks.replay.sources import DriverScores, Share

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
BY_LOG = frozenset(
    {
        "recall per GPU",
        "precision per GPU",
        "taints of GPUs right / false / disputed",
        "healthy siblings",
        "slices left",
        "to free p50 / p99 (never)",
        "healthy GPU-hours lost by taints",
    }
)
SUMMARY = (
    "<!-- replay summary: begin, written by `make replay` -->",
    "<!-- replay summary: end -->",
)
DRAGUARD = About(
    "this version",
    "every class `enforce`, budgets lifted, times as shipped; the kernel log by `/dev/kmsg` or "
    "the journal",
    "`incident-only`: taints nothing",
)


def scores(results: Iterable[Result]) -> str:
    """Return a Markdown section per fleet."""
    return "\n\n".join(_section(result) for result in results)


def whole(results: Iterable[Result], runs: Iterable[Budgeted]) -> str:
    """Return the generated part of docs/replay.md."""
    return (
        f"### What the rows are\n\n{rows()}\n\n{scores(results)}\n\n"
        f"### Shipped budgets\n\n{budgeted(runs)}"
    )


def rows() -> str:
    """Return version, settings and defaults of each row."""
    abouts = ((OURS, DRAGUARD), *((peer.name, peer.about) for peer in PEERS))
    return table(
        ("row", "version", "settings here", "as installed"),
        [(name, *about) for name, about in abouts],
    )


def budgeted(runs: Iterable[Budgeted]) -> str:
    """Return a table of what the shipped budgets deferred."""
    rows = [
        (
            budget_run.profile,
            f"{budget_run.parameters.nodes * 8:,} GPUs, {budget_run.parameters.days} days",
            f"{budget_run.held:,} of {budget_run.incidents:,}",
            fraction(budget_run.score.precision),
            fraction(budget_run.score.recall),
            two(budget_run.score.to_taint),
        )
        for budget_run in runs
    ]
    header = ("profile", "fleet", "incidents held", "precision", "recall", "to taint p50 / p99")
    return table(header, rows)


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
            fraction(share.precision),
        )
        for share in found
    ]
    return table(header, rows)


def by_log(found: Iterable[DriverScores]) -> str:
    """Return what each policy does with each kind of driver, ours by way to read the log."""
    picked = [column for column in COLUMNS if column.title in BY_LOG]
    lines = [
        (
            row.driver,
            score.policy,
            f"{score.demanded:,}",
            *(column.text(score) for column in picked),
        )
        for row in found
        for score in row.scores
    ]
    header = ("driver", "policy", "signalled faults", *(column.title for column in picked))
    return table(header, lines)


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
            fraction(seen.score.precision),
            fraction(seen.score.recall),
        )
        for seen in found
    ]
    return table(header, rows)


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
    return parameters.in_words("g")


def _section(result: Result) -> str:
    by_count = sorted(result.truths.items(), key=lambda pair: (-pair[1], pair[0]))
    truths = ", ".join(f"{count:,} {truth}" for truth, count in by_count)
    parameters = result.parameters
    share = parameters.renumber_share
    renumbered = f", {share:.0%} renumbered" if share else ""
    return (
        f"### {result.profile}: {parameters.nodes * 8:,} GPUs, {parameters.days} days, "
        f"{parameters.app_rate:,.0f} application XIDs per M GPU-h, {parameters.mig_share:.0%} MIG"
        f"{renumbered}\n\n{_by_delay(result.scores)}\n\n"
        f"Truth: {truths}.\nParameters: {in_words(parameters)}."
    )


def _by_delay(found: Sequence[Score]) -> str:
    """Return a table for each delay of administrators, and where Draguard is not the best."""
    parts: list[str] = []
    header = ("policy", *(column.title for column in COLUMNS))
    for delay in dict.fromkeys(score.delay for score in found):
        ours, *others = (score for score in found if score.delay == delay)
        lines = [
            (score.policy, *(column.text(score) for column in COLUMNS)) for score in (ours, *others)
        ]
        parts += [f"Administrators act after {delay / 3600:g} h.", table(header, lines)]
        if lost := losses(ours, others):
            better = "\n".join(
                f"- {column.title}: {column.text(ours)}, {best.policy} {column.text(best)}. "
                f"{column.why[:1].upper()}{column.why[1:]}."
                for column, best in lost
            )
            parts.append(f"{OURS} is not the best in:\n\n{better}")
    return "\n\n".join(parts)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
