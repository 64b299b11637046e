"""The remediator's place in the API server's queues, as a real API server answers."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from deploy.program import NAMESPACE
from kubeapi.client import Client, Conflict
from kubeapi.endpoint import Credentials
from kubeapi.transport import Transport
from simulator.cluster.controlplane import ControlPlane
from tests.deploy import rendered, tokens
from tests.lab.cluster import await_true

pytestmark = [pytest.mark.usefixtures("helm_built")]
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
OURS, THEIRS = "draguard-remediator", "tenant"
TEMPLATE = "--show-only=templates/flowcontrol.yaml"


@pytest.fixture(scope="module")
def queued(plane: ControlPlane, admin: Client) -> Iterator[ControlPlane]:
    """The control plane with the objects of the chart and two accounts."""
    text = rendered.text((), TEMPLATE)
    plane.kubectl("apply", "-f", "-", stdin=text)
    made = [name for name in (OURS, THEIRS) if _made(admin, name)]
    yield plane
    plane.kubectl("delete", "-f", "-", stdin=text)
    for name in made:  # Helm refuses to install beside an account that is not its own
        admin.delete(f"{ACCOUNTS}/{name}")


def _made(admin: Client, name: str) -> bool:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    try:
        admin.create(ACCOUNTS, account)
    except Conflict:
        return False
    return True


def level_of(plane: ControlPlane, admin: Client, account: str) -> str:
    """Return the priority level in which the API server puts a request of an account."""
    token = tokens.of_account(admin, NAMESPACE, account)
    endpoint = msgspec.structs.replace(plane.endpoint(), token=token)
    transport = Transport(endpoint)
    answer = transport.send(
        "GET", "/api/v1/nodes", body=None, headers=Credentials(endpoint).headers(), timeout=60.0
    )
    uid = answer.headers["X-Kubernetes-PF-PriorityLevel-UID"]
    answer.close()
    transport.close()
    listed = msgspec.json.decode(admin.get(LEVELS), type=dict[str, Any])["items"]
    (name,) = [level["metadata"]["name"] for level in listed if level["metadata"]["uid"] == uid]
    return name


def test_requests_of_the_remediator_wait_in_a_queue_of_their_own(
    queued: ControlPlane, admin: Client
) -> None:
    await_true("its level is its own", lambda: level_of(queued, admin, OURS) == OURS)
    assert level_of(queued, admin, THEIRS) == "workload-low"


def test_what_it_does_not_use_is_lent_to_others() -> None:
    level = rendered.only(rendered.objects(), "PriorityLevelConfiguration")

    assert level["spec"]["limited"]["lendablePercent"] == 80


@pytest.mark.parametrize(
    "values", [("remediator.flowControl.enabled=false",), ("metricsOnly=true",)]
)
def test_without_a_remediator_or_switched_off_there_is_no_such_place(
    values: tuple[str, ...],
) -> None:
    kinds = {manifest["kind"] for manifest in rendered.objects(values)}

    assert not kinds & {"FlowSchema", "PriorityLevelConfiguration"}
