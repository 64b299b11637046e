"""`draguard cleanup --all`: remove everything that Draguard has set, to uninstall it.

For clusters without a remediator. A running one creates the rules of its open
incidents again: lower the mode, or uninstall it first. One GPU: `draguard untaint`.
"""

import argparse
from collections.abc import Iterator, Sequence

from draguard.cluster.leader import leading
from draguard.cluster.reading import Reader
from draguard.cluster.removal import Found, Outcome, Remover
from draguard.cluster.removing import Rules, lines, removed
from draguard.connection.consent import agreed
from draguard.connection.errors import sentence
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.exit_status import DONE, UNASKED, WRONG
from draguard.phrases import count, some
from draguard.render.blocks import Lines
from draguard.render.formats import add_output_flag, give
from draguard.render.help_text import Example, teaching
from kubeapi.client import ApiError, Client

EXAMPLES = (
    Example("draguard cleanup --all --dry-run", "what would be removed"),
    Example("draguard cleanup --all", "remove it, before uninstalling Draguard"),
)


def main(arguments: Sequence[str]) -> int:
    """Return 0 when all of it is gone, 1 when something is left, 2 when nothing could be asked."""
    options = _options(arguments)
    return asked("cleanup", options, lambda client: _release(client, options))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = teaching(
        "cleanup",
        "Remove all taints and Node conditions of Draguard, to uninstall it.",
        EXAMPLES,
        more="Asks for confirmation. A running remediator creates the taints of open incidents\n"
        "again: lower the mode or uninstall it first. To untaint one GPU use `draguard untaint`.\n"
        "DeviceIncidents stay, as records. Cordons for maintenance belong to users: `draguard\n"
        "uncordon` removes them.",
    )
    parser.add_argument("incidents", nargs="*", metavar="INCIDENT", help=argparse.SUPPRESS)
    parser.add_argument(
        "--all", action="store_true", help="all taint rules and Node conditions of Draguard"
    )
    parser.add_argument(
        "--yes", action="store_true", help="do not ask; required without a terminal"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be removed, change nothing"
    )
    add_output_flag(parser)
    add_cluster_flags(parser)
    parser.usage = f"{parser.prog} --all [FLAGS]"
    found = parser.parse_args(arguments)
    if found.incidents:
        parser.error(f"to untaint one GPU use `draguard untaint {found.incidents[0]}`")
    if not found.all:
        parser.error("--all is required")
    return found


def _release(client: Client, options: argparse.Namespace) -> int:
    releaser = Remover(client)
    try:
        rules = list(releaser.rules())
        kept = releaser.maintenance()
        nodes = list(releaser.nodes())
        found = [*(one for one, _ in rules), *nodes]
        if options.dry_run:
            outcomes = [Outcome(one) for one in found]
        elif found and not _agreed(client, found, options):
            return WRONG
        else:
            outcomes = _outcomes(releaser, rules, nodes)
    except ApiError as error:
        if error.status in (None, 401, 403):
            raise
        why = sentence(error, client.endpoint.server)
        complain("cleanup", f"{why}; nothing was done")
        return UNASKED
    give(outcomes, options.output, lambda: (Lines(tuple(_lines(outcomes, kept, options))),))
    return WRONG if any(one.error for one in outcomes) else DONE


def _agreed(client: Client, found: list[Found], options: argparse.Namespace) -> bool:
    if options.yes:
        return True
    facts = (*_facts(found), *_leader(client, options.namespace))
    return agreed("cleanup", facts, "Remove all of them?", yes=False)


def _facts(found: list[Found]) -> Iterator[str]:
    for one in found:
        yield f"{one.kind} {one.name}: {one.what}"
    gpus = {one.gpu for one in found if one.gpu}
    objects = count(len(found), "object", "objects")
    yield f"to remove: {objects} of {count(len(gpus), 'GPU', 'GPUs')}"
    yield "new pods can then be scheduled to these GPUs immediately, even if their faults remain"


def _leader(client: Client, namespace: str) -> Iterator[str]:
    """Say that a remediator undoes it, where one leads as far as can be seen."""
    try:
        objects = Reader(client, namespace).objects("leases")
    except ApiError:
        return
    lead = leading(objects.leases, objects.at)
    if not lead.why:
        yield f"remediator {lead.holder} leads: it will create the taints of open incidents again"


def _outcomes(releaser: Remover, rules: Rules, nodes: list[Found]) -> list[Outcome]:
    def left() -> list[Found]:
        return [*(found for found, _ in releaser.rules()), *releaser.nodes()]

    return removed(releaser, rules, nodes, left)


def _lines(outcomes: list[Outcome], kept: list[str], options: argparse.Namespace) -> Iterator[str]:
    yield from lines(outcomes, "would be removed" if options.dry_run else "removed")
    if not outcomes:
        yield "no taint rules or Node conditions of Draguard in this cluster"
    if kept:
        yield (
            f"{count(len(kept), 'cordon for maintenance stays', 'cordons for maintenance stay')} "
            f"({some(kept)}): users made them; `draguard uncordon --all` removes them"
        )
