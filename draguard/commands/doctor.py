"""`draguard doctor`: whether this cluster, or this node, has what is needed, with remedies."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import msgspec

from draguard.cluster.fleet_status import fleet_status
from draguard.cluster.installation import find_agents, find_installation
from draguard.cluster.listing import listed
from draguard.cluster.objects import Objects
from draguard.cluster.reading import WATCHED, Reader
from draguard.connection.cluster_flags import add_cluster_flags
from draguard.connection.errors import NotInstalledError, sentence
from draguard.connection.progress import Progress
from draguard.connection.session import run_with_client
from draguard.doctor import api
from draguard.doctor.admission import admission
from draguard.doctor.check import Check, unknown
from draguard.doctor.explainer import explainer
from draguard.doctor.nodes import Node, nodes
from draguard.doctor.pods import pods
from draguard.doctor.rights import rights
from draguard.doctor.running import exporter, running
from draguard.doctor.stack import stack
from draguard.exit_status import DONE, PROBLEM
from draguard.render.blocks import Block, Cell, Lines, Table, Text, Tone
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from kubeapi.client import UNREADABLE, ApiError, Client
from kubeapi.resources import NODES
from remediator.controller.agents import AGENT_LEASE_PREFIX
from remediator.controller.emergency import FORBIDDEN

EXAMPLES = (
    Example("draguard doctor", "the cluster of the current kubectl context"),
    Example("draguard doctor -o json", "for scripts; exits with 1 if a check is bad"),
    Example("draguard doctor --node-local", "this node; run it in the sensor's container"),
    Example("draguard doctor --node-local -- --dcgm=off", "with exporter flags"),
)
_TONES: dict[str, Tone] = {"ok": "good", "warn": "warn", "bad": "bad", "unknown": "warn"}


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "doctor",
        "Check whether the cluster meets Draguard's requirements: API versions, feature gates,\n"
        "CRDs, permissions, agents, leader, policy, admission. Each line that is not ok says what\n"
        "to do.",
        EXAMPLES,
        more="States: ok; warn: a feature is limited; bad: a feature does not work; unknown: it\n"
        "could not be checked. Nothing is changed.",
    )
    taught.add_argument("--node-local", action="store_true", help="check this node instead")
    taught.add_argument(
        "flags", nargs="*", metavar="-- EXPORTER FLAGS", help="exporter flags, for --node-local"
    )
    # For `draguard bundle --pseudonyms`: the end of a log may name users' pods.
    taught.add_argument("--without-logs", action="store_true", help=argparse.SUPPRESS)
    add_output_flag(taught)
    add_cluster_flags(taught)
    taught.usage = f"{taught.prog} [FLAGS] [--node-local [-- EXPORTER FLAGS]]"
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0 if nothing is bad; 1 if something is; 2 without access."""
    options = parser().parse_args(arguments)
    if options.flags and not options.node_local:
        parser().error("exporter flags require --node-local")
    if options.node_local:
        from draguard.doctor.node_local import node_local

        return _show(node_local(options.flags), options)
    return run_with_client("doctor", options, lambda client: _look(client, options))


def _look(client: Client, options: argparse.Namespace) -> int:
    try:
        msgspec.json.decode(client.get("/version"), type=dict[str, object])
    except UNREADABLE as error:
        raise ApiError(f"GET /version: this is not an API server ({error})") from error
    with Progress() as progress:
        found = tuple(checks(client, options.namespace, progress, logs=not options.without_logs))
    return _show(found, options)


def checks(
    client: Client, namespace: str, progress: Progress, *, logs: bool = True
) -> Iterator[Check]:
    """Run all checks; if one cannot read something, only its own line is `unknown`.

    Without `logs`, no line has the end of a container's log.
    """

    def state() -> Iterable[Check]:
        objects = Reader(client, namespace, progress.read).objects(*WATCHED, spared=WATCHED)
        installed = find_installation(client, namespace)
        return running(objects, installed, fleet_status(objects, installed), namespace)

    def agents() -> Iterable[Check]:
        found = find_agents(client, namespace)
        leases = () if found else Reader(client, namespace).objects("leases").leases
        alive = sum(lease.metadata.name.startswith(AGENT_LEASE_PREFIX) for lease in leases)
        return exporter(found, namespace, alive)

    @cache
    def read_nodes() -> list[Node]:
        return listed(client, NODES, Node)[0]

    @cache
    def with_gpus() -> tuple[Objects, frozenset[str]]:
        """Return reports, and the names of nodes of which a DRA driver publishes GPUs."""
        objects = Reader(client, namespace).objects("any_reports", "slices", spared=WATCHED)
        return objects, frozenset(part.node for part in objects.gpus() if part.node)

    def on_nodes() -> Iterable[Check]:
        objects, publishing = with_gpus()
        return nodes(read_nodes, objects.reports, publishing)

    looks: tuple[tuple[str, Callable[[], Iterable[Check]]], ...] = (
        ("API versions", lambda: api.versions(client)),
        ("feature gates", lambda: api.gates(client)),
        ("CRDs", lambda: api.objects(client)),
        ("permissions", lambda: rights(client, namespace)),
        ("exporter", agents),
        ("explainer", lambda: explainer(client, namespace)),
        ("cluster state", state),
        ("nodes", on_nodes),
        ("stack", lambda: stack(client, namespace, read_nodes(), with_gpus()[1])),
        ("pods", lambda: pods(client, namespace, logs=logs)),
        ("admission", lambda: admission(client)),
    )
    for about, look in looks:
        progress.says(f"checking {about}")
        try:
            yield from look()
        except NotInstalledError as error:
            remedy = "install Draguard (docs/install.md); the lines above show what is missing"
            yield unknown(about, str(error), remedy)
        except ApiError as error:
            remedy = (
                "ask for the permissions listed in docs/cli.md, Rights"
                if error.status == FORBIDDEN
                else "run the command again; see docs/troubleshooting.md"
            )
            yield unknown(about, sentence(error, client.endpoint.server), remedy)


def _show(found: tuple[Check, ...], options: argparse.Namespace) -> int:
    print_result(found, options.output, lambda: _page(found), "DoctorReport")
    return PROBLEM if any(check.state == "bad" for check in found) else DONE


def _page(found: tuple[Check, ...]) -> Iterator[Block]:
    rows: list[tuple[Text, ...]] = []
    for check in found:
        rows.append((Cell(check.state, _TONES[check.state]), f"{check.about}: {check.says}"))
        if check.remedy:
            rows.append(("", Cell(f"-> {check.remedy}", "strong")))
    yield Table(("STATE", "FINDING AND REMEDY"), tuple(rows))
    counts = {state: sum(check.state == state for check in found) for state in _TONES}
    yield Lines((", ".join(f"{count} {state}" for state, count in counts.items()),))
