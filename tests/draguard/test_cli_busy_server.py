"""A server that is busy, forgets or hangs: waited for where it asks for it, else reported."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from draguard.cluster.listing import listed
from draguard.connection import retrying_client
from draguard.connection.retrying_client import LONGEST_WAIT, TRIES, RetryingClient
from kubeapi.client import ApiError, Gone
from kubeapi.endpoint import Endpoint
from tests.draguard.test_cli_errors import config, written
from tests.draguard.test_cli_terminal import environment

Script = list[tuple[int, str]]
"""Status and Retry-After of the next answers; after them everything is well."""
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("draguard", run_name="__main__", alter_sys=True)
"""
"""A shell that runs tests in the background has them, and their children, ignore Ctrl-C."""
PATIENT = ("--request-timeout", "10m")
PAGES = {"": (["a", "b"], "second"), "second": (["c"], "")}
THINGS = "/api/v1/things"


class _Thing(msgspec.Struct, frozen=True):
    metadata: dict[str, str]


class Moody:
    """Serves a list in two pages, and refuses as its script says."""

    def __init__(self) -> None:
        self.script: Script = []
        self.requested: list[str] = []
        self.only_from = ""
        """Refuse only from this page on."""

    def answer(self, method: str, url: str) -> tuple[int, str, object]:
        page = parse_qs(urlsplit(url).query).get("continue", [""])[0]
        self.requested.append(f"{method} {page}".strip())
        if self.script and page >= self.only_from:
            status, wait = self.script.pop(0)
            return status, wait, {"kind": "Status", "message": "no"}
        names, more = PAGES[page]
        items = [{"metadata": {"name": name}} for name in names]
        return 200, "", {"items": items, "metadata": {"continue": more}}


@pytest.fixture
def moody() -> Moody:
    return Moody()


@pytest.fixture
def client(moody: Moody) -> Iterator[RetryingClient]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status, wait, content = moody.answer(self.command, self.path)
            body = json.dumps(content).encode()
            self.send_response(status)
            if wait:
                self.send_header("retry-after", wait)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so named there
            """Say nothing."""

        do_GET = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815 - the base's names

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        one = RetryingClient(Endpoint(server=f"http://127.0.0.1:{server.server_port}"), timeout=60)
        yield one
        one.close()
        server.shutdown()


def names(client: RetryingClient) -> list[str]:
    found, _ = listed(client, THINGS, _Thing)
    return [thing.metadata["name"] for thing in found]


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_waited_for_as_long_as_it_asks(
    status: int, moody: Moody, client: RetryingClient
) -> None:
    moody.script = [(status, "1")]
    began = monotonic()

    assert names(client) == ["a", "b", "c"]
    assert monotonic() - began >= 1.0
    assert moody.requested == ["GET", "GET", "GET second"]


def test_a_write_that_was_turned_away_at_the_door_is_tried_again(
    moody: Moody, client: RetryingClient
) -> None:
    moody.script = [(429, "1"), (429, "1")]

    client.create(THINGS, {})

    assert moody.requested == ["POST", "POST", "POST"]


@pytest.mark.parametrize(
    ("status", "wait", "do"),
    [
        (503, "1", RetryingClient.create),  # it may have been stored
        (409, "1", RetryingClient.create),
        (500, "1", RetryingClient.get),
        (429, "", RetryingClient.get),  # nobody says for how long
        (429, str(int(LONGEST_WAIT) + 1), RetryingClient.get),
    ],
)
def test_everything_else_is_reported_at_once(
    status: int, wait: str, do: Callable[..., bytes], moody: Moody, client: RetryingClient
) -> None:
    moody.script = [(status, wait)]
    body: Sequence[object] = [{}] if do is RetryingClient.create else []

    with pytest.raises(ApiError) as error:
        do(client, THINGS, *body)

    assert (error.value.status, len(moody.requested)) == (status, 1)


def test_patience_ends(moody: Moody, client: RetryingClient) -> None:
    moody.script = [(429, "1")] * (TRIES + 3)

    with pytest.raises(ApiError, match="429"):
        client.get(THINGS)
    assert len(moody.requested) == TRIES


def test_whoever_waits_is_let_go_when_the_command_ends(
    moody: Moody, client: RetryingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying_client, "LONGEST_WAIT", 3600.0)
    moody.script = [(429, "3600")] * TRIES

    def ask() -> None:
        with suppress(ApiError):
            client.get(THINGS)

    waiting = threading.Thread(target=ask)
    waiting.start()
    while not moody.requested:
        threading.Event().wait(0.01)

    client.abort()
    waiting.join(60)

    assert not waiting.is_alive()


def test_a_list_that_the_server_forgot_half_way_is_read_anew(
    moody: Moody, client: RetryingClient
) -> None:
    moody.script, moody.only_from = [(410, "")], "second"

    assert names(client) == ["a", "b", "c"]
    assert moody.requested == ["GET", "GET second", "GET", "GET second"]


def test_a_list_that_is_forgotten_again_and_again_is_given_up(
    moody: Moody, client: RetryingClient
) -> None:
    moody.script, moody.only_from = [(410, "")] * 5, "second"

    with pytest.raises(Gone):
        names(client)


class Ended(NamedTuple):
    status: int
    out: str
    err: str


def interrupted(script: str, command: str, folder: Path) -> Ended:
    """Press Ctrl-C once a server that hangs has the request; gives how the command ended.

    It ends within a minute, though each of its answers may take ten.
    """
    with socket.create_server(("127.0.0.1", 0)) as unanswered:
        path = written(
            folder, "config", config(f"http://127.0.0.1:{unanswered.getsockname()[1]}", "t")
        )
        with subprocess.Popen(
            [sys.executable, "-c", script, *command.split(), *PATIENT, "--kubeconfig", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as process:
            try:
                unanswered.settimeout(60)
                taken, _ = unanswered.accept()
                with taken:
                    taken.recv(1)
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=60)
            finally:
                process.kill()
    return Ended(process.returncode, out, err)


@pytest.mark.parametrize("command", ["status", "cleanup --all --yes", "cordon node-a/0 --reason x"])
def test_ctrl_c_ends_a_command_that_waits_for_a_server_that_hangs(
    command: str, tmp_path: Path
) -> None:
    ended = interrupted(INTERRUPTIBLE, command, tmp_path)

    assert (ended.status, ended.out) == (130, "")
    assert ("part of it may be done" in ended.err) == (command != "status")
    assert "Traceback" not in ended.err


HOLDING = """
import threading, time
enter, main = threading.Condition.__enter__, threading.get_ident()
def slowly(lock):
    taken = enter(lock)
    if threading.get_ident() == main:
        time.sleep(0.05)
    return taken
threading.Condition.__enter__ = slowly
"""
"""Whoever presses Ctrl-C finds the main thread with a lock just taken, and not yet in its block."""


@pytest.mark.parametrize("command", ["status", "cleanup --all --yes"])
def test_ctrl_c_at_the_worst_moment_ends_a_command_too(command: str, tmp_path: Path) -> None:
    """A lock that is never given back would hold its threads, and with them the command."""
    ended = interrupted(f"{HOLDING}{INTERRUPTIBLE}", command, tmp_path)

    assert ended.status == 130
    assert "Traceback" not in ended.err
