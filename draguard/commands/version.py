"""`draguard version`: of this program, the remediator, the agents and the cluster."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import metadata

import msgspec

from draguard.cluster.leader import leader_of
from draguard.cluster.reading import Reader
from draguard.connection.cluster_flags import add_cluster_flags
from draguard.connection.session import run_with_client
from draguard.exit_status import DONE, PROBLEM
from draguard.phrases import count
from draguard.render.blocks import Block, Cell, Facts, Text
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from kubeapi.client import UNREADABLE, ApiError, Client

EXAMPLES = (
    Example("draguard version", "client, remediator, agents, cluster"),
    Example("draguard version --client", "this program alone, without a cluster"),
    Example("draguard version -o jsonpath={.remediator}", "for scripts"),
)
KIND = "Version"
UNSEEN = Cell("unknown: you may not read it", "warn")


class Versions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """None stands for what may not be read."""

    client: str
    remediator: str | None = None
    """Of the leader; "" where none leads, or one that does not publish it."""
    leader: str | None = None
    agents: dict[str, int] | None = None
    """Number of nodes by version."""
    kubernetes: str | None = None


class _Server(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "version",
        "Show the versions of this program, of the remediator that leads, of the agents on the\n"
        "nodes, and of the API server.",
        EXAMPLES,
    )
    taught.add_argument("--client", action="store_true", help="only this program; no cluster")
    add_output_flag(taught)
    add_cluster_flags(taught)
    taught.usage = f"{taught.prog} [FLAGS]"
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0; 1 if a part may not be read; 2 without access."""
    options = parser().parse_args(arguments)
    mine = Versions(client=metadata.version("draguard"))
    if options.client:
        print_result({"client": mine.client}, options.output, lambda: _page(mine), KIND)
        return DONE
    return run_with_client("version", options, lambda client: _show(client, mine, options))


def _show(client: Client, mine: Versions, options: argparse.Namespace) -> int:
    desired = ("any_reports", "leases")
    server = _server(client)
    try:
        objects = Reader(client, options.namespace).objects(*desired, spared=desired)
    except ApiError as error:
        if error.status is None or error.status == 401:
            raise
        found = msgspec.structs.replace(mine, kubernetes=server)
    else:
        leader = leader_of(objects.leases, objects.at)
        agents = Counter(report.status.agent_version for report in objects.reports)
        seen = {name for name in desired if name not in objects.missing}
        found = msgspec.structs.replace(
            mine,
            remediator=leader.version if "leases" in seen else None,
            leader=leader.holder if "leases" in seen else None,
            agents=dict(sorted(agents.items())) if "any_reports" in seen else None,
            kubernetes=server,
        )
    print_result(found, options.output, lambda: _page(found), KIND)
    return PROBLEM if None in {found.remediator, found.kubernetes} or found.agents is None else DONE


def _server(client: Client) -> str | None:
    try:
        return msgspec.json.decode(client.get("/version"), type=_Server).git_version
    except UNREADABLE as error:
        raise ApiError(f"GET /version: this is not an API server ({error})") from error
    except ApiError as error:
        if error.status != 403:
            raise
        return None


def _page(found: Versions) -> Iterator[Block]:
    yield Facts(tuple(_facts(found)))


def _facts(found: Versions) -> Iterator[tuple[str, Text]]:
    yield "client", found.client
    if found == Versions(client=found.client):
        return
    leader = f" (leader {found.leader})" if found.leader else ""
    unpublished = "unknown: its Lease has no version" if found.leader else "none leads"
    remediator = f"{found.remediator or unpublished}{leader}"
    yield "remediator", UNSEEN if found.remediator is None else remediator
    agents = (
        f"{version or 'unknown'} on {count(number, 'node', 'nodes')}"
        for version, number in (found.agents or {}).items()
    )
    yield "agents", UNSEEN if found.agents is None else ", ".join(agents) or "none reports"
    yield "cluster", UNSEEN if found.kubernetes is None else f"Kubernetes {found.kubernetes}"
