"""A client of the cluster that flags select, its errors as messages, and the confirmation."""

import argparse
import gc
import logging
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from draguard.called import program, spelled
from draguard.command_table import ACTING
from draguard.connection.errors import NotInstalledError, may_be_done, sentence
from draguard.connection.kubeconfig import endpoint_of
from draguard.connection.retrying_client import RetryingClient
from draguard.exit_status import NO_ACCESS, PROBLEM
from draguard.phrases import shown
from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Endpoint, EndpointError

NAMESPACE = "draguard-system"
_TIMEOUT = 30.0
"""Seconds for one answer: a page of 500 objects on a slow line."""


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which cluster, named as kubectl's."""
    where = parser.add_argument_group("which cluster")
    where.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: $KUBECONFIG, then ~/.kube/config"
    )
    where.add_argument("--context", default="", metavar="NAME", help="default: the current context")
    where.add_argument(
        "-n",
        "--namespace",
        default=NAMESPACE,
        metavar="NAME",
        help=f"namespace of Draguard [{NAMESPACE}]",
    )


def run_with_client(command: str, options: argparse.Namespace, do: Callable[[Client], int]) -> int:
    """Call `do` with a client of the chosen cluster; returns the exit status.

    A refusal or no answer is printed to stderr, and ends with 2; a write without an answer ends
    with 1, because it may be done.
    """
    # The output has what the remediator's code logs. A raw log line could control the terminal.
    logging.basicConfig(handlers=[logging.NullHandler()])
    server = ""
    try:
        endpoint = endpoint_of(options.kubeconfig, options.context)
        server = endpoint.server
        client = client_of(endpoint, _TIMEOUT)
        try:
            with _garbage_collection_off():
                return do(client)
        finally:
            client.close()
    except (EndpointError, ApiError, NotInstalledError) as error:
        print_error(command, sentence(error, server, acts=command in ACTING))
        return PROBLEM if may_be_done(error) else NO_ACCESS


def client_of(endpoint: Endpoint, timeout: float, kind: type[Client] = RetryingClient) -> Client:
    """Return a client that waits, at most so many seconds, for an answer. Raises EndpointError."""
    try:
        return kind(endpoint, timeout=timeout, agent="draguard-cli")
    except ValueError as error:  # of an address such as https://host:port
        raise EndpointError(f"{endpoint.server!r} is no URL of a server: {error}") from error


@contextmanager
def _garbage_collection_off() -> Generator[None]:
    """Stop Python's collector of cycles for the length of a command.

    Everything that is read of a cluster is kept until the end. At 80,000 GPUs, the repeated passes
    of the collector take a third of the CPU time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def print_error(command: str, why: str) -> None:
    print(f"{program()} {command}: {spelled(shown(why))}", file=sys.stderr)


def confirmed(command: str, facts: Iterable[str], question: str, *, yes: bool) -> bool:
    """Show the facts, and return whether the user agrees; `yes`: by a flag.

    Without a terminal there is no agreement.
    """
    for fact in facts:
        print(spelled(shown(fact)), file=sys.stderr)
    if yes:
        return True
    if not sys.stdin.isatty():
        print_error(
            command, "nothing was done: no terminal for confirmation; add --yes to continue"
        )
        return False
    print(f"{question} Type yes: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() == "yes":
        return True
    print_error(command, "nothing was done")
    return False
