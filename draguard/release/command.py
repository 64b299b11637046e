"""`draguard release`: take our rules down, by hand, whatever the remediator thinks.

A running remediator takes it for a person's word: a rule that is gone is not made
again for a day, unless a new signal comes. To keep it away for longer lower the
mode, or answer `draguard.dev/ignore` on the incident.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

from draguard.connection.help_text import Example, teaching
from draguard.connection.refusal import sentence
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.exit_status import DONE, UNASKED, WRONG
from draguard.incidents.finding import short
from draguard.output.amounts import count, some
from draguard.output.formats import add_output_flag, give
from draguard.output.nearest import did_you_mean
from draguard.output.sheet import Lines
from draguard.release.ours import Found, Outcome, Releaser
from kubeapi.client import ApiError, Client
from remediator.objects.taints import RawRule

EXAMPLES = (
    Example("draguard release --all --dry-run", "what of Draguard stands, and would go"),
    Example("draguard release INCIDENT", "the rules of one incident"),
    Example("draguard release --all", "all of it, before Draguard is uninstalled"),
)
_STANDS = (
    "it still stands: a finalizer keeps it, or a remediator that enforces has made it again; "
    "lower its mode first"
)
UNTRIED = "not tried: the server does not answer"

Rules = list[tuple[Found, RawRule]]
"""Ours, each as it is told of and as it is stored."""


class AmbiguousError(Exception):
    """A short name that several incidents go by; the message names them."""


def main(arguments: Sequence[str]) -> int:
    """Return 0 when all of it is gone, 1 when something is left, 2 when nothing could be asked."""
    options = _options(arguments)
    return asked("release", options, lambda client: _release(client, options))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = teaching(
        "release",
        "Remove Draguard's DeviceTaintRules, of some incidents or of all.",
        EXAMPLES,
        more="A running remediator respects it for a day, or until a new signal comes; lower the\n"
        "mode, or use `draguard ignore`, to keep rules away for longer. DeviceIncidents stay, as\n"
        "records. Fences for maintenance are people's own: `draguard unfence` takes them away.",
    )
    parser.add_argument(
        "incidents", nargs="*", metavar="INCIDENT", help="its rules only; or a GPU's UUID"
    )
    parser.add_argument(
        "--all", action="store_true", help="every rule of ours, and our conditions of Nodes"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go, remove nothing")
    add_output_flag(parser)
    add_cluster_flags(parser)
    found = parser.parse_args(arguments)
    if bool(found.incidents) == found.all:
        parser.error("name incidents, or give --all")
    return found


def _release(client: Client, options: argparse.Namespace) -> int:
    releaser = Releaser(client)
    try:
        rules = list(releaser.rules())
        strange = () if options.all else tuple(_strange(rules, options.incidents))
        kept = releaser.maintenance() if options.all else []
        outcomes = _outcomes(releaser, rules, options)
    except AmbiguousError as error:
        complain("release", str(error))
        return WRONG
    except ApiError as error:
        if error.status in (None, 401, 403):
            raise
        why = sentence(error, client.endpoint.server)
        complain("release", f"{why}; nothing was done")
        return UNASKED
    give(outcomes, options.output, lambda: (Lines(tuple(_lines(outcomes, kept, options))),))
    for one in strange:
        complain("release", one)
    return WRONG if strange or any(one.error for one in outcomes) else DONE


def _strange(rules: Rules, words: Sequence[str]) -> Iterator[str]:
    """Say which words name no rule. Raises AmbiguousError for one that names several incidents."""
    every = [found for found, _ in rules]
    for word in words:
        named = {one.incident for one in every if short(one.incident) == word.lower()}
        if len(named) > 1:
            whole = some(sorted(named))
            raise AmbiguousError(f"{word!r} is short for {whole}; give the whole name")
        if not any(one.goes_by(word) for one in every):
            known = (name for one in every for name in (short(one.incident), one.gpu))
            yield f"no rule of ours is of {word!r}{did_you_mean(word, known)}"


def _wanted(rules: Rules, options: argparse.Namespace) -> Rules:
    words: Sequence[str] = options.incidents
    return [one for one in rules if options.all or any(one[0].goes_by(word) for word in words)]


def _outcomes(releaser: Releaser, rules: Rules, options: argparse.Namespace) -> list[Outcome]:
    wanted = _wanted(rules, options)
    nodes = list(releaser.nodes()) if options.all else []
    if options.dry_run:
        return [Outcome(found) for found in (*(found for found, _ in wanted), *nodes)]
    outcomes = _removed(releaser, wanted, nodes)
    try:
        left = [found for found, _ in _wanted(list(releaser.rules()), options)]
        left += list(releaser.nodes()) if options.all else []
    except ApiError as error:
        why = f"it was asked for, and whether it is gone cannot be seen: {error}"
        return [one if one.error else Outcome(one.found, why) for one in outcomes]
    return _looked_at(outcomes, left)


def _removed(releaser: Releaser, rules: Rules, nodes: list[Found]) -> list[Outcome]:
    """Remove one after the other; after a silence nothing more is tried."""
    steps = [partial(releaser.remove_rule, *one) for one in rules]
    steps += [partial(releaser.remove_conditions, one) for one in nodes]
    outcomes: list[Outcome] = []
    for step, found in zip(steps, (*(found for found, _ in rules), *nodes), strict=True):
        silent = outcomes and (outcomes[-1].unanswered or outcomes[-1].error == UNTRIED)
        outcomes.append(Outcome(found, UNTRIED) if silent else step())
    return outcomes


def _looked_at(outcomes: list[Outcome], left: list[Found]) -> list[Outcome]:
    """Return what became of each thing, seen with our own eyes: asked for is not yet gone."""
    standing = {(one.kind, one.name): Outcome(one, _STANDS) for one in left}
    told = [_now(one, standing.get((one.found.kind, one.found.name))) for one in outcomes]
    failed = {(one.found.kind, one.found.name) for one in told if one.error}
    return told + [one for key, one in standing.items() if key not in failed]


def _now(one: Outcome, standing: Outcome | None) -> Outcome:
    if standing is None:
        return Outcome(one.found)  # it is gone, whatever was answered
    return one if one.error else standing


def _lines(outcomes: list[Outcome], kept: list[str], options: argparse.Namespace) -> Iterator[str]:
    done = "would be removed" if options.dry_run else "removed"
    for one in outcomes:
        whose = f" (incident {one.found.incident})" if one.found.incident else ""
        end = f"NOT removed: {one.error}" if one.error else done
        yield f"{one.found.kind} {one.found.name}: {one.found.what}{whose}: {end}"
    if options.all and not outcomes:
        yield "nothing of Draguard's stands in this cluster"
    if kept:
        yield (
            f"{count(len(kept), 'fence for maintenance stands', 'fences for maintenance stand')} "
            f"({some(kept)}): people have made them, and no release takes them away; "
            "`draguard unfence --all` does"
        )
