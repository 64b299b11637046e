"""`draguard incidents [NAME]`: what is wrong in the cluster, or one case file."""

import argparse
from collections.abc import Sequence

from draguard.cluster.find_incident import NoIncidentError, meant
from draguard.cluster.listing import raw_items
from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader, left_out
from draguard.connection.progress import Progress
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.exit_status import DONE, WRONG
from draguard.render.formats import add_output_flag, give
from draguard.render.help_text import Example, teaching
from draguard.render.incident_page import case_file
from draguard.render.incident_table import lines, table
from kubeapi.client import ApiError, Client, NotFound
from remediator.controller.cluster import REPORTS

EXAMPLES = (
    Example("draguard incidents", "open incidents, the most severe first"),
    Example("draguard incidents --all --node gpu-7", "closed ones too, on one node"),
    Example("draguard incidents GPU-2fa8...", "the incident of a GPU, by its full UUID"),
    Example("draguard incidents NAME -o yaml", "the object, for a ticket"),
)


def main(arguments: Sequence[str]) -> int:
    """Return 0; 1 for no such incident or node, or a list with gaps; 2 when nothing was asked."""
    parser = teaching(
        "incidents",
        "List the incidents, one for each fault of a GPU. With a name, show one in detail:\n"
        "evidence, affected pods, taint rules, decisions and reasons.",
        EXAMPLES,
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="an incident, such as gpu-2fa81118-1, or a GPU's UUID",
    )
    parser.add_argument("--all", action="store_true", help="include closed incidents")
    parser.add_argument("--node", default="", metavar="NAME", help="only incidents on this node")
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    return asked("incidents", options, lambda client: _told(client, options))


def _told(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        objects = Reader(client, options.namespace, progress.read).objects("incidents")
    if options.name is None:
        return _list(client, objects, options)
    try:
        one = meant(options.name, objects.incidents)
    except NoIncidentError as error:
        complain("incidents", f"{error}{left_out(objects)}")
        return WRONG
    give(one, options.output, lambda: case_file(one, objects.at))
    return DONE


def _list(client: Client, objects: Objects, options: argparse.Namespace) -> int:
    found = lines(objects.incidents, closed=options.all, node=options.node)
    if options.node and not found and not _is_known(client, objects, options.node):
        complain("incidents", f"no report or incident for a node {options.node!r}")
        return WRONG
    give(found, options.output, lambda: (table(found, objects.at, options.node),))
    if objects.unreadable:
        complain("incidents", f"this list is incomplete{left_out(objects)}")
        return WRONG
    return DONE


def _is_known(client: Client, objects: Objects, node: str) -> bool:
    """Whether there is such a node, as far as can be told: a slip of the pen is not health."""
    if any(one.node == node for one in objects.incidents):
        return True
    try:
        params = {"fieldSelector": f"metadata.name={node}"}
        return any(raw_items(client, REPORTS, params))
    except NotFound:
        return False
    except ApiError:
        return True  # nobody says that there is none
