"""The policies end too, and keep nothing from ending: real writes, seen to their end."""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from kubeapi.client import ApiError, NotFound
from kubeapi.lease import leases
from simulator.cluster.controlplane import ControlPlane
from tests.chain.scene import INCIDENTS, LEASES, REPORTS
from tests.deploy.guarded import AGENT, REMEDIATOR, Guarded, Write, desired_rule
from tests.lab.cluster import NODES, await_true

pytestmark = pytest.mark.verify

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
EFFECT = {"spec": {"taint": {"effect": "NoExecute"}}}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
UNAUTHORIZED = 401
BEING_DELETED = 429
"""What a CRD on its way out answers."""


@pytest.fixture(scope="module")
def guarded(control_plane_built: None, policies: str) -> Iterator[Guarded]:
    with ControlPlane() as plane:
        one = Guarded(plane, policies)
        yield one
        one.close()


def is_void(guarded: Guarded, who: str) -> bool:
    try:
        guarded.client(who).get(NODES)
    except ApiError as error:
        return error.status == UNAUTHORIZED
    return False


def is_gone(guarded: Guarded, path: str) -> bool:
    try:
        guarded.admin.get(path)
    except NotFound:
        return True
    except ApiError as error:
        if error.status != BEING_DELETED:
            raise
    return False


def commands() -> list[list[str]]:
    """Return the commands of the document that look at the policies and relax one."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("## The admission policies")[2]
    block = section.split("```")[1]
    return [shlex.split(line)[1:] for line in block.splitlines() if line]


def test_a_person_may_relax_a_policy_as_the_document_says(guarded: Guarded) -> None:
    look, relax = commands()
    refused = Write(
        "admin", "patch", f"{guarded.rules}/{desired_rule().name}", EFFECT, "only draguard"
    )
    assert refused.refused in guarded.refusal(refused)

    assert "draguard-rules" in guarded.plane.kubectl(*look)
    guarded.plane.kubectl(*relax)

    await_true("it is let through", lambda: not guarded.refusal(refused))
    guarded.plane.kubectl(*(argument.replace("Audit", "Deny") for argument in relax))
    await_true("it is refused again", lambda: guarded.refusal(refused))


def test_a_rule_that_a_person_deletes_in_the_foreground_goes(guarded: Guarded) -> None:
    path = f"{guarded.rules}/{desired_rule(device='gpu-5').name}"

    guarded.admin.delete(path, {"propagationPolicy": "Foreground"})

    await_true("the garbage collector took its finalizer away", lambda: is_gone(guarded, path))


def test_a_node_that_is_deleted_keeps_its_rules(guarded: Guarded) -> None:
    path = "/api/v1/nodes/node-b"

    guarded.admin.delete(path)

    await_true("the Node is gone", lambda: is_gone(guarded, path))
    assert guarded.admin.get(f"{guarded.rules}/maintenance")


@pytest.mark.parametrize("collection", [REPORTS, INCIDENTS])
def test_a_crd_goes_with_all_its_objects(guarded: Guarded, collection: str) -> None:
    name = collection.rpartition("/")[2]

    guarded.admin.delete(f"{CRDS}/{name}.draguard.dev")

    await_true(f"no {name} are served", lambda: is_gone(guarded, collection))


def test_a_token_ends_with_its_pod_and_with_its_account(guarded: Guarded) -> None:
    root = f"/api/v1/namespaces/{LEASES}"

    with suppress(NotFound):  # their namespace may be gone already
        guarded.admin.delete(f"{root}/pods/{AGENT}-node-c", {"gracePeriodSeconds": 0})
        guarded.admin.delete(f"{root}/serviceaccounts/{REMEDIATOR}")

    for who in ("agent node-c", REMEDIATOR):
        await_true(f"the token of {who} is void", partial(is_void, guarded, who))


def test_the_namespace_goes_with_the_leases_in_it(guarded: Guarded) -> None:
    assert b"draguard-agent-node-a" in guarded.admin.get(leases(LEASES))
    path = f"/api/v1/namespaces/{LEASES}"
    # No kubelet is here that would end them.
    guarded.admin.delete(f"{path}/pods", {"gracePeriodSeconds": 0})

    guarded.admin.delete(path)

    await_true("the namespace is gone", lambda: is_gone(guarded, path))
