"""Which proxy is used, and the way through it: a real proxy, TLS inside its tunnel."""

import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
import trustme

from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Endpoint, EndpointError
from kubeapi.proxy import proxy_from, proxy_of
from tests.kubeapi.connect_proxy import ConnectProxy

SERVER = "https://api.example.com:6443"
PLAIN = "http://proxy:3128"


@pytest.mark.parametrize(
    ("environ", "server", "found"),
    [
        ({"HTTPS_PROXY": PLAIN}, SERVER, PLAIN),
        ({"https_proxy": PLAIN}, SERVER, PLAIN),
        ({"HTTP_PROXY": PLAIN}, SERVER, None),
        ({"HTTP_PROXY": PLAIN}, "http://api.example.com", PLAIN),
        ({}, SERVER, None),
        ({"HTTPS_PROXY": ""}, SERVER, None),
        ({"HTTPS_PROXY": PLAIN}, "https://127.0.0.1:6443", None),
        ({"HTTPS_PROXY": PLAIN}, "https://localhost:6443", None),
        ({"HTTPS_PROXY": PLAIN}, "https://[::1]:6443", None),
    ],
)
def test_the_environment_names_the_proxy_as_for_kubectl(
    environ: dict[str, str], server: str, found: str | None
) -> None:
    assert proxy_from(environ, server) == found


@pytest.mark.parametrize(
    ("entries", "server", "direct"),
    [
        ("*", SERVER, True),
        ("api.example.com", SERVER, True),
        ("example.com", SERVER, True),
        (".example.com", SERVER, True),
        ("*.example.com", SERVER, True),
        (".api.example.com", SERVER, False),
        ("ample.com", SERVER, False),
        ("other.org, example.com", SERVER, True),
        ("api.example.com:6443", SERVER, True),
        ("api.example.com:443", SERVER, False),
        ("api.example.com:443", "https://api.example.com", True),
        ("10.0.0.0/8", "https://10.1.2.3:6443", True),
        ("10.0.0.0/8", "https://11.1.2.3:6443", False),
        ("10.0.0.0/8", SERVER, False),
        ("10.1.2.3", "https://10.1.2.3:6443", True),
        ("fd00::/8", "https://[fd00::1]:6443", True),
        ("fd00::1", "https://[fd00::1]:6443", True),
        ("nonsense/x", "https://10.1.2.3", False),
        ("", SERVER, False),
    ],
)
def test_no_proxy_is_read_as_go_does(entries: str, server: str, direct: bool) -> None:
    environ = {"HTTPS_PROXY": PLAIN, "NO_PROXY": entries}

    assert (proxy_from(environ, server) is None) == direct


def test_a_login_is_taken_from_the_url_and_never_shown() -> None:
    proxy = proxy_of("http://ana:s%40cret@proxy:3128")

    assert proxy.authorization == "Basic YW5hOnNAY3JldA=="
    assert "cret" not in repr(proxy)
    assert proxy.name == "http://proxy:3128"


@pytest.mark.parametrize("url", ["socks5://ana:secret@proxy:1080", "http://", "http://proxy:none"])
def test_a_proxy_that_is_not_supported_is_named_without_its_password(url: str) -> None:
    with pytest.raises(EndpointError) as caught:
        proxy_of(url)
    assert "secret" not in str(caught.value)


class _Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = msgspec.json.encode({"path": self.path})
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        """Say nothing."""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return str(file)


def served(tls: ssl.SSLContext | None) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def api(authority: trustme.CA) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("api.example.com").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - trustme names pyOpenSSL, too
    yield from served(context)


@pytest.fixture(scope="module")
def plain_api() -> Iterator[int]:
    yield from served(None)


def fetched(
    port: int,
    ca_file: str | None,
    *,
    login: str = "",
    scheme: str = "http",
    server: str = SERVER,
    twice: bool = True,
) -> bytes:
    """Ask an API server whose name only the proxy can resolve."""
    user = f"{login}@" if login else ""
    proxy = f"{scheme}://{user}127.0.0.1:{port}"
    client = Client(Endpoint(server=server, ca_file=ca_file, proxy=proxy), timeout=20.0)
    try:
        if twice:
            client.get("/healthz")  # over the same connection, if it is kept
        return client.get("/version")
    finally:
        client.close()


def test_tls_goes_through_the_tunnel_and_its_connection_is_kept(api: int, ca_file: str) -> None:
    with ConnectProxy({"api.example.com:6443": ("127.0.0.1", api)}) as proxy:
        assert fetched(proxy.port, ca_file) == b'{"path":"/version"}'
        (line,) = proxy.opened
    assert line.startswith("CONNECT api.example.com:6443 HTTP/")


