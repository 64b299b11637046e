"""The web configuration over real sockets: TLS, client certificates, users, and their change."""

import base64
import contextlib
import http.client
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest
import trustme

from serving import access, connection, web_config
from serving.access import Access
from serving.front import Front, Request, Response
from serving.tls import Securing
from serving.web_config import Tls, WebConfigError

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
TLS = "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
MUTUAL = (
    "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
    "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
)
USERS = f"basic_auth_users: {{scraper: '{HASH}'}}\n"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No deadline of the front ends anything here: whatever ends has another reason."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 300.0)


def page(_: Request) -> Response:
    return Response(body=b"up 1\n")


ROUTES = {"/metrics": page, "/healthz": page}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def folder(tmp_path: Path, authority: trustme.CA) -> Path:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    _issue(tmp_path, authority, "server")
    return tmp_path


def _issue(folder: Path, authority: trustme.CA, name: str, *names: str) -> None:
    certificate = authority.issue_cert("localhost", *names, common_name=name)
    certificate.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    certificate.private_key_pem.write_to_path(folder / f"{name}.key")


@pytest.fixture
def fronts() -> Iterator[list[Front]]:
    started: list[Front] = []
    yield started
    for front in started:
        front.stop()


def serve(fronts: list[Front], folder: Path, config: str) -> Front:
    (folder / "web.yaml").write_text(config, encoding="utf-8")
    front = Front("127.0.0.1:0", ROUTES, access=Access(folder / "web.yaml"), free=["/healthz"])
    front.start()
    fronts.append(front)
    return front


def get(
    front: Front,
    path: str = "/metrics",
    *,
    trusting: Path | None = None,
    showing: Path | None = None,
    user: str = "",
) -> tuple[int, http.client.HTTPMessage]:
    """Ask once; raises ssl.SSLError or OSError where the handshake fails."""
    if trusting:
        context = ssl.create_default_context(cafile=trusting / "ca.pem")
        if showing:
            context.load_cert_chain(f"{showing}.pem", f"{showing}.key")
        link: http.client.HTTPConnection = http.client.HTTPSConnection(
            "localhost", front.port, timeout=60, context=context
        )
    else:
        link = http.client.HTTPConnection("127.0.0.1", front.port, timeout=60)
    headers = {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()}
    try:
        link.request("GET", path, headers=headers if user else {})
        answer = link.getresponse()
        answer.read()
        return answer.status, answer.headers
    finally:
        link.close()


def test_a_password_is_requested_and_the_right_one_opens(fronts: list[Front], folder: Path) -> None:
    front = serve(fronts, folder, USERS)
    status, headers = get(front)
    assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="draguard"')
    assert get(front, user="scraper:wrong")[0] == 401
    assert get(front, user="nobody:secret")[0] == 401
    assert get(front, user="scraper:secret")[0] == 200
    assert get(front, user="scraper:secret")[0] == 200


def test_probes_need_no_password(fronts: list[Front], folder: Path) -> None:
    front = serve(fronts, folder, USERS)
    assert get(front, "/healthz")[0] == 200
    assert get(front, "/nothing")[0] == 401


def test_tls_is_served_and_plain_text_is_not(fronts: list[Front], folder: Path) -> None:
    front = serve(fronts, folder, TLS)
    assert get(front, trusting=folder)[0] == 200
    with pytest.raises((OSError, http.client.HTTPException)):
        get(front)


def test_a_client_without_a_certificate_is_turned_away(
    fronts: list[Front], folder: Path, authority: trustme.CA
) -> None:
    front = serve(fronts, folder, MUTUAL)
    _issue(folder, authority, "client")
    assert get(front, trusting=folder, showing=folder / "client")[0] == 200
    with pytest.raises((OSError, http.client.HTTPException)):
        get(front, trusting=folder)
    _issue(folder, trustme.CA(), "stranger")
    with pytest.raises((OSError, http.client.HTTPException)):
        get(front, trusting=folder, showing=folder / "stranger")


def test_only_the_names_that_are_allowed_come_in(
    fronts: list[Front], folder: Path, authority: trustme.CA
) -> None:
    front = serve(fronts, folder, MUTUAL + "  client_allowed_sans: [prometheus.example]\n")
    _issue(folder, authority, "prometheus", "prometheus.example")
    _issue(folder, authority, "other", "other.example")
    assert get(front, trusting=folder, showing=folder / "prometheus")[0] == 200
    with pytest.raises((OSError, http.client.HTTPException)):
        get(front, trusting=folder, showing=folder / "other")


def test_a_client_that_never_shakes_hands_costs_nobody_else(
    fronts: list[Front], folder: Path
) -> None:
    front = serve(fronts, folder, TLS)
    unanswered = [http.client.HTTPConnection("127.0.0.1", front.port) for _ in range(5)]
    for link in unanswered:
        link.connect()
    assert get(front, trusting=folder)[0] == 200
    for link in unanswered:
        link.close()


def test_clients_that_never_shake_hands_take_no_more_than_the_places(folder: Path) -> None:
    (folder / "web.yaml").write_text(TLS, encoding="utf-8")
    front = Front("127.0.0.1:0", ROUTES, connections=4, access=Access(folder / "web.yaml"))
    front.start()
    with contextlib.ExitStack() as stack:
        stack.callback(front.stop)
        unanswered = [stack.enter_context(socket_to(front)) for _ in range(60)]
        deadline = time.monotonic() + 60
        while len(select.select(unanswered, [], [], 0)[0]) < 56:  # an end can be read
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert get(front, trusting=folder)[0] == 200
        began = time.monotonic()
        front.stop()
        assert time.monotonic() - began < 60.0


