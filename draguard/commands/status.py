"""`draguard status`: the fleet at a glance."""

import argparse
from collections.abc import Sequence
from functools import partial

import msgspec

from draguard.cluster.fleet_status import fleet_status
from draguard.cluster.installation import find_installation
from draguard.cluster.reading import OPTIONAL, WATCHED, Reader
from draguard.connection.cluster_flags import add_all_namespaces_flag, add_cluster_flags
from draguard.connection.progress import Progress
from draguard.connection.session import run_with_client
from draguard.connection.watch import add_watch_flag, watch
from draguard.exit_status import DONE, PROBLEM
from draguard.phrases import count
from draguard.render.changes import Changes
from draguard.render.formats import add_output_flag
from draguard.render.help_text import Example, teaching
from draguard.render.incident_table import add_rows_flag
from draguard.render.status_page import status_page
from kubeapi.client import Client

EXAMPLES = (
    Example("draguard status", "the cluster of the current kubectl context"),
    Example("draguard status --context prod", "another cluster"),
    Example("draguard status -w", "show it again whenever it changes"),
    Example("draguard status -o json | jq .gpus", "how many GPUs are healthy, sick, unknown"),
)


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "status",
        "Show how many GPUs are healthy, sick or unknown, which reports are stale and which\n"
        "sources are down, the taint rules, the open incidents, and the mode of the policy.",
        EXAMPLES,
        more="An unknown GPU is neither healthy nor sick: it has no reading, or an old one. The\n"
        "command runs the remediator's own code on the current objects of the API server.",
    )
    add_rows_flag(taught)
    add_all_namespaces_flag(taught)
    add_watch_flag(taught)
    add_output_flag(taught)
    add_cluster_flags(taught)
    taught.usage = f"{taught.prog} [FLAGS]"
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0, whatever was found; 1 if a part cannot be read or the namespace is missing."""
    options = parser().parse_args(arguments)
    changes = Changes(options.output, "Status")

    def show(client: Client) -> int:
        return watch("status", client, lambda: _look(client, options, changes), again=options.watch)

    return run_with_client("status", options, show)


def _look(client: Client, options: argparse.Namespace, changes: Changes) -> int:
    with Progress() as progress:
        reader = Reader(client, options.namespace, progress.read)
        objects = reader.objects(*WATCHED, spared=WATCHED)
        progress.says(f"evaluating the GPUs of {count(len(objects.reports), 'node', 'nodes')}")
        found = fleet_status(objects, find_installation(client, options.namespace))
    wide = options.output == "wide"
    steady = msgspec.structs.replace(found, leader_renewed=None)
    page = partial(status_page, found, objects.at, wide=wide, all_rows=options.all_rows)
    changes.show(found, page, objects.at, apart=steady)
    partly = objects.no_namespace or objects.missing - OPTIONAL or objects.unreadable
    return PROBLEM if partly else DONE
