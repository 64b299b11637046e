"""`draguard doctor`: does this cluster, or this node, have what is needed; each line its remedy."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from draguard.cluster.fleet_status import status
from draguard.cluster.installation import agents, find
from draguard.cluster.reading import WATCHED, Reader
from draguard.connection.errors import NotInstalledError, sentence
from draguard.connection.progress import Progress
from draguard.connection.session import add_cluster_flags, asked
from draguard.doctor import api
from draguard.doctor.admission import admission
from draguard.doctor.check import Check, unknown
from draguard.doctor.rights import rights
from draguard.doctor.running import exporter, running
from draguard.exit_status import DONE, WRONG
from draguard.render.blocks import Block, Cell, Lines, Table, Text, Tone
from draguard.render.formats import add_output_flag, give
from draguard.render.help_text import Example, teaching
from kubeapi.client import UNREADABLE, ApiError, Client
from remediator.controller.emergency import FORBIDDEN

EXAMPLES = (
    Example("draguard doctor", "the cluster of the current kubectl context"),
    Example("draguard doctor -o json", "for scripts; exits with 1 if a check is bad"),
    Example("draguard doctor --node-local", "this node; run it in the sensor's container"),
    Example("draguard doctor --node-local -- --dcgm=off", "with exporter flags"),
)
_TONES: dict[str, Tone] = {"ok": "good", "warn": "warn", "bad": "bad", "unknown": "warn"}


def main(arguments: Sequence[str]) -> int:
    """Return 0 when nothing is bad; 1 when something is; 2 when the cluster could not be asked."""
    parser = teaching(
        "doctor",
        "Check whether the cluster meets Draguard's requirements: API versions, feature gates,\n"
        "CRDs, permissions, agents, leader, policy, admission. Each line that is not ok says what\n"
        "to do.",
        EXAMPLES,
        more="States: ok; warn: a feature is limited; bad: a feature does not work; unknown: it\n"
        "could not be checked. Nothing is changed.",
    )
    parser.add_argument("--node-local", action="store_true", help="check this node instead")
    parser.add_argument(
        "flags", nargs="*", metavar="-- EXPORTER FLAGS", help="exporter flags, for --node-local"
    )
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    if options.flags and not options.node_local:
        parser.error("exporter flags require --node-local")
    if options.node_local:
        from draguard.doctor.node_local import node_local

        return _tell(node_local(options.flags), options)
    return asked("doctor", options, lambda client: _look(client, options))


def _look(client: Client, options: argparse.Namespace) -> int:
    _answers(client)
    with Progress() as progress:
        found = tuple(examined(client, options.namespace, progress))
    return _tell(found, options)


def _answers(client: Client) -> None:
    """Raise ApiError where no API server answers: that is no finding about a cluster."""
    try:
        msgspec.json.decode(client.get("/version"), type=dict[str, object])
    except UNREADABLE as error:
        raise ApiError(f"GET /version: this is not an API server ({error})") from error


def examined(client: Client, namespace: str, progress: Progress) -> Iterator[Check]:
    """Look at everything; what cannot be seen costs its own line only."""
    looks: tuple[tuple[str, Callable[[], Iterable[Check]]], ...] = (
        ("API versions", lambda: api.versions(client)),
        ("feature gates", lambda: api.gates(client)),
        ("CRDs", lambda: api.objects(client)),
        ("permissions", lambda: rights(client, namespace)),
        ("exporter", lambda: (exporter(agents(client, namespace), namespace),)),
        ("cluster state", lambda: _running(client, namespace, progress)),
        ("admission", lambda: admission(client)),
    )
    for about, look in looks:
        progress.says(f"checking {about}")
        try:
            yield from look()
        except (ApiError, NotInstalledError) as error:
            yield unknown(about, sentence(error, client.endpoint.server), _remedy(error))


def _remedy(error: Exception) -> str:
    """Say what makes visible what could not be looked at."""
    if isinstance(error, NotInstalledError):
        return "install Draguard (docs/install.md); the lines above show what is missing"
    if isinstance(error, ApiError) and error.status == FORBIDDEN:
        return "ask for the permissions listed in docs/cli.md, Rights"
    return "run the command again; see docs/troubleshooting.md"


def _running(client: Client, namespace: str, progress: Progress) -> Iterator[Check]:
    objects = Reader(client, namespace, progress.read).objects(*WATCHED, spared=WATCHED)
    installed = find(client, namespace)
    yield from running(objects, installed, status(objects, installed), namespace)


def _tell(found: tuple[Check, ...], options: argparse.Namespace) -> int:
    give(found, options.output, lambda: _sheet(found))
    return WRONG if any(one.state == "bad" for one in found) else DONE


def _sheet(found: tuple[Check, ...]) -> Iterator[Block]:
    yield Table(("STATE", "FINDING AND REMEDY"), tuple(_rows(found)))
    counts = {state: sum(one.state == state for one in found) for state in _TONES}
    yield Lines((", ".join(f"{count} {state}" for state, count in counts.items()),))


def _rows(found: tuple[Check, ...]) -> Iterator[tuple[Text, ...]]:
    for one in found:
        yield Cell(one.state, _TONES[one.state]), f"{one.about}: {one.says}"
        if one.remedy:
            yield "", Cell(f"-> {one.remedy}", "strong")
