"""A client of the cluster that flags select, its errors as messages, and the confirmation."""

import argparse
import gc
import logging
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import unquote, urlsplit

from draguard.command_table import ACTING
from draguard.connection.cluster_flags import overrides_of
from draguard.connection.errors import NotInstalledError, may_be_done, sentence
from draguard.connection.retrying_client import RetryingClient
from draguard.connection.which_cluster import endpoint_of
from draguard.exit_status import NO_ACCESS, PROBLEM
from draguard.phrases import shown
from draguard.program_name import program, spelled
from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Credentials, Endpoint, EndpointError

_SHARED: ContextVar[Client | None] = ContextVar("shared", default=None)
"""The client of a command that runs others."""


def run_with_client(command: str, options: argparse.Namespace, do: Callable[[Client], int]) -> int:
    """Call `do` with a client of the chosen cluster; returns the exit status.

    A refusal or no answer is printed to stderr, and ends with 2; a write without an answer ends
    with 1, because it may be done.
    """
    # The output has what the remediator's code logs. A raw log line could control the terminal.
    logging.basicConfig(handlers=[logging.NullHandler()])
    server = ""
    try:
        if (shared := _SHARED.get()) is not None:
            server = shared.endpoint.server
            return do(shared)
        endpoint = endpoint_of_flags(options)
        server = endpoint.server
        client = client_of(endpoint, options.request_timeout)
        try:
            with _garbage_collection_off():
                return do(client)
        finally:
            client.close()
    except (EndpointError, ApiError, NotInstalledError) as error:
        print_error(command, sentence(error, server, acts=command in ACTING))
        return PROBLEM if may_be_done(error) else NO_ACCESS


def endpoint_of_flags(options: argparse.Namespace) -> Endpoint:
    """Return the API server that the flags select. Raises EndpointError."""
    return endpoint_of(options.kubeconfig, options.context, given=overrides_of(options))


def secrets_of(endpoint: Endpoint) -> tuple[str, ...]:
    """Return what must not stand in any output: the caller's token, a proxy's password."""
    token = Credentials(endpoint).headers().get("authorization", "").removeprefix("Bearer ")
    password = urlsplit(endpoint.proxy or "").password or ""
    return tuple(filter(None, (token, password, unquote(password))))


@contextmanager
def sharing(client: Client) -> Generator[None]:
    """Have every command that runs inside use this client: one login is enough for all."""
    before = _SHARED.set(client)
    try:
        yield
    finally:
        _SHARED.reset(before)


def client_of(endpoint: Endpoint, timeout: float, kind: type[Client] = RetryingClient) -> Client:
    """Return a client that waits, at most so many seconds, for an answer. Raises EndpointError."""
    try:
        return kind(endpoint, timeout=timeout, agent="draguard-cli")
    except ValueError as error:  # of an address such as https://host:port
        raise EndpointError(f"{endpoint.server!r} is not a URL of a server: {error}") from error


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
