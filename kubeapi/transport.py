"""Connections to one API server: urllib3's pool, made so that another thread can cut it.

The only module that knows urllib3. Its errors leave as `TransportError`. No retries: callers
know better what a repeated write means.
"""

import contextlib
import re
import socket
import ssl
import tempfile
import threading
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3._base_connection import ProxyConfig
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.url import parse_url

from kubeapi.endpoint import Endpoint, EndpointError
from kubeapi.proxy import Proxy, proxy_of

CONNECT_SECONDS = 5.0
_POOLED = 8
_CHUNK = 1 << 18


class TransportError(Exception):
    """No complete answer came; the message has what happened instead."""


class _Wired(HTTPConnection):
    """Keeps a second handle on its socket, because a TLS handshake hides the first."""

    wire: socket.socket | None = None
    aborted: threading.Event
    """Of its pool: a connection that was only connecting when it was set had no wire to cut yet."""

    def _new_conn(self) -> socket.socket:
        fresh = super()._new_conn()
        self._drop_wire()
        self.wire = fresh.dup()
        if self.aborted.is_set():
            self.cut()
        return fresh

    def close(self) -> None:
        super().close()
        self._drop_wire()

    def cut(self) -> None:
        """End whatever a thread is waiting for on this connection."""
        wire = self.wire  # a user of the connection may drop it meanwhile
        if wire is not None:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)

    def _drop_wire(self) -> None:
        wire, self.wire = self.wire, None
        if wire is not None:
            wire.close()


class _WiredTls(_Wired, HTTPSConnection):
    pass


class _Pool(urllib3.HTTPConnectionPool):
    """Remembers its connections, so that they can be cut while in use."""

    ConnectionCls: Any = _Wired

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.aborted = threading.Event()
        self._guard = threading.Lock()
        self._live: weakref.WeakSet[Any] = weakref.WeakSet()

    def _new_conn(self) -> Any:
        fresh: Any = super()._new_conn()
        fresh.aborted = self.aborted
        with self._guard:
            self._live.add(fresh)
        return fresh

    def abort(self) -> None:
        self.aborted.set()
        with self._guard:
            for connection in list(self._live):
                connection.cut()


class _TlsPool(_Pool, urllib3.HTTPSConnectionPool):
    ConnectionCls: Any = _WiredTls


class _UnverifiedPool(_TlsPool):
    """Connects without urllib3's warning at each request: the user chose this."""

    def _validate_conn(self, conn: Any) -> None:
        if conn.is_closed:
            conn.connect()


