"""`draguard release`: take our rules down, by hand, whatever the remediator thinks.

A running remediator takes it for a person's word: a rule that is gone is not made
again for a day, unless a new signal comes. To keep it away for longer lower the
mode, or answer `draguard.dev/ignore` on the incident.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from draguard.release import Found, Outcome, Releaser
from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Endpoint, EndpointError, in_cluster
from remediator.objects.taints import RawRule

LEFT, UNREACHABLE = 1, 2
_STANDARD = Path(".kube") / "config"
"""In the home folder."""


def main(arguments: Sequence[str]) -> int:
    """Return 0 when all of it is gone, 1 when something is left, 2 when nothing could be asked."""
    options = _options(arguments)
    try:
        client = Client(_endpoint(options.kubeconfig))
    except EndpointError as error:
        print(f"draguard release: {error}", file=sys.stderr)
        return UNREACHABLE
    try:
        return _release(Releaser(client), options)
    except ApiError as error:
        print(f"draguard release: {error.message}; nothing more was done", file=sys.stderr)
        return UNREACHABLE
    finally:
        client.close()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="draguard release",
        description="Remove Draguard's DeviceTaintRules, of some incidents or of all.",
        epilog="A running remediator respects it for a day, or until a new signal comes; lower "
        "the mode, or annotate the incident with draguard.dev/ignore, to keep rules away for "
        "longer. DeviceIncidents stay, as records.",
    )
    parser.add_argument("incidents", nargs="*", metavar="INCIDENT", help="its rules only")
    parser.add_argument(
        "--all", action="store_true", help="every rule of ours, and our conditions of Nodes"
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, remove nothing")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    found = parser.parse_args(arguments)
    if bool(found.incidents) == found.all:
        parser.error("name incidents, or give --all")
    return found


def _endpoint(kubeconfig: Path | None) -> Endpoint:
    """Look where kubectl looks, and last at the pod's own service account."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = kubeconfig or (Path(named) if named else Path.home() / _STANDARD)
    if kubeconfig is None and not named and not path.exists():
        return in_cluster()
    from remediator.hands.kubeconfig import endpoint

    return endpoint(path)


def _release(releaser: Releaser, options: argparse.Namespace) -> int:
    wanted = None if options.all else options.incidents
    rules = list(releaser.rules(wanted))
    nodes = list(releaser.nodes()) if options.all else []
    if options.dry_run:
        outcomes = [Outcome(found) for found in (*(found for found, _ in rules), *nodes)]
    else:
        outcomes = _removed(releaser, rules, nodes)
        left = [found for found, _ in releaser.rules(wanted)]
        outcomes = _looked_at(outcomes, left + (list(releaser.nodes()) if options.all else []))
    _say(outcomes, options)
    return LEFT if any(one.error for one in outcomes) else 0


def _removed(
    releaser: Releaser, rules: list[tuple[Found, RawRule]], nodes: list[Found]
) -> list[Outcome]:
    gone = [releaser.remove_rule(found, raw) for found, raw in rules]
    return gone + [releaser.remove_conditions(found) for found in nodes]


def _looked_at(outcomes: list[Outcome], left: list[Found]) -> list[Outcome]:
    """Return what became of each thing, seen with our own eyes: asked for is not yet gone."""
    why = (
        "it still stands: a finalizer keeps it, or a remediator that enforces has made it again; "
        "lower its mode first"
    )
    standing = {(one.kind, one.name): Outcome(one, why) for one in left}
    told = [
        one if one.error else standing.pop((one.found.kind, one.found.name), one)
        for one in outcomes
    ]
    failed = {(one.found.kind, one.found.name) for one in told if one.error}
    return told + [one for key, one in standing.items() if key not in failed]


def _say(outcomes: list[Outcome], options: argparse.Namespace) -> None:
    if options.output == "json":
        print(msgspec.json.encode(outcomes).decode())
        return
    done = "would be removed" if options.dry_run else "removed"
    for one in outcomes:
        whose = f" (incident {one.found.incident})" if one.found.incident else ""
        end = f"NOT removed: {one.error}" if one.error else done
        print(f"{one.found.kind} {one.found.name}: {one.found.what}{whose}: {end}")
    named = {one.found.incident for one in outcomes}
    for incident in (one for one in options.incidents if one not in named):
        print(f"incident {incident}: no rule of ours carries its name")
    if options.all and not outcomes:
        print("nothing of Draguard's stands in this cluster")
