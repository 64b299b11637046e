"""`draguard status`: the fleet at a glance."""

import argparse
from collections.abc import Sequence

from draguard.cluster.installation import find
from draguard.cluster.reading import OPTIONAL, WATCHED, Reader
from draguard.connection.help_text import Example, teaching
from draguard.connection.session import add_cluster_flags, asked
from draguard.exit_status import DONE, WRONG
from draguard.output.amounts import count
from draguard.output.formats import add_output_flag, give
from draguard.output.progress import Progress
from draguard.status.fleet import status
from draguard.status.sheet import sheet
from kubeapi.client import Client

EXAMPLES = (
    Example("draguard status", "of the cluster that kubectl would ask"),
    Example("draguard status --context prod", "of another one"),
    Example("draguard status -o json | jq .gpus", "how many GPUs are healthy, sick, unknown"),
)


def main(arguments: Sequence[str]) -> int:
    """Return 0 when it was looked at, whatever was found; 1 when a part may not be read; else 2."""
    parser = teaching(
        "status",
        "Tell how many GPUs are healthy, sick or unknown, which agents and sources are silent,\n"
        "which rules stand, which incidents are open, and what the policy allows.",
        EXAMPLES,
        more="An unknown GPU is neither healthy nor sick: nobody can tell. Judged here, by the\n"
        "remediator's own code, on what the API server has now.",
    )
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    return asked("status", options, lambda client: _told(client, options))


def _told(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        reader = Reader(client, options.namespace, progress.read)
        objects = reader.objects(*WATCHED, spared=WATCHED)
        progress.says(f"judging the GPUs of {count(len(objects.reports), 'node', 'nodes')}")
        found = status(objects, find(client, options.namespace))
    give(found, options.output, lambda: sheet(found, objects.at))
    return WRONG if objects.missing - OPTIONAL else DONE
