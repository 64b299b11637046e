"""One command's talk with one cluster: its flags, its client, and every failure as a sentence."""

import argparse
import gc
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from draguard.connection.errors import NotInstalledError, may_be_done, sentence
from draguard.connection.kubeconfig import endpoint_of
from draguard.connection.retrying_client import Patient
from draguard.exit_status import UNASKED, WRONG
from draguard.safe import shown
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


def asked(command: str, options: argparse.Namespace, do: Callable[[Client], int]) -> int:
    """Do something with a client of the chosen cluster; returns the exit status.

    What nobody answers or allows is said on stderr, and ends with 2; a write that nobody
    answers with 1, as it may be done.
    """
    # What the remediator's code logs on the way is told in the answer; raw it would be obeyed.
    logging.basicConfig(handlers=[logging.NullHandler()])
    server = ""
    try:
        endpoint = endpoint_of(options.kubeconfig, options.context)
        server = endpoint.server
        client = client_of(endpoint, _TIMEOUT)
        try:
            with _nothing_collected():
                return do(client)
        finally:
            client.close()
    except (EndpointError, ApiError, NotInstalledError) as error:
        complain(command, sentence(error, server))
        return WRONG if may_be_done(error) else UNASKED


def client_of(endpoint: Endpoint, timeout: float, kind: type[Client] = Patient) -> Client:
    """Return a client that waits, at most so many seconds, for an answer. Raises EndpointError."""
    try:
        return kind(endpoint, timeout=timeout, agent="draguard-cli")
    except ValueError as error:  # of an address such as https://host:port
        raise EndpointError(f"{endpoint.server!r} is no URL of a server: {error}") from error


@contextmanager
def _nothing_collected() -> Generator[None]:
    """Stop Python's collector of cycles for the length of a command.

    All that is read of a cluster is kept until the end. To walk through it again and again is a
    third of the CPU at 80,000 GPUs.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def complain(command: str, why: str) -> None:
    print(f"draguard {command}: {shown(why)}", file=sys.stderr)
