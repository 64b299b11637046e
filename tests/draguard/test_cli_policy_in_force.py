"""What the leader publishes on its Lease decides what status, plan and doctor say of the policy."""

from collections.abc import Callable, Iterator

import pytest

from draguard.__main__ import main
from draguard.cluster.policy_in_force import recorded_modes
from kubeapi.lease import leases
from remediator.controller.agents import LEASE_NAME
from remediator.controller.policy_on_lease import CHANGED, HASH, MODES
from remediator.policy import fingerprint
from remediator.policy.load import read
from remediator.policy.table import Policy
from tests.chain.scene import LEASES
from tests.draguard.fleet import POLICY, Fleet
from tests.draguard.printed import printed

DEPLOYMENT = f"/apis/apps/v1/namespaces/{LEASES}/deployments/draguard-remediator"
Publish = Callable[[Policy], str]


@pytest.fixture
def publish(fleet: Fleet) -> Iterator[Publish]:
    """Let the Lease say which policy its leader obeys; returns the hash."""
    path = f"{leases(LEASES)}/{LEASE_NAME}"

    def annotate(notes: dict[str, str | None]) -> None:
        fleet.cluster.client.merge_patch(path, {"metadata": {"annotations": notes}})

    def say(policy: Policy) -> str:
        mark = fingerprint.of_permissions(policy)
        annotate({HASH: mark, MODES: fingerprint.modes(policy)})
        return mark

    yield say
    annotate(dict.fromkeys((HASH, MODES, CHANGED)))


@pytest.fixture
def unseen(fleet: Fleet) -> Iterator[tuple[str, ...]]:
    """No Deployment of the remediator is found."""

    def account(name: str) -> None:
        spec = {"template": {"spec": {"serviceAccountName": name}}}
        fleet.cluster.client.merge_patch(DEPLOYMENT, {"spec": spec})

    account("another")
    yield ("--kubeconfig", fleet.kubeconfig)
    account("draguard-remediator")


def test_the_policy_that_was_found_is_the_one_in_force(
    publish: Publish, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig)
    mark = publish(read(POLICY))

    assert f"key policy.yaml, in force (hash {mark})" in printed(capsys, "status", *where)
    assert f"key policy.yaml, in force (hash {mark})" in printed(capsys, "plan", *where)


def test_a_leader_with_another_policy_is_named_and_its_modes_are_shown(
    publish: Publish, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig)
    mark = publish(read("classes: {gpu: {mode: dry-run}}"))
    status, plan = printed(capsys, "status", *where), printed(capsys, "plan", *where)
    doctor = printed(capsys, "doctor", *where, ends=1)

    assert "mode       dry-run: gpu; incident-only: all others" in status
    for stated in (status, plan, doctor):
        assert f"the leader obeys another policy (hash {mark}, here " in stated
    assert "warn     policy: the leader obeys another policy" in doctor


def test_without_its_text_the_modes_are_the_leaders_and_there_is_no_plan(
    publish: Publish, unseen: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    mark = publish(read(POLICY))
    status = printed(capsys, "status", *unseen)
    doctor = printed(capsys, "doctor", *unseen, ends=1)

    assert "mode       enforce: contained, lost; incident-only: all others" in status
    assert f"of the leader, as its Lease publishes it (hash {mark})" in status
    assert f"ok       policy: of the leader, as its Lease publishes it (hash {mark})" in doctor
    assert "remediator-0 is the leader; no Deployment here" in doctor
    assert main(["plan", *unseen]) == 1
    assert "Give a policy with --policy FILE or --shipped" in capsys.readouterr().err


def test_the_shipped_policy_is_known_by_its_hash(
    publish: Publish, unseen: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    publish(Policy())

    assert "policy  the shipped policy, as the leader publishes it" in printed(
        capsys, "plan", *unseen
    )


def test_without_either_the_policy_is_unknown_to_all_three(
    unseen: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "mode       unknown" in printed(capsys, "status", *unseen)
    assert "unknown  policy: " in printed(capsys, "doctor", *unseen, ends=1)
    assert main(["plan", *unseen]) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [("gpu=enforce,lost=off", {"gpu": "enforce", "lost": "off"}), ("", None), ("x", None)],
)
def test_modes_are_read_as_they_are_published(text: str, found: dict[str, str] | None) -> None:
    assert recorded_modes(text) == found
