"""A page that wants certificates, and a port beside it on which probes need none."""

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from serving.front import Front, FrontError, Request, Response
from serving.fronts import Fronts

MUTUAL = (
    "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
    "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
)


def page(_: Request) -> Response:
    return Response(body=b"up 1\n")


ROUTES = {"/metrics": page, "/healthz": page, "/readyz": page, "/debug": page}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    file = tmp_path / "web.yaml"
    file.write_text(MUTUAL, encoding="utf-8")
    return file


@pytest.fixture
def fronts(config: Path) -> Iterator[Fronts]:
    both = Fronts("127.0.0.1:0", ROUTES, health_listen="127.0.0.1:0", web_config=config)
    both.start()
    yield both
    both.stop()


def status(link: http.client.HTTPConnection, path: str) -> int:
    try:
        link.request("GET", path)
        return link.getresponse().status
    finally:
        link.close()


def probed(port: int, path: str) -> int:
    """Return what a kubelet's probe gets: plain text, no certificate, no password."""
    return status(http.client.HTTPConnection("127.0.0.1", port, timeout=60), path)


def test_a_probe_without_a_certificate_is_answered_beside_a_page_that_wants_one(
    fronts: Fronts, config: Path
) -> None:
    context = ssl.create_default_context(cafile=config.parent / "ca.pem")
    bare = http.client.HTTPSConnection("localhost", fronts.port, timeout=60, context=context)

    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        status(bare, "/healthz")
    assert probed(fronts.health_port, "/healthz") == 200
    assert probed(fronts.health_port, "/readyz") == 200


@pytest.mark.parametrize("path", ["/metrics", "/debug", "/"])
def test_nothing_but_health_is_served_there(fronts: Fronts, path: str) -> None:
    assert probed(fronts.health_port, path) == 404


def test_without_such_a_port_there_is_none() -> None:
    one = Fronts("127.0.0.1:0", ROUTES)
    one.start()
    try:
        assert probed(one.port, "/readyz") == 200
    finally:
        one.stop()


def test_a_port_that_is_taken_leaves_nothing_open() -> None:
    taken = Front("127.0.0.1:0", ROUTES)
    taken.start()
    both = Fronts("127.0.0.1:0", ROUTES, health_listen=f"127.0.0.1:{taken.port}")
    try:
        with pytest.raises(FrontError, match="choose another address"):
            both.start()
        with pytest.raises(FrontError, match="not started"):
            _ = both.port
    finally:
        taken.stop()
