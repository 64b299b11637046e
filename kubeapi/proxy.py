"""Which proxy leads to an API server, by a URL or by the variables that curl, Go and kubectl read.

Pure: the environment is an argument. A proxy's password is never part of a message.
"""

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from kubeapi.endpoint import Endpoint, EndpointError, is_this_machine

_PORTS = {"http": 80, "https": 443}


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    scheme: str
    """`http`: reached in the clear; `https`: by TLS. Either way it opens a tunnel (CONNECT)."""
    host: str
    port: int
    authorization: str = ""
    """Value of the header Proxy-Authorization, "" for none."""

    @property
    def name(self) -> str:
        """Return its URL without user and password, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({self.name})"


def proxy_of(url: str) -> Proxy:
    """Read a proxy's URL. Raises EndpointError: it is none, or of a kind that is not supported."""
    try:
        where = urlsplit(url if "://" in url else f"http://{url}")
        port = where.port
    except ValueError as error:
        raise EndpointError(f"the URL of the proxy cannot be read ({error})") from error
    if where.scheme not in _PORTS or not where.hostname:
        without_user = f"{where.scheme}://{where.netloc.rpartition('@')[2]}"
        raise EndpointError(
            f"the proxy {without_user} is not supported: give http://HOST:PORT or https://HOST:PORT"
        )
    authorization = ""
    if where.username is not None:
        login = f"{unquote(where.username)}:{unquote(where.password or '')}"
        authorization = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Proxy(
        scheme=where.scheme,
        host=where.hostname,
        port=port or _PORTS[where.scheme],
        authorization=authorization,
    )


def proxied(endpoint: Endpoint, environ: Mapping[str, str]) -> Endpoint:
    """Return an endpoint with its proxy. As kubectl: its own wins over the environment's."""
    found = endpoint.proxy or proxy_from(environ, endpoint.server)
    return msgspec.structs.replace(endpoint, proxy=found)


def proxy_from(environ: Mapping[str, str], server: str) -> str | None:
    """Return the URL of the proxy for a server, None for none.

    As Go does: HTTPS_PROXY or HTTP_PROXY by the server's scheme, in either case; never for the
    machine itself, nor for what NO_PROXY names.
    """
    where = urlsplit(server)
    found = _variable(environ, f"{where.scheme}_proxy")
    host = (where.hostname or "").lower()
    if not found or is_this_machine(host):
        return None
    port = where.port or _PORTS.get(where.scheme, 0)
    entries = _variable(environ, "no_proxy").lower().split(",")
    return None if any(_names(entry.strip(), host, port) for entry in entries) else found


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name, "")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _names(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY names a host: `*`, an address, a network, a domain, a port."""
    if entry in {"", "*"}:
        return entry == "*"
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, its_port = entry.rpartition(":")
    if colon and its_port.isdecimal() and _address(entry) is None:
        if int(its_port) != port:
            return False
        entry = name.strip("[]")
    if address is not None:
        return _address(entry) == address
    domain = entry.removeprefix("*").removeprefix(".")
    alone = entry == domain and host == domain
    return alone or host.endswith(f".{domain}")
