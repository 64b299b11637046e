"""`draguard cleanup --all`: remove everything that Draguard has set, to uninstall it.

For clusters without a remediator. A running one creates the rules of its open
incidents again: lower the mode, or uninstall it first. One GPU: `draguard untaint`.
"""

import argparse
from collections.abc import Iterator, Sequence

from draguard.cluster.leader import leader_of
from draguard.cluster.reading import Reader
from draguard.cluster.removal import Found, Outcome, Remover, outcome_lines, remove_all
from draguard.connection.cluster_flags import add_cluster_flags
from draguard.connection.errors import sentence
from draguard.connection.session import confirmed, print_error, run_with_client
from draguard.exit_status import DONE, NO_ACCESS, PROBLEM
from draguard.phrases import count, some
from draguard.program_name import spelled
from draguard.render.blocks import Lines
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from kubeapi.client import ApiError, Client

EXAMPLES = (
    Example("draguard cleanup --all --dry-run", "what would be removed"),
    Example("draguard cleanup --all", "remove it, before uninstalling Draguard"),
)


def main(arguments: Sequence[str]) -> int:
    """Return 0 if all of it is gone, 1 if something is left, 2 without access."""
    options = parser().parse_args(arguments)
    if options.incidents:
        incident = options.incidents[0]
        parser().error(spelled(f"to untaint one GPU use `draguard untaint {incident}`"))
    if not options.all:
        parser().error("--all is required")
    return run_with_client("cleanup", options, lambda client: _clean_up(client, options))


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "cleanup",
        "Remove all taints and Node conditions of Draguard, to uninstall it.",
        EXAMPLES,
        more="Asks for confirmation. A running remediator creates the taints of open incidents\n"
        "again: lower the mode or uninstall it first. To untaint one GPU use `draguard untaint`.\n"
        "DeviceIncidents stay, as records. Cordons for maintenance belong to users: `draguard\n"
        "uncordon` removes them.",
    )
    taught.add_argument("incidents", nargs="*", metavar="INCIDENT", help=argparse.SUPPRESS)
    taught.add_argument(
        "--all", action="store_true", help="required: all taint rules and Node conditions"
    )
    taught.add_argument(
        "--leases",
        action="store_true",
        help="also the Leases of agents, remediator and explainer, once all are uninstalled",
    )
    taught.add_argument(
        "--yes", action="store_true", help="do not ask; required without a terminal"
    )
    taught.add_argument(
        "--dry-run", action="store_true", help="show what would be removed, change nothing"
    )
    add_output_flag(taught, names=True)
    add_cluster_flags(taught)
    taught.usage = f"{taught.prog} --all [FLAGS]"
    return taught


def _clean_up(client: Client, options: argparse.Namespace) -> int:
    remover = Remover(client, options.namespace)

    def leases() -> list[Found]:
        return list(remover.leases()) if options.leases else []

    def left() -> list[Found]:
        return [*(found for found, _ in remover.rules()), *remover.nodes(), *leases()]

    try:
        rules = list(remover.rules())
        cordons = remover.maintenance()
        removals = remover.removals(rules, list(remover.nodes()), leases())
        found = [each for each, _ in removals]
        if options.dry_run:
            outcomes = [Outcome(each) for each in found]
        else:
            facts = () if options.yes else _facts(client, options.namespace, found)
            if found and not confirmed("cleanup", facts, "Remove all of them?", yes=options.yes):
                return PROBLEM
            outcomes = remove_all(removals, left)
    except ApiError as error:
        if error.status in (None, 401, 403):
            raise
        print_error("cleanup", f"{sentence(error, client.endpoint.server)}; nothing was done")
        return NO_ACCESS
    done = "would be removed" if options.dry_run else "removed"
    print_result(
        outcomes,
        options.output,
        lambda: (Lines(tuple(_lines(outcomes, cordons, done))),),
        "RemovalList",
        (outcome.found.reference for outcome in outcomes),
    )
    return PROBLEM if any(outcome.error for outcome in outcomes) else DONE


def _facts(client: Client, namespace: str, found: list[Found]) -> Iterator[str]:
    """Yield what would be removed, and a warning if a remediator leads and taints again."""
    for each in found:
        yield f"{each.kind} {each.name}: {each.what}"
    gpus = {each.gpu for each in found if each.gpu}
    objects = count(len(found), "object", "objects")
    yield f"to remove: {objects} of {count(len(gpus), 'GPU', 'GPUs')}"
    yield "new pods can then be scheduled to these GPUs immediately, even if their faults remain"
    try:
        read = Reader(client, namespace).objects("leases")
    except ApiError:
        return
    leader = leader_of(read.leases, read.at)
    if not leader.problem:
        yield f"remediator {leader.holder} leads: it will create the taints of open incidents again"


def _lines(outcomes: list[Outcome], cordons: list[str], done: str) -> Iterator[str]:
    yield from outcome_lines(outcomes, done)
    if not outcomes:
        yield "no taint rules or Node conditions of Draguard in this cluster"
    if cordons:
        stay = count(len(cordons), "cordon for maintenance stays", "cordons for maintenance stay")
        yield f"{stay} ({some(cordons)}): users made them; `draguard uncordon --all` removes them"
