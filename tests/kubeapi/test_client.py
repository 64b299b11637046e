"""The client against servers that misbehave: every failure is an ApiError with a sentence."""

import socket
import threading
import time
from pathlib import Path

import pytest

from kubeapi.client import LONGEST_RETRY_AFTER, ApiError, Client, Conflict, Gone, NotFound
from kubeapi.discovery import served
from kubeapi.endpoint import Endpoint, EndpointError, in_cluster
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Behaviour, Hostile

_ENDS_BY_TIME: dict[Behaviour, float] = {hostile.hang: 0.4, hostile.drip: 8.0}
"""Seconds of patience, short where nothing else ends a request."""


@pytest.mark.parametrize(
    ("behaviour", "status", "kind", "stated"),
    [
        (hostile.refusal(500, "InternalError", "etcd is slow"), 500, ApiError, "etcd is slow"),
        (hostile.refusal(403, "Forbidden", "may not"), 403, ApiError, "403 Forbidden: may not"),
        (hostile.refusal(404, "NotFound"), 404, NotFound, "404"),
        (hostile.refusal(409, "AlreadyExists"), 409, Conflict, "AlreadyExists"),
        (hostile.refusal(410, "Expired"), 410, Gone, "410"),
        (hostile.body(b"<html>oh</html>", 502), 502, ApiError, "502: <html>oh</html>"),
        (hostile.body(b"", 301, "location: /elsewhere\r\n"), 301, ApiError, "301"),
        (hostile.hang, None, ApiError, "no answer in time"),
        (hostile.drop, None, ApiError, "connection lost"),
        (hostile.garbage, None, ApiError, "connection lost"),
        (hostile.cut_off_chunk, None, ApiError, "connection lost"),
        (hostile.drip, None, ApiError, "too slowly"),
    ],
)
def test_each_failure_becomes_the_error_that_says_what_happened(
    behaviour: Behaviour, status: int | None, kind: type[ApiError], stated: str
) -> None:
    with Hostile([behaviour]) as server:
        client = Client(server.endpoint, timeout=_ENDS_BY_TIME.get(behaviour, 60.0))
        began = time.monotonic()
        with pytest.raises(ApiError) as caught:
            client.get("/api/v1/pods")
        client.close()
        assert time.monotonic() - began < 30.0
        assert type(caught.value) is kind
        assert caught.value.status == status
        assert caught.value.message.startswith("GET /api/v1/pods: ")
        assert stated in caught.value.message


def test_a_server_that_is_not_there_is_reported_with_its_address() -> None:
    client = Client(Endpoint(server="http://127.0.0.1:9"), timeout=60.0)
    with pytest.raises(ApiError, match=r"127\.0\.0\.1:9: connection refused or unreachable"):
        client.get("/version")
    client.close()


def test_a_connection_that_is_cut_in_the_handshake_is_lost_and_no_fault_of_the_ca_file() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def cut() -> None:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.close()

        thread = threading.Thread(target=cut)
        thread.start()
        server = f"https://127.0.0.1:{listener.getsockname()[1]}"
        client = Client(Endpoint(server=server), timeout=60.0)
        with pytest.raises(ApiError, match="connection lost during the TLS handshake"):
            client.get("/version")
        client.close()
        thread.join()


def test_the_wait_that_a_server_asks_for_is_in_the_error() -> None:
    with Hostile([hostile.refusal(429, "TooManyRequests", headers="retry-after: 7\r\n")]) as server:
        client = Client(server.endpoint)
        with pytest.raises(ApiError) as caught:
            client.get("/version")
        client.close()
        assert caught.value.retry_after == 7.0


@pytest.mark.parametrize("requested", ["86400", "9" * 400])
def test_no_server_makes_us_wait_for_a_day(requested: str) -> None:
    with Hostile([hostile.refusal(503, headers=f"retry-after: {requested}\r\n")]) as server:
        client = Client(server.endpoint)
        with pytest.raises(ApiError) as caught:
            client.get("/version")
        client.close()
        assert caught.value.retry_after == LONGEST_RETRY_AFTER == 60.0


def test_nothing_is_retried_behind_the_callers_back() -> None:
    with Hostile([hostile.drop]) as server:
        client = Client(server.endpoint)
        with pytest.raises(ApiError):
            client.create("/api/v1/namespaces/default/configmaps", {})
        client.close()
        assert len(server.requests) == 1


def test_a_renewed_token_file_is_used_from_the_next_request_on(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    with Hostile([hostile.body(b"{}")]) as server:
        client = Client(Endpoint(server=server.endpoint.server, token_file=str(token)))
        client.get("/version")
        fresh = tmp_path / "fresh"
        fresh.write_text("renewed")
        fresh.rename(token)
        client.get("/version")
        token.write_text("")  # as who writes it in place does first
        client.get("/version")
        token.unlink()
        client.get("/version")
        client.close()
    sent = [line for request in server.requests for line in request.split("\r\n") if "Bear" in line]
    assert [line.split("Bearer ")[1] for line in sent] == ["old", *["renewed"] * 3]


def test_a_token_file_that_was_never_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    client = Client(Endpoint(server="http://127.0.0.1:9", token_file=str(tmp_path / "token")))
    with pytest.raises(ApiError, match=r"cannot read the token file .*token"):
        client.get("/version")
    client.close()


@pytest.mark.parametrize(
    ("endpoint", "stated"),
    [
        (Endpoint(server="127.0.0.1:6443"), "is not a URL of an API server"),
        (Endpoint(server="https://127.0.0.1", ca_file="/none/ca.crt"), "/none/ca.crt"),
    ],
)
def test_an_unusable_endpoint_is_refused_at_once(endpoint: Endpoint, stated: str) -> None:
    with pytest.raises(EndpointError, match=stated):
        Client(endpoint)


def test_an_endpoint_never_shows_its_token() -> None:
    assert "hush" not in repr(Endpoint(server="https://a", token="hush"))


def test_a_pod_finds_its_api_server_by_the_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("c")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = in_cluster(environ, tmp_path)
    assert found.server == "https://[fd00::1]:443"
    assert found.token_file == str(tmp_path / "token")


def test_outside_of_a_pod_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="name the API server with --kube-server"):
        in_cluster({}, tmp_path)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(EndpointError, match="automountServiceAccountToken"):
        in_cluster(environ, tmp_path)


