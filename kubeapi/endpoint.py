"""Where an API server is and how to authenticate: addresses, files and tokens, no connections.

Reads the service account's files of a pod; nothing else of the environment.
"""

import ipaddress
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

import msgspec

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class EndpointError(Exception):
    """The way to the API server is not usable as described; the message has the remedy."""


class Renewal(Protocol):
    """The token of a login that ends."""

    def token(self) -> str:
        """Return the last one, without waiting for another."""
        ...

    def on_refused(self, token: str) -> None:
        """Take note that the server refused it (401)."""
        ...


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One API server and one identity. A token file wins over a token."""

    server: str
    """URL, with a path where the API sits behind a proxy."""
    token_file: str | None = None
    """Read again whenever it changes, as kubelets renew it in place."""
    token: str | None = None
    renewal: Renewal | None = None
    """Wins over `token`."""
    ca_file: str | None = None
    """PEM. None: the machine's own authorities."""
    tls_server_name: str | None = None
    """What the server's certificate must name, behind a tunnel. None: the host of `server`."""
    client_cert_file: str | None = None
    client_key_file: str | None = None
    ca_data: bytes | None = None
    """PEM, as of the next two. Each wins over its file."""
    client_cert_data: bytes | None = None
    client_key_data: bytes | None = None
    proxy: str | None = None
    """URL of a proxy, maybe with user and password. None: the server is reached directly."""
    insecure: bool = False
    """Do not verify the server's certificate."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers of each request that say as whom the server judges it; a name may come again."""
    namespace: str = ""
    """The user's own: of the kubeconfig's context; "": it names none."""

    def __repr__(self) -> str:
        identity = self.token_file or self.client_cert_file or ("a token" if self.token else "none")
        return f"Endpoint({self.server}, identity: {identity})"

    def refuse_clear_text(self) -> None:
        """Raise EndpointError if others could read a token on its way to this server."""
        where = urlsplit(self.server)
        if where.scheme != "https" and (self.proxy or not is_this_machine(where.hostname or "")):
            raise EndpointError(
                f"{self.server} has no TLS, so no token is sent there: give an address with https://"
            )


def is_this_machine(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def acting_as(
    user: str,
    groups: Sequence[str] = (),
    uid: str = "",
    extra: Mapping[str, Sequence[str]] | None = None,
) -> tuple[tuple[str, str], ...]:
    """Return the headers that have the server judge a request as another user's."""
    return (
        ("Impersonate-User", user),
        *(("Impersonate-Group", group) for group in groups),
        *((("Impersonate-Uid", uid),) if uid else ()),
        *(
            (f"Impersonate-Extra-{quote(key, safe='')}", value)
            for key, values in (extra or {}).items()
            for value in values
        ),
    )


def in_cluster(environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Endpoint:
    """Find the API server as a pod sees it. Raises EndpointError outside of one."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise EndpointError(
            "not in a Kubernetes pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are "
            "not set; name the API server with --kube-server instead"
        )
    token, ca = folder / "token", folder / "ca.crt"
    for file in (token, ca):
        if not file.is_file():
            raise EndpointError(
                f"{file} is missing; give the pod a service account and leave "
                "automountServiceAccountToken on"
            )
    address = f"[{host}]" if ":" in host else host
    return Endpoint(server=f"https://{address}:{port}", token_file=str(token), ca_file=str(ca))


class Credentials:
    """The bearer token of an endpoint, always the one that is valid now.

    Raises EndpointError when the token would go through a network in the clear.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        if endpoint.token or endpoint.token_file or endpoint.renewal:
            endpoint.refuse_clear_text()
        self._file = Path(endpoint.token_file) if endpoint.token_file else None
        self._token, self._renewal = endpoint.token or "", endpoint.renewal
        self._seen: tuple[int, int, int] | None = None

    def headers(self) -> dict[str, str]:
        """Headers that identify the caller. Raises EndpointError when no token was ever read."""
        if self._file is not None:
            self._refresh(self._file)
        elif self._renewal is not None:
            self._token = self._renewal.token()
        return {"authorization": f"Bearer {self._token}"} if self._token else {}

    def refused(self, headers: Mapping[str, str]) -> None:
        """Take note that the server refused these headers (401)."""
        if self._renewal is not None:
            self._renewal.on_refused(headers.get("authorization", "").removeprefix("Bearer "))

    def _refresh(self, file: Path) -> None:
        try:
            found = file.stat()
            mark = (found.st_mtime_ns, found.st_ino, found.st_size)
            if mark != self._seen:
                token = file.read_text(encoding="ascii").strip()
                if not token:
                    # It is being written: without a token a request is an anonymous one.
                    raise ValueError("it is empty")
                self._token, self._seen = token, mark
        except (OSError, ValueError) as error:
            # A renewal may be under way: the last token serves until it expires.
            if not self._token:
                raise EndpointError(f"cannot read the token file {file}: {error}") from error
