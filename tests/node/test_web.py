"""Metrics over TLS, with client certificates and without: the kubelet's probes stay open."""

import json
import sys
from pathlib import Path

import pytest
import trustme

from deploy.program import NAMESPACE
from simulator.cluster.controlplane import ControlPlaneError
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release

PORTS = {"exporter": 9400, "remediator": 9401}
HEALTH_PORT = 9402
SERVER = """\
tls_server_config:
  cert_file: server.pem
  key_file: server.key
"""
CLIENTS = """\
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
"""
HEALTH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).status)"
SCRAPE = """\
import http.client, json, ssl, sys
address, port, ca, client = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
context.check_hostname = False
if client:
    context.load_cert_chain(client + ".pem", client + ".key")
connection = http.client.HTTPSConnection(address, int(port), context=context, timeout=30)
connection.request("GET", "/metrics")
answer = connection.getresponse()
print(json.dumps([answer.status, answer.read().decode()]))
"""


class Web:
    """A release with certificates of its own in a Secret, requested as Prometheus does."""

    def __init__(self, node: RealNode, release: Release) -> None:
        self._node, self._release = node, release
        self._folder = node.plane.layout.folder / "web"
        self._folder.mkdir(exist_ok=True)
        authority, stranger = trustme.CA(), trustme.CA()
        authority.cert_pem.write_to_path(self._folder / "ca.pem")
        for name, by in (("server", authority), ("client", authority), ("stranger", stranger)):
            made = by.issue_cert("localhost", common_name=name)
            made.cert_chain_pems[0].write_to_path(self._folder / f"{name}.pem")
            made.private_key_pem.write_to_path(self._folder / f"{name}.key")

    def install(self, configuration: str) -> None:
        """Install with that web configuration; returns when the pods are Ready."""
        (self._folder / "web-config.yaml").write_text(configuration)
        files = ("web-config.yaml", "server.pem", "server.key", "ca.pem")
        given = [f"--from-file={self._folder / name}" for name in files]
        kubectl, here = self._node.plane.kubectl, f"--namespace={NAMESPACE}"
        kubectl("delete", "secret", "web", "--ignore-not-found", here)
        kubectl("create", "secret", "generic", "web", *given, here)
        web = {"web": {"configSecret": "web", "scheme": "HTTPS"}}
        self._release.install({"exporter": web, "remediator": web})
        self._release.await_ready()

    def scrape(self, component: str, client: str = "") -> tuple[int, str]:
        """Return status and page. Raises ControlPlaneError where TLS is refused."""
        shown = str(self._folder / client) if client else ""
        port, ca = str(PORTS[component]), str(self._folder / "ca.pem")
        words = (self.address(component), port, ca, shown)
        status, page = json.loads(self._node.plane.inside(sys.executable, "-c", SCRAPE, *words))
        return status, page

    def get(self, component: str, port: int, path: str) -> str:
        """Return the status of a page without TLS. Raises ControlPlaneError where it is refused."""
        address = f"http://{self.address(component)}:{port}/{path}"
        return self._node.plane.inside(sys.executable, "-c", HEALTH, address).strip()

    def address(self, component: str) -> str:
        (pod, *_) = self._release.pods(component)
        return str(pod["status"]["podIP"])


@pytest.fixture
def web(node: RealNode, helm_built: Path) -> Web:
    """Nothing is installed at the start of a test."""
    release = Release(node)
    release.remove()
    return Web(node, release)


def test_with_client_certificates_probes_stay_open_and_metrics_do_not(web: Web) -> None:
    web.install(SERVER + CLIENTS)

    for component in PORTS:
        assert web.scrape(component, "client")[0] == 200
        for client in ("", "stranger"):
            with pytest.raises(ControlPlaneError, match="exit 1"):
                web.scrape(component, client)
        assert web.get(component, HEALTH_PORT, "readyz") == "200"


def test_without_client_certificates_metrics_come_over_tls_alone_and_probes_stay_open(
    web: Web,
) -> None:
    web.install(SERVER)

    for component, port in PORTS.items():
        status, page = web.scrape(component)
        assert (status, "\ndraguard_" in page) == (200, True), component
        with pytest.raises(ControlPlaneError, match="exit 1"):
            web.get(component, port, "metrics")
        assert web.get(component, HEALTH_PORT, "readyz") == "200"