def test_certificates_that_come_later_than_the_configuration_are_taken_up(
    fronts: list[Front], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.0)
    front = serve(fronts, folder, "{}")
    for suffix in ("pem", "key"):
        (folder / f"server.{suffix}").rename(folder / f"later.{suffix}")
    _replace(folder, TLS)
    assert get(front)[0] == 200
    for suffix in ("pem", "key"):
        (folder / f"later.{suffix}").rename(folder / f"server.{suffix}")
    assert get(front, trusting=folder)[0] == 200


def test_a_key_that_is_written_while_its_certificate_is_read_is_taken_up(
    fronts: list[Front], folder: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.0)
    front = serve(fronts, folder, TLS)
    _issue(folder, authority, "new", "new.example")
    loads: list[Tls] = []

    class Meanwhile(Securing):
        """The new key is written just after the new certificate was found not to fit the old."""

        def __init__(self, tls: Tls) -> None:
            loads.append(tls)
            try:
                super().__init__(tls)
            finally:
                if len(loads) == 1:
                    (folder / "new.key").rename(folder / "server.key")

    monkeypatch.setattr(access, "Securing", Meanwhile)
    (folder / "new.pem").rename(folder / "server.pem")
    assert get(front, trusting=folder)[0] == 200
    assert get(front, trusting=folder)[0] == 200
    with (
        socket_to(front) as stream,
        ssl.create_default_context(cafile=folder / "ca.pem").wrap_socket(
            stream, server_hostname="new.example"
        ),
    ):
        assert len(loads) == 2


def test_a_changed_file_counts_and_a_bad_one_does_not(
    fronts: list[Front],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.0)
    front = serve(fronts, folder, "{}")
    assert get(front)[0] == 200
    _replace(folder, USERS)
    assert get(front)[0] == 401
    _replace(folder, "basic_auth_users: [not, a, map]")
    assert get(front)[0] == 401
    assert get(front, user="scraper:secret")[0] == 200
    assert sum("stays in force" in message for message in caplog.messages) == 1


def _replace(folder: Path, config: str) -> None:
    new = folder / "new.yaml"
    new.write_text(config, encoding="utf-8")
    os.replace(new, folder / "web.yaml")  # noqa: PTH105 - as a mounted Secret is swapped


def test_headers_of_the_file_go_with_every_answer(fronts: list[Front], folder: Path) -> None:
    front = serve(
        fronts, folder, "http_server_config: {headers: {X-Frame-Options: deny}}\n" + USERS
    )
    assert get(front)[1]["X-Frame-Options"] == "deny"


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ("basic_auth_users: {a: plain}", "not a bcrypt hash"),
        ("tls_server_config: {cert_file: x.pem}", "key_file"),
        ("tls_server_config: {cert_file: x.pem, key_file: x.key}", "cannot be used"),
        (TLS.replace("}", ", client_auth_type: RequestClientCert}"), "without verifying"),
        (TLS.replace("}", ", client_auth_type: RequireAndVerifyClientCert}"), "client_ca_file"),
        (TLS.replace("}", ", client_ca_file: ca.pem}"), "client_auth_type"),
        (TLS.replace("}", ", min_version: TLS10}"), "not supported"),
        (TLS.replace("}", ", min_version: TLS13, max_version: TLS12}"), "above"),
        (TLS.replace("}", ", cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}"), "not known"),
        (TLS.replace("}", ", curve_preferences: [X25519]}"), "curve_preferences"),
        ("tsl_server_config: {}", "tsl_server_config"),
        ('http_server_config: {headers: {a: "b\\nc"}}', "header"),
        ("[" * 1000, "web.yaml"),
        ("a: b: c", "web.yaml"),
        ("- 1", "web.yaml"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_reason(
    folder: Path, config: str, names: str
) -> None:
    (folder / "web.yaml").write_text(config, encoding="utf-8")
    with pytest.raises(WebConfigError, match=names):
        Access(folder / "web.yaml")


def test_cipher_suites_are_taken_by_their_go_names(fronts: list[Front], folder: Path) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    config = TLS.replace("}", f", max_version: TLS12, cipher_suites: [{suite}]}}")
    front = serve(fronts, folder, config)
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    with (
        socket_to(front) as stream,
        context.wrap_socket(stream, server_hostname="localhost") as tls,
    ):
        cipher = tls.cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


def socket_to(front: Front) -> socket.socket:
    return socket.create_connection(("127.0.0.1", front.port), timeout=60)


def test_only_so_many_scrapes_are_answered_at_once(fronts: list[Front]) -> None:
    entered, go = threading.Semaphore(0), threading.Event()

    def slow(_: Request) -> Response:
        entered.release()
        go.wait(60)
        return Response()

    front = Front("127.0.0.1:0", {"/metrics": slow}, at_once={"/metrics": 2})
    front.start()
    fronts.append(front)
    statuses: list[int] = []
    askers = [threading.Thread(target=lambda: statuses.append(get(front)[0])) for _ in range(2)]
    for asker in askers:
        asker.start()
        assert entered.acquire(timeout=60)
    assert get(front)[0] == 503
    go.set()
    for asker in askers:
        asker.join()
    assert statuses == [200, 200]
    deadline = time.monotonic() + 60
    while get(front)[0] != 200:  # the places are given back when the answers are sent
        assert time.monotonic() < deadline


def test_any_yaml_is_taken_or_refused_never_a_crash(tmp_path: Path) -> None:
    for text in ("!!python/object/apply:os.system [ls]", "\x00", "&a [*a]", "{a: &b [*b]}", "42"):
        with pytest.raises(WebConfigError):
            web_config.parse(text, tmp_path / "web.yaml")
