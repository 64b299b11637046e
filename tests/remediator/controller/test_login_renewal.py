"""Logins that end are renewed beside the requests, which go on with the last token."""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep

import pytest
import trustme

from kubeapi import clock
from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Credentials, EndpointError
from remediator.controller.kubeconfig import endpoint
from remediator.controller.login_renewal import Renewal, Token
from tests.remediator.controller.kubeconfigs import Entry, Request, tls_server, written
from tests.remediator.controller.test_login_plugins import API, answer, plugin

PAUSE = 0.05
PATIENCE = 60.0
LOGGER = "remediator.controller.login_renewal"


def ending(minutes: float) -> str:
    return f"{clock.now() + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


def answers(folder: Path, token: str, **more: str) -> None:
    """Change at once what the plugin of `counting` prints."""
    fresh = folder / "fresh"
    fresh.write_text(answer(API, token=token, **more), encoding="utf-8")
    fresh.replace(folder / "answer")


def counting(folder: Path) -> Entry:
    return plugin(folder, f"echo run >>{folder}/runs; cat {folder}/answer")


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text(encoding="utf-8").splitlines())


def bearer(credentials: Credentials) -> str:
    return credentials.headers()["authorization"].removeprefix("Bearer ")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline
        sleep(0.01)


def test_a_token_that_ends_is_renewed_in_time(tmp_path: Path) -> None:
    """A remediator runs for months, a token lasts an hour."""
    answers(tmp_path, "first", expirationTimestamp=ending(0))
    credentials = Credentials(endpoint([written(tmp_path, counting(tmp_path))], pause=PAUSE))
    answers(tmp_path, "second", expirationTimestamp=ending(60))

    wait_for(lambda: bearer(credentials) == "second")


def test_no_request_waits_for_a_login(tmp_path: Path) -> None:
    """A leader that waits for one loses its Lease."""
    answers(tmp_path, "first", expirationTimestamp=ending(0))
    file = written(tmp_path, counting(tmp_path))
    found = endpoint([file], pause=PAUSE)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").replace(tmp_path / "answer")
    credentials = Credentials(found)
    wait_for(lambda: bearer(credentials) == "first" and runs(tmp_path) == 2)

    with (tmp_path / "answer").open("w", encoding="utf-8") as pipe:
        assert bearer(credentials) == "first"  # the plugin reads, and has no answer yet
        pipe.write(answer(token="second"))
    wait_for(lambda: bearer(credentials) == "second")


@pytest.mark.parametrize(
    "reply", ["no JSON", answer(token="", expirationTimestamp="2100-01-01T00:00:00Z")]
)
def test_the_last_token_serves_while_the_plugin_fails_and_the_log_says_why(
    reply: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers(tmp_path, "first", expirationTimestamp=ending(0))
    with caplog.at_level(logging.WARNING):
        credentials = Credentials(endpoint([written(tmp_path, counting(tmp_path))], pause=PAUSE))
        (tmp_path / "answer").write_text(reply, encoding="utf-8")

        def logged() -> bool:
            assert bearer(credentials) == "first"
            return LOGGER in [record.name for record in caplog.records]

        wait_for(logged)

    assert "log-in' failed: its answer is no ExecCredential" in caplog.text
    answers(tmp_path, "second")
    wait_for(lambda: bearer(credentials) == "second")


def test_pauses_between_failures_grow() -> None:
    began: list[float] = []

    def fail() -> Token:
        began.append(monotonic())
        raise EndpointError("no")

    renewal = Renewal(Token("t", clock.now()), fail, PAUSE)
    wait_for(lambda: renewal.token() == "t" and len(began) == 4)

    gaps = [later - earlier for earlier, later in pairwise(began)]
    assert all(gap >= PAUSE * 2 ** (n + 1) for n, gap in enumerate(gaps))


@pytest.mark.parametrize("ends", [None, timedelta(hours=1), timedelta(days=2_000_000)])
def test_a_token_that_is_good_for_long_is_renewed_only_when_the_server_refuses_it(
    ends: timedelta | None,
) -> None:
    logins: list[str] = []

    def log_in() -> Token:
        logins.append("second")
        return Token("second", None)

    first = Token("first", None if ends is None else clock.now() + ends)
    renewal = Renewal(first, log_in, PAUSE)
    renewal.on_refused("an older one")
    assert (renewal.token(), logins) == ("first", [])
    renewal.on_refused("first")
    wait_for(lambda: renewal.token() == "second")
    renewal.on_refused("first")

    assert logins == ["second"]


def test_a_token_that_the_server_refuses_is_replaced(tmp_path: Path) -> None:
    """It was revoked, or the machine's clock is behind."""
    authority, valid = trustme.CA(), {"first"}
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    def respond(request: Request) -> tuple[int, Entry]:
        token = (request.headers["authorization"] or "").removeprefix("Bearer ")
        return (200 if token in valid else 401), {}

    answers(tmp_path, "first")
    with tls_server(authority, respond) as url:
        at = {"server": url, "certificate-authority": "ca.pem"}
        client = Client(endpoint([written(tmp_path, counting(tmp_path), at)], pause=PAUSE))
        client.get("/x")
        valid.clear()
        valid.add("second")
        answers(tmp_path, "second")

        def accepted() -> bool:
            with suppress(ApiError):
                return client.get("/x") == b"{}"
            return False

        wait_for(accepted)
        client.close()

    assert runs(tmp_path) == 2
