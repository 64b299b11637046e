"""`draguard incidents [NAME...]`: the open incidents of the cluster, or some in detail."""

import argparse
import sys
from collections.abc import Sequence

from draguard.cluster.incident_lines import Line, incident_lines
from draguard.cluster.incidents import NoIncidentError, find_incidents
from draguard.cluster.listing import raw_items
from draguard.cluster.nodes_by_label import NoNodeError, add_selector_flag, selected_nodes
from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader, left_out
from draguard.cluster.stored_incidents import (
    incident_names,
    listed_as,
    stored_incidents,
    version_of,
)
from draguard.connection.cluster_flags import add_all_namespaces_flag, add_cluster_flags
from draguard.connection.progress import Progress
from draguard.connection.session import print_error, run_with_client
from draguard.connection.watch import add_watch_flag, watch
from draguard.exit_status import DONE, PROBLEM
from draguard.render.blocks import Cell, Lines, Table
from draguard.render.changes import separator
from draguard.render.formats import add_output_flag, for_programs, print_result
from draguard.render.help_text import Example, teaching
from draguard.render.incident_page import incident_page
from draguard.render.incident_table import (
    ALL_ROWS,
    add_rows_flag,
    grouped_lines,
    incident_table,
)
from draguard.render.plain import more_rows, plain
from kubeapi.client import ApiError, Client, NotFound
from kubeapi.resources import REPORTS

EXAMPLES = (
    Example("draguard incidents", "open incidents, the most urgent first"),
    Example("draguard incidents -w", "the same, then each change"),
    Example("draguard incidents --all --node gpu-7", "closed ones too, on one node"),
    Example("draguard incidents -l pool=h100", "on the nodes with a label"),
    Example("draguard incidents GPU-2fa8", "the incident of a GPU, by its UUID"),
    Example("draguard incidents NAME -o yaml", "the object, for a ticket"),
)
KIND = "DeviceIncidentList"


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "incidents",
        "List the incidents, one for each fault of a GPU. With names, show them in detail:\n"
        "evidence, affected pods, taint rules, decisions and reasons.",
        EXAMPLES,
    )
    taught.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="incidents, such as gpu-2fa81118-1, UUIDs of GPUs, or the start of one",
    )
    taught.add_argument("--all", action="store_true", help="include closed incidents")
    add_rows_flag(taught)
    taught.add_argument("--node", default="", metavar="NAME", help="only incidents on this node")
    add_selector_flag(taught)
    add_all_namespaces_flag(taught)
    add_watch_flag(taught)
    add_output_flag(taught, names=True)
    add_cluster_flags(taught)
    taught.usage = f"{taught.prog} [NAME...] [FLAGS]"
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0; 1 for no such incident or node, or an incomplete list; 2 without access."""
    options = parser().parse_args(arguments)
    if options.selector and (options.names or options.node):
        parser().error("--selector does not go with names or --node")
    look = _Named if options.names else _Listed

    def show(client: Client) -> int:
        return watch("incidents", client, look(client, options), again=options.watch)

    return run_with_client("incidents", options, show)


def _read(client: Client, options: argparse.Namespace) -> Objects:
    with Progress() as progress:
        return Reader(client, options.namespace, progress.read).objects("incidents")


class _Named:
    """Shows incidents in detail, and again whenever one of them was written."""

    def __init__(self, client: Client, options: argparse.Namespace) -> None:
        self._client, self._options = client, options
        self._shown: object = None

    def __call__(self) -> int:
        objects, output = _read(self._client, self._options), self._options.output
        try:
            found = find_incidents(self._options.names, objects.incidents)
        except NoIncidentError as error:
            print_error("incidents", f"{error}{left_out(objects)}")
            return PROBLEM
        versions = tuple(map(version_of, found))
        if versions == self._shown:
            return DONE
        if self._shown is not None:
            sys.stdout.write(separator(output, objects.at))
        self._shown = versions
        names = [incident.name for incident in found]
        stored = stored_incidents(self._client, names) if for_programs(output) else ()
        alone = stored[0] if len(stored) == 1 and len(names) == 1 else None
        print_result(
            alone or listed_as(stored),
            output,
            lambda: (block for each in found for block in incident_page(each, objects.at)),
            KIND,
            incident_names(names),
        )
        return DONE


class _Listed:
    """Lists incidents, and below them those that have changed, as `kubectl get -w` does."""

    def __init__(self, client: Client, options: argparse.Namespace) -> None:
        self._client, self._options = client, options
        self._shown: dict[str, Line] = {}
        self._table: Table | None = None

    def __call__(self) -> int:
        objects, options = _read(self._client, self._options), self._options
        nodes = frozenset({options.node}) if options.node else None
        try:
            if options.selector:
                nodes = selected_nodes(self._client, options.selector)
        except NoNodeError as error:
            print_error("incidents", str(error))
            return PROBLEM
        every = incident_lines(objects.incidents, closed=True, nodes=nodes)
        # One that has just been closed is a change to show; all others that are closed are not.
        found = [
            line for line in every if options.all or not line.closed or line.name in self._shown
        ]
        if options.node and not found and not _exists(self._client, objects, options.node):
            print_error("incidents", f"no report or incident for a node {options.node!r}")
            return PROBLEM
        self._print(objects, found)
        if objects.unreadable:
            print_error("incidents", f"this list is incomplete{left_out(objects)}")
            return PROBLEM
        return DONE

    def _print(self, objects: Objects, found: Sequence[Line]) -> None:
        options = self._options
        new = [line for line in found if self._shown.get(line.name) != line]
        self._shown = {line.name: line for line in found if options.all or not line.closed}
        where = f" on {options.node}" if options.node else ""
        where = f" on nodes with {options.selector}" if options.selector else where
        wide = options.output == "wide"
        grouped = not (wide or options.all_rows or options.watch)
        shared = grouped and len(grouped_lines(new)) < len(new)
        nothing = f"no open incidents{where}"
        table = incident_table(new, objects.at, wide=wide, grouped=grouped, nothing=nothing)
        page = (table, Lines((Cell(ALL_ROWS, "dim"),) if shared else ()))
        before, self._table = self._table, self._table or table
        names = incident_names(line.name for line in new)
        if for_programs(options.output):
            stored = stored_incidents(self._client, [line.name for line in new])
            for each in stored if options.watch else (listed_as(stored),):
                print_result(each, options.output, tuple, KIND)
        elif options.output == "name" or not options.watch:
            print_result((), options.output, lambda: page, KIND, names)
        elif before is None:
            sys.stdout.write(plain((table,)))
        else:
            sys.stdout.write(more_rows(before, table))


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