class Answer:
    """The status line and headers of an answer, and its body as it comes in."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    def chunks(self) -> Iterator[bytes]:
        """Yield the body piece by piece, decompressed. Raises TransportError when it breaks off."""
        while True:
            with _explained("while reading the answer"):
                piece = self._response.read1(_CHUNK)
            if not piece:
                return
            yield piece

    def body(self, deadline: float) -> bytes:
        """Read the rest. Raises TransportError when it is not complete by then (monotonic)."""
        pieces: list[bytes] = []
        for piece in self.chunks():
            pieces.append(piece)
            if monotonic() > deadline:
                raise TransportError("the answer came too slowly to be complete in time")
        return b"".join(pieces)

    def close(self) -> None:
        """Give the connection back, or end it when the answer was not read to its end."""
        if not self._response.closed:
            self._response.close()
        self._response.release_conn()


class Transport:
    """HTTP to the server of one endpoint, over kept-alive connections, from any thread."""

    def __init__(self, endpoint: Endpoint) -> None:
        where = urlsplit(endpoint.server)
        if where.scheme not in ("http", "https") or not where.hostname:
            raise EndpointError(f"{endpoint.server!r} is not a URL of an API server (https://...)")
        self._prefix = where.path.rstrip("/")
        self._impersonation = endpoint.impersonation
        self._proxy = proxy_of(endpoint.proxy) if endpoint.proxy else None
        self._whom = f"{where.hostname}:{where.port or (443 if where.scheme == 'https' else 80)}"
        settings: dict[str, Any] = {"maxsize": _POOLED, "retries": False}
        if self._proxy is not None:
            settings |= _through(self._proxy)
        if where.scheme == "https":
            settings["ssl_context"] = context_of(endpoint)
            settings["server_hostname"] = endpoint.tls_server_name
            kind = _UnverifiedPool if endpoint.insecure else _TlsPool
            self._pool = kind(where.hostname, where.port, **settings)
        elif self._proxy is not None:
            # Without TLS to the server there is no tunnel: the proxy gets whole URLs.
            self._prefix = f"http://{self._whom}{self._prefix}"
            kind = _Pool
            if self._proxy.scheme == "https":
                kind, settings["ssl_context"] = _TlsPool, settings["_proxy_config"].ssl_context
            self._pool = kind(self._proxy.host, self._proxy.port, **settings)
        else:
            self._pool = _Pool(where.hostname, where.port, **settings)

    def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Answer:
        """Send one request; return when the headers of the answer are in.

        `timeout` bounds, in seconds, each wait for the network, later ones of the body as well.
        Close the answer.
        """
        if self._pool.aborted.is_set():
            raise TransportError("this client is stopped")
        sent = urllib3.HTTPHeaderDict(headers)
        for name, value in self._impersonation:
            sent.add(name, value.encode().decode("latin-1"))  # UTF-8, as Go reads it
        with _explained(f"asking {self._whom}", self._proxy):
            return Answer(
                self._pool.urlopen(
                    method,
                    self._prefix + path,
                    body=body,
                    headers=sent,
                    timeout=urllib3.Timeout(connect=min(timeout, CONNECT_SECONDS), read=timeout),
                    retries=False,
                    redirect=False,
                    assert_same_host=False,
                    preload_content=False,
                )
            )

    def abort(self) -> None:
        """Make requests under way in other threads fail at once, and all later ones."""
        self._pool.abort()

    def close(self) -> None:
        self._pool.close()


def _through(proxy: Proxy) -> dict[str, Any]:
    """Return the settings of a pool whose connections go through a proxy."""
    url = parse_url(proxy.name)
    headers = {"proxy-authorization": proxy.authorization} if proxy.authorization else {}
    context = ssl.create_default_context() if proxy.scheme == "https" else None
    config = ProxyConfig(
        ssl_context=context,
        use_forwarding_for_https=False,
        assert_hostname=None,
        assert_fingerprint=None,
    )
    return {"_proxy": url, "_proxy_headers": headers, "_proxy_config": config}


@contextlib.contextmanager
def _explained(doing: str, proxy: Proxy | None = None) -> Generator[None]:
    try:
        yield
    except urllib3.exceptions.HTTPError as error:
        why = _sentence(error) if proxy is None else _through_proxy(error, proxy)
        raise TransportError(f"{doing}: {why}") from error
    except (OSError, ValueError) as error:
        # A connection cut by another thread fails in either way.
        raise TransportError(f"{doing}: connection lost ({error})") from error


def _through_proxy(error: urllib3.exceptions.HTTPError, proxy: Proxy) -> str:
    """Say what failed between us, a proxy, and the server behind it."""
    cause = error
    while isinstance(cause, urllib3.exceptions.ProxyError | urllib3.exceptions.ProtocolError):
        inner = next((each for each in reversed(cause.args) if isinstance(each, Exception)), None)
        if inner is None:
            break
        if not isinstance(inner, urllib3.exceptions.HTTPError):
            refused = _REFUSED.search(str(inner))
            if refused is None:
                return f"the proxy {proxy.name} ended the connection ({inner})"
            meaning = _REFUSALS.get(refused[1], "it does not open a tunnel to this server")
            return f"the proxy {proxy.name} refused ({refused[0]}): {meaning}"
        cause = inner
    where = f"the proxy {proxy.name}: " if isinstance(error, urllib3.exceptions.ProxyError) else ""
    return f"{where}{_sentence(cause)}"


_REFUSED = re.compile(r"(\d{3}) [^\n]*$")
"""How the refusal of a tunnel ends in the error of http.client."""
_REFUSALS = {
    "407": "it requires a login: put user and password into its URL, http://USER:PASSWORD@HOST:PORT",
    "403": "it does not allow this server: ask for it, or name the server in NO_PROXY",
    "502": "it does not reach this server: check the server's address",
    "503": "it does not reach this server: check the server's address",
    "504": "it does not reach this server in time: check the server's address",
}


def _sentence(error: urllib3.exceptions.HTTPError) -> str:
    match error:
        case urllib3.exceptions.NameResolutionError():
            return f"the name does not resolve; check the server's address ({_plain(error)})"
        case urllib3.exceptions.NewConnectionError():
            return f"connection refused or unreachable ({_plain(error)})"
        case urllib3.exceptions.ConnectTimeoutError():
            return "no connection in time; is the address right and the network open?"
        case urllib3.exceptions.ReadTimeoutError():
            return "no answer in time"
        case urllib3.exceptions.SSLError():
            lost = isinstance(next(iter(error.args), None), ssl.SSLEOFError)
            failed = "TLS failed; check the CA file and that the server speaks TLS"
            return f"{'connection lost during the TLS handshake' if lost else failed} ({error})"
        case _:
            return f"connection lost ({error})"


def _plain(error: urllib3.exceptions.HTTPError) -> str:
    """Return an error of urllib3 without the connection's internal name in front of it."""
    return _INTERNAL.sub("", str(error))


