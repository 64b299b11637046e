"""`draguard incidents [NAME]`: the open incidents of the cluster, or one incident in detail."""

import argparse
from collections.abc import Sequence

from draguard.cluster.incidents import NoIncidentError, find_incident
from draguard.cluster.listing import raw_items
from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader, left_out
from draguard.connection.progress import Progress
from draguard.connection.session import add_cluster_flags, print_error, run_with_client
from draguard.exit_status import DONE, PROBLEM
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from draguard.render.incident_page import incident_page
from draguard.render.incident_table import incident_lines, incident_table
from kubeapi.client import ApiError, Client, NotFound
from kubeapi.resources import REPORTS

EXAMPLES = (
    Example("draguard incidents", "open incidents, the most severe first"),
    Example("draguard incidents --all --node gpu-7", "closed ones too, on one node"),
    Example("draguard incidents GPU-2fa8...", "the incident of a GPU, by its full UUID"),
    Example("draguard incidents NAME -o yaml", "the object, for a ticket"),
)


def main(arguments: Sequence[str]) -> int:
    """Return 0; 1 for no such incident or node, or an incomplete list; 2 without access."""
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
    return run_with_client("incidents", options, lambda client: _show(client, options))


def _show(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        objects = Reader(client, options.namespace, progress.read).objects("incidents")
    if options.name is None:
        return _show_list(client, objects, options)
    try:
        incident = find_incident(options.name, objects.incidents)
    except NoIncidentError as error:
        print_error("incidents", f"{error}{left_out(objects)}")
        return PROBLEM
    print_result(incident, options.output, lambda: incident_page(incident, objects.at))
    return DONE


def _show_list(client: Client, objects: Objects, options: argparse.Namespace) -> int:
    found = incident_lines(objects.incidents, closed=options.all, node=options.node)
    if options.node and not found and not _exists(client, objects, options.node):
        print_error("incidents", f"no report or incident for a node {options.node!r}")
        return PROBLEM
    print_result(found, options.output, lambda: (incident_table(found, objects.at, options.node),))
    if objects.unreadable:
        print_error("incidents", f"this list is incomplete{left_out(objects)}")
        return PROBLEM
    return DONE


def _exists(client: Client, objects: Objects, node: str) -> bool:
    """Whether the node exists, as far as can be seen: a mistyped name must not look healthy."""
    if any(incident.node == node for incident in objects.incidents):
        return True
    try:
        params = {"fieldSelector": f"metadata.name={node}"}
        return any(raw_items(client, REPORTS, params))
    except NotFound:
        return False
    except ApiError:
        return True  # unknown
