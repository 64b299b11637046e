"""An uninstallation whose hook cannot do its work: what stops, what is said, and the ways on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.program import NAMESPACE, RELEASE
from deploy.sources import CHART
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from tests.deploy.releasing import Helm, ReleaseJobs, items, store_rule
from tests.deploy.test_chart_life import left, taint
from tests.lab.cluster import RULES

pytestmark = pytest.mark.verify

SOON = ("--set", "cleanupOnDelete.deadlineSeconds=30", "--set", "admission.enabled=false")
"""The shortest time that the chart lets a hook have."""
HOOK = "draguard-cleanup-check"
TAINT = taint("gpu-0", ours=True)
PATH = f"{RULES}/{TAINT['metadata']['name']}"


def stands(admin: Client) -> bool:
    return any(
        rule["metadata"]["name"] == TAINT["metadata"]["name"] for rule in items(admin, RULES)
    )


@pytest.fixture
def stuck(admin: Client, helm: Helm) -> Iterator[str]:
    """A release with a taint, and the words of an uninstallation that got no pod to run."""
    try:
        helm("install", RELEASE, str(CHART), *SOON)
        store_rule(admin, TAINT)
        with pytest.raises(AssertionError) as refusal:
            helm("uninstall", RELEASE)
        yield str(refusal.value)
    finally:
        helm("uninstall", RELEASE, "--no-hooks", "--ignore-not-found")
        if stands(admin):
            admin.delete(PATH, {})


def status(helm: Helm) -> str:
    return next(line for line in helm("status", RELEASE).splitlines() if line.startswith("STATUS"))


def test_a_hook_that_fails_stops_helm_before_anything_is_removed(
    plane: ControlPlane, admin: Client, helm: Helm, stuck: str, tmp_path: Path
) -> None:
    assert f"job {HOOK} failed: DeadlineExceeded" in stuck
    assert stands(admin)
    there = left(admin)
    assert {"draguard-exporter", "draguard-remediator", "draguard-explainer"} <= set(there)
    assert there.count(HOOK) == 1, "the Job, without its rights"
    assert status(helm) == "STATUS: uninstalling"

    with ReleaseJobs(plane, admin, tmp_path) as jobs:
        helm("uninstall", RELEASE)

    assert jobs.output[0].count("removed") == 1
    assert not stands(admin)
    assert left(admin) == []


def test_a_person_takes_the_place_of_a_hook_that_cannot_run(
    plane: ControlPlane, admin: Client, helm: Helm, stuck: str
) -> None:
    admin.delete(PATH, {})
    helm("uninstall", RELEASE, "--no-hooks")

    assert left(admin) == [HOOK], "the Job that failed, without its rights"
    plane.kubectl("delete", "job", HOOK, f"--namespace={NAMESPACE}")
    assert left(admin) == []


def test_who_thinks_better_of_it_rolls_back(admin: Client, helm: Helm, stuck: str) -> None:
    with pytest.raises(AssertionError, match="has no deployed releases"):
        helm("upgrade", RELEASE, str(CHART), *SOON)

    helm("rollback", RELEASE, "1")

    assert status(helm) == "STATUS: deployed"
    helm("upgrade", RELEASE, str(CHART), *SOON)