_INTERNAL = re.compile(r"^<?\w+\(.*?\)[^:]*: ")


class SharedContext(ssl.SSLContext):
    """For the connections of all threads: `context_of` sets once what to request (ALPN).

    urllib3 sets it at each connection. OpenSSL then frees the former list, and a handshake of
    another thread that just reads it is refused ("decode error").
    """

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Leave it as it is."""


def context_of(endpoint: Endpoint) -> ssl.SSLContext:
    """Return what TLS to that server needs. Raises EndpointError: certificates not to be read."""
    # Without the strictness of Python 3.13's default: authorities by kubeadm lack extensions.
    context = SharedContext(ssl.PROTOCOL_TLS_CLIENT)
    ssl.SSLContext.set_alpn_protocols(context, ["http/1.1"])
    if endpoint.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    files = [endpoint.ca_file, endpoint.client_cert_file, endpoint.client_key_file]
    named = ", ".join(file for file in files if file) or "the kubeconfig"

    def refuse() -> str:
        key = endpoint.client_key_file or "the client's key in the kubeconfig"
        raise EndpointError(f"{key} is encrypted: give one without a passphrase")

    try:
        if endpoint.ca_data:
            context.load_verify_locations(cadata=endpoint.ca_data.decode("ascii", "ignore"))
        elif endpoint.ca_file:
            context.load_verify_locations(endpoint.ca_file)
        else:
            context.load_default_certs()
        with (
            _in_a_file(endpoint.client_cert_data, endpoint.client_cert_file) as certificate,
            _in_a_file(endpoint.client_key_data, endpoint.client_key_file) as key,
        ):
            if certificate:
                context.load_cert_chain(certificate, key, refuse)
    except (OSError, ValueError) as error:
        raise EndpointError(f"cannot use the certificates in {named}: {error}") from error
    return context


@contextlib.contextmanager
def _in_a_file(pem: bytes | None, file: str | None) -> Generator[str | None]:
    """Give the file of a certificate or key: OpenSSL reads no other ones. A copy goes at once."""
    if not pem:
        yield file
        return
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(pem)
        copy.flush()
        yield copy.name
