"""Nothing that ends by itself is kept by the policies: real deletions, seen to their end."""

from collections.abc import Iterator

import pytest

from kubeapi.client import ApiError, NotFound
from kubeapi.lease import leases
from simulator.cluster.controlplane import ControlPlane
from tests.chain.scene import INCIDENTS, LEASES, REPORTS
from tests.deploy.guarded import Guarded, wanted
from tests.lab.cluster import await_true

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BEING_DELETED = 429
"""What a CRD on its way out answers."""


@pytest.fixture(scope="module")
def guarded(control_plane_built: None, policies: str) -> Iterator[Guarded]:
    with ControlPlane() as plane:
        one = Guarded(plane, policies)
        yield one
        one.close()


def is_gone(guarded: Guarded, path: str) -> bool:
    try:
        guarded.admin.get(path)
    except NotFound:
        return True
    except ApiError as error:
        if error.status != BEING_DELETED:
            raise
    return False


def test_a_rule_that_a_person_deletes_in_the_foreground_goes(guarded: Guarded) -> None:
    path = f"{guarded.rules}/{wanted().name}"

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


def test_the_namespace_goes_with_the_leases_in_it(guarded: Guarded) -> None:
    assert b"draguard-agent-node-a" in guarded.admin.get(leases(LEASES))
    path = f"/api/v1/namespaces/{LEASES}"
    # No kubelet is here that would end them.
    guarded.admin.delete(f"{path}/pods", {"gracePeriodSeconds": 0})

    guarded.admin.delete(path)

    await_true("the namespace is gone", lambda: is_gone(guarded, path))
