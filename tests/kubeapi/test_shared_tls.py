"""One TLS context serves the connections of all threads."""

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trustme

from kubeapi.endpoint import Endpoint
from kubeapi.transport import context_of


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[tuple[socket.socket, ssl.SSLContext]]:
    """A listener, and a context that would rather speak HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # trustme says nothing of the type of pyOpenSSL's contexts, which it takes as well.
    authority.issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, context


def test_what_urllib3_says_at_each_connection_changes_nothing_for_the_others(
    server: tuple[socket.socket, ssl.SSLContext], authority: trustme.CA, tmp_path: Path
) -> None:
    listener, serving = server
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    where = f"https://127.0.0.1:{listener.getsockname()[1]}"
    context = context_of(Endpoint(server=where, ca_file=str(tmp_path / "ca.pem")))
    context.set_alpn_protocols(["h2"])

    def accept() -> str | None:
        plain, _ = listener.accept()
        with serving.wrap_socket(plain, server_side=True) as secured:
            return secured.selected_alpn_protocol()

    with ThreadPoolExecutor(1) as threads:
        accepted = threads.submit(accept)
        plain = socket.create_connection(listener.getsockname()[:2])
        with context.wrap_socket(plain, server_hostname="127.0.0.1"):
            assert accepted.result(10) == "http/1.1"