def test_a_proxy_that_requires_a_login_gets_that_of_its_url(api: int, ca_file: str) -> None:
    place = {"api.example.com:6443": ("127.0.0.1", api)}
    with ConnectProxy(place, login="ana:s@cret") as proxy:
        assert fetched(proxy.port, ca_file, login="ana:s%40cret") == b'{"path":"/version"}'
        with pytest.raises(ApiError) as caught:
            fetched(proxy.port, ca_file, login="ana:wrong")
    assert f"the proxy http://127.0.0.1:{proxy.port} refused (407" in caught.value.message
    assert "it requires a login" in caught.value.message
    assert "wrong" not in caught.value.message


@pytest.mark.parametrize(
    ("status", "meaning"),
    [(403, "does not allow this server"), (502, "does not reach this server"), (500, "no tunnel")],
)
def test_a_refusal_of_the_proxy_is_named(status: int, meaning: str, api: int, ca_file: str) -> None:
    with (
        ConnectProxy({}, refuse=status) as proxy,
        pytest.raises(ApiError) as caught,
    ):
        fetched(proxy.port, ca_file)
    assert f"refused ({status}" in caught.value.message
    assert meaning.replace("no tunnel", "does not open a tunnel") in caught.value.message


def test_a_proxy_that_is_not_there_is_named(ca_file: str) -> None:
    with pytest.raises(ApiError, match=r"the proxy http://127\.0\.0\.1:9: connection refused"):
        fetched(9, ca_file)


def test_a_certificate_inside_the_tunnel_is_verified(api: int) -> None:
    with ConnectProxy({"api.example.com:6443": ("127.0.0.1", api)}) as proxy:
        with pytest.raises(ApiError, match="CERTIFICATE_VERIFY_FAILED"):
            fetched(proxy.port, None)
        assert proxy.opened


def test_a_proxy_by_tls_carries_tls(
    api: int, authority: trustme.CA, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - trustme names pyOpenSSL, too
    place = {"api.example.com:6443": ("127.0.0.1", api)}
    with ConnectProxy(place, tls=context) as proxy:
        with pytest.raises(ApiError, match=f"the proxy https://127.0.0.1:{proxy.port}: TLS failed"):
            fetched(proxy.port, ca_file, scheme="https")
        monkeypatch.setenv("SSL_CERT_FILE", str(Path(ca_file)))
        assert fetched(proxy.port, ca_file, scheme="https") == b'{"path":"/version"}'


def test_without_tls_the_proxy_gets_whole_urls(plain_api: int) -> None:
    place = {"api.example.com:80": ("127.0.0.1", plain_api)}
    with ConnectProxy(place, login="ana:secret") as proxy:
        login, server = "ana:secret", "http://api.example.com"
        # This proxy keeps no connection for requests that it forwards.
        found = fetched(proxy.port, None, login=login, server=server, twice=False)
        assert found == b'{"path":"/version"}'
        assert proxy.opened == ["GET http://api.example.com:80/version HTTP/1.1"]


def test_the_password_of_a_proxy_by_tls_goes_by_tls_to_any_server(
    plain_api: int, authority: trustme.CA, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - trustme names pyOpenSSL, too
    monkeypatch.setenv("SSL_CERT_FILE", ca_file)
    place, login = {"api.example.com:80": ("127.0.0.1", plain_api)}, "ana:secret"
    with ConnectProxy(place, login=login, tls=context) as proxy:
        found = fetched(
            proxy.port,
            None,
            login=login,
            scheme="https",
            server="http://api.example.com",
            twice=False,
        )
        assert found == b'{"path":"/version"}'
        assert proxy.opened == ["GET http://api.example.com:80/version HTTP/1.1"]


@pytest.mark.parametrize("login", [{"token": "t"}, {"token_file": "t"}, {"renewal": object()}])
@pytest.mark.parametrize(
    ("server", "proxy"),
    [("http://10.0.0.1", None), ("HTTP://api:80", None), ("http://127.0.0.1:1", PLAIN)],
)
def test_no_token_goes_through_a_network_in_the_clear(
    server: str, proxy: str | None, login: dict[str, Any]
) -> None:
    with pytest.raises(EndpointError, match=rf"{server} has no TLS, so no token is sent there"):
        Client(Endpoint(server=server, proxy=proxy, **login))
    Client(Endpoint(server=server, proxy=proxy))  # who sends none may ask
    Client(Endpoint(server="http://localhost:1", **login))  # what stays in this machine
