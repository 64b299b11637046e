"""`draguard incidents [NAME]`: what is wrong in the cluster, or one case file."""

import argparse
from collections.abc import Sequence

from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader
from draguard.connection.help_text import Example, teaching
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.exit_status import DONE, WRONG
from draguard.incidents.case_file import case_file
from draguard.incidents.finding import NoIncidentError, meant
from draguard.incidents.table import lines, table
from draguard.output.formats import add_output_flag, give
from draguard.output.progress import Progress
from draguard.output.sheet import Lines
from kubeapi.client import Client

EXAMPLES = (
    Example("draguard incidents", "what is open, the worst first"),
    Example("draguard incidents --all --node gpu-7", "closed ones too, of one node"),
    Example("draguard incidents GPU-2fa8...", "the case file of a GPU, by its whole UUID"),
    Example("draguard incidents NAME -o yaml", "the object, for a ticket"),
)


def main(arguments: Sequence[str]) -> int:
    """Return 0; 1 when there is no such incident; 2 when nothing could be asked."""
    parser = teaching(
        "incidents",
        "List the incidents: one for each episode of trouble with a GPU. With a name, tell all of\n"
        "one: what was seen, who is hit, which rules stand, what was decided and why.",
        EXAMPLES,
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="an incident, such as gpu-2fa81118-1, or a GPU's UUID",
    )
    parser.add_argument("--all", action="store_true", help="closed ones too")
    parser.add_argument("--node", default="", metavar="NAME", help="of one node only")
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    return asked("incidents", options, lambda client: _told(client, options))


def _told(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        objects = Reader(client, options.namespace, progress.read).objects("incidents")
    if options.name is None:
        _list(objects, options)
        return DONE
    try:
        one = meant(options.name, objects.incidents)
    except NoIncidentError as error:
        complain("incidents", str(error))
        return WRONG
    give(one, options.output, lambda: case_file(one, objects.at))
    return DONE


def _list(objects: Objects, options: argparse.Namespace) -> None:
    found = lines(objects.incidents, closed=options.all, node=options.node)
    left_out = tuple(f"left out, cannot be read: {one}" for one in objects.unreadable)
    give(found, options.output, lambda: (table(found, objects.at, options.node), Lines(left_out)))