@pytest.mark.parametrize("behaviour", [hostile.hang, hostile.drip])
def test_a_request_under_way_ends_when_another_thread_aborts(behaviour: Behaviour) -> None:
    with Hostile([behaviour]) as server:
        client = Client(server.endpoint, timeout=300.0)
        failed = threading.Event()

        def ask() -> None:
            with pytest.raises(ApiError):
                client.get("/version")
            failed.set()

        thread = threading.Thread(target=ask)
        thread.start()
        while not server.requests:
            time.sleep(0.01)
        client.abort()
        assert failed.wait(60.0)
        thread.join()
        client.close()


def test_a_request_that_is_connecting_ends_too_when_another_thread_aborts() -> None:
    """The kernel completes the connection after the abort, and then nobody answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        crowd = [socket.socket() for _ in range(2)]
        for connection in crowd:
            connection.settimeout(0)
            connection.connect_ex(listener.getsockname())
        server = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = Client(Endpoint(server=server), timeout=300.0)
        began, failed = threading.Event(), threading.Event()

        def ask() -> None:
            began.set()
            with pytest.raises(ApiError):
                client.get("/version")
            failed.set()

        thread = threading.Thread(target=ask)
        thread.start()
        assert began.wait(60.0)
        assert not failed.wait(0.2)
        client.abort()
        accepted = [listener.accept() for _ in crowd]
        assert failed.wait(60.0)
        thread.join()
        client.close()
        for opened in (*crowd, *(connection for connection, _ in accepted)):
            opened.close()


def test_a_watch_gives_whole_lines_and_ends_in_an_error_when_it_breaks_off() -> None:
    events = hostile.watch(b'{"a":', b'1}\n{"b":2}\n{"half', then=hostile.drop)
    with Hostile([], [events]) as server:
        client = Client(server.endpoint)
        got: list[bytes] = []
        with (
            pytest.raises(ApiError, match="connection lost"),
            client.stream("/x", {"watch": "true"}, idle_timeout=60.0) as lines,
        ):
            got.extend(lines)
        client.close()
        assert got == [b'{"a":1}', b'{"b":2}']


@pytest.mark.parametrize("behaviour", [hostile.watch(), hostile.drip])
def test_a_watch_without_a_whole_line_in_time_is_an_error(behaviour: Behaviour) -> None:
    with Hostile([], [behaviour]) as server:
        client = Client(server.endpoint)
        with (
            pytest.raises(ApiError, match="in time"),
            client.stream("/x", {"watch": "true"}, idle_timeout=0.3) as lines,
        ):
            list(lines)
        client.close()


def test_a_server_that_does_not_answer_is_not_the_same_as_not_served() -> None:
    with Hostile([hostile.refusal(500)]) as server:
        client = Client(server.endpoint)
        with pytest.raises(ApiError):
            served(client, "resource.k8s.io", "devicetaintrules", ["v1"])
        client.close()
    with Hostile([hostile.refusal(404), hostile.body(b"[]")]) as server:
        client = Client(server.endpoint)
        with pytest.raises(ApiError, match="not a resource list"):
            served(client, "resource.k8s.io", "devicetaintrules", ["v1", "v1beta2"])
        client.close()


@pytest.mark.parametrize(
    ("header", "sentences"),
    [
        ('299 - "unknown field \\"status.x\\""', ['unknown field "status.x"']),
        (
            '299 - "one, with a comma", 299 - "two \\\\ three"',
            ["one, with a comma", "two \\ three"],
        ),
        ("", []),
        ('112 - "some proxy\'s"', []),
        ('299 - "never ends', []),
    ],
)
def test_warnings_beside_an_accepted_write_are_given_to_who_asks(
    header: str, sentences: list[str]
) -> None:
    received: list[str] = []
    line = f"warning: {header}\r\n" if header else ""
    with Hostile([hostile.body(b"{}", headers=line)]) as server:
        client = Client(server.endpoint)
        client.replace("/api/v1/nodes/a", {}, on_warning=received.append)
        client.replace("/api/v1/nodes/a", {})
        client.close()
    assert received == sentences


def test_several_warning_headers_are_all_read() -> None:
    received: list[str] = []
    lines = 'warning: 299 - "one"\r\nwarning: 299 - "two"\r\n'
    with Hostile([hostile.body(b"{}", headers=lines)]) as server:
        client = Client(server.endpoint)
        client.replace("/api/v1/nodes/a", {}, on_warning=received.append)
        client.close()
    assert received == ["one", "two"]
