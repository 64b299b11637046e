"""Ways to install: metrics alone, two replicas, TLS with client certificates; and to uninstall."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import trustme

from deploy.program import NAMESPACE
from kubeapi.lease import leases
from tests.lab.cluster import await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.conftest import Pods
from tests.node.workload import await_end, lose, tainted

Json = dict[str, Any]
REPORTS = "/apis/draguard.dev/v1alpha1/nodedevicehealths"
WEB = """\
tls_server_config:
  cert_file: server.pem
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
"""
HEALTH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).status)"
SCRAPE = """\
import http.client, json, ssl, sys
address, ca, client, path = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
context.check_hostname = False
if client:
    context.load_cert_chain(client + ".pem", client + ".key")
connection = http.client.HTTPSConnection(address, 9400, context=context, timeout=30)
connection.request("GET", path)
answer = connection.getresponse()
print(json.dumps([answer.status, answer.read().decode()[:400]]))
"""


@pytest.fixture
def release(node: RealNode, helm_built: Path) -> Release:
    """Nothing is installed at the start of a test."""
    release = Release(node)
    release.remove()
    return release


def test_metrics_only_shows_a_lost_gpu_and_reports_and_taints_nothing(
    node: RealNode, release: Release, pods: Pods
) -> None:
    release.install({"metricsOnly": True})
    release.await_ready("exporter")
    held = pods.on_gpu("metrics-only")
    number = int(held.device().removeprefix("gpu-"))
    before = tainted(node)

    lose(node, held.device())

    uuid = node.gpus.gpu(number).uuid

    def counted() -> bool:
        lines = release.metrics().splitlines()
        found = [line for line in lines if line.startswith("draguard_xid_errors_total{")]
        return any('code="79"' in line and uuid in line for line in found)

    await_true("the XID is counted", counted)
    assert release.pods("remediator") == []
    assert tainted(node) == before
    assert not held.is_evicted()


def test_when_the_leader_of_two_replicas_is_killed_the_other_taints(
    node: RealNode, release: Release, pods: Pods
) -> None:
    release.install({"remediator": {"replicas": 2}})
    release.await_ready()
    await_true("both run", lambda: len(release.pods("remediator")) == 2)
    release.await_ready()

    def leader() -> Json | None:
        """The pod that leads; a Lease may still name one of an installation before."""
        (holder,) = [
            str(item["spec"].get("holderIdentity", ""))
            for item in node.items(leases(NAMESPACE))
            if item["metadata"]["name"] == "draguard-remediator"
        ] or [""]
        found = [p for p in release.pods("remediator") if holder.startswith(p["metadata"]["name"])]
        return found[0] if found else None

    led = await_true("one leads", leader)
    assert led is not None
    sick = pods.on_gpu("two-replicas")
    device, process = sick.device(), sick.process()

    node.kill(release.process_of(led, "remediator"))
    lose(node, device)

    await_end(process, 120)
    assert tainted(node)[device] == "NoExecute"


def test_with_client_certificates_probes_stay_open_and_metrics_do_not(
    node: RealNode, release: Release, tmp_path: Path
) -> None:
    folder = node.plane.layout.folder / "web"
    folder.mkdir()
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name, by in (("server", authority), ("client", authority), ("stranger", stranger)):
        made = by.issue_cert("localhost", common_name=name)
        made.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        made.private_key_pem.write_to_path(folder / f"{name}.key")
    (folder / "web-config.yaml").write_text(WEB)
    files = ("web-config.yaml", "server.pem", "server.key", "ca.pem")
    given = [f"--from-file={folder / name}" for name in files]
    kubectl = node.plane.kubectl
    kubectl("create", "secret", "generic", "web", *given, "--namespace", NAMESPACE)

    release.install({"exporter": {"web": {"configSecret": "web", "scheme": "HTTPS"}}})
    release.await_ready()

    (pod, *_) = release.pods("exporter")

    def scrape(client: str, path: str) -> tuple[int, str]:
        shown = str(folder / client) if client else ""
        words = (pod["status"]["podIP"], str(folder / "ca.pem"), shown, path)
        status, text = json.loads(node.plane.inside(sys.executable, "-c", SCRAPE, *words))
        return status, text

    assert scrape("client", "/metrics")[0] == 200
    for client in ("", "stranger"):
        with pytest.raises(Exception, match="exit 1"):
            scrape(client, "/metrics")
    plain = f"http://{pod['status']['podIP']}:9402/readyz"
    assert node.plane.inside(sys.executable, "-c", HEALTH, plain).strip() == "200"


def test_uninstalling_removes_rules_and_leases_and_leaves_the_pods(
    node: RealNode, release: Release, pods: Pods
) -> None:
    # A namespace that the chart makes itself must not go before Helm's record of the release and
    # before the hook. Helm lets the chart make it where the CRDs of a release before are left.
    release.install()
    release.remove()
    node.plane.kubectl("delete", "namespace", NAMESPACE, timeout=120)
    release.install({"namespace": {"create": True}})
    release.await_ready()
    sick, running = pods.on_gpu("uninstalled"), pods.on_gpu("stays")
    device, process = sick.device(), sick.process()
    lose(node, device)
    await_end(process)
    assert tainted(node)[device] == "NoExecute"

    began = time.monotonic()
    release.uninstall()

    print(f"uninstalled in {time.monotonic() - began:.1f} s")  # noqa: T201
    assert tainted(node) == {}
    await_true("its pods are gone", lambda: release.pods() == [])
    assert not running.is_evicted()
    assert [item["metadata"]["name"] for item in node.items(leases(NAMESPACE))] == []
