"""Whoever may read a part gets that part, and of the rest that it is not known."""

from collections.abc import Callable, Iterator
from itertools import count

import msgspec
import pytest

from draguard.__main__ import main
from tests.chain.proxy import Proxy
from tests.draguard.fleet import Fleet
from tests.draguard.printed import items, printed
from tests.draguard.test_cli_errors import config, written
from tests.draguard.test_cli_foreign_devices import noted
from tests.lab.cluster import Json, await_true

NAMES = (f"part-reader-{number}-of-a-test" for number in count())
"""A new one each time: what the server has not forgotten yet of the last one counts for nobody."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LISTS = {
    "nodedevicehealths": "draguard.dev",
    "deviceincidents": "draguard.dev",
    "resourceslices": "resource.k8s.io",
    "resourceclaims": "resource.k8s.io",
    "devicetaintrules": "resource.k8s.io",
    "leases": "coordination.k8s.io",
}
Without = Callable[[str], tuple[str, ...]]


@pytest.fixture
def without(fleet: Fleet) -> Iterator[Without]:
    """Let a user read everything but one collection; gives the flags that make a command his."""
    client = fleet.cluster.client
    where = ("--kubeconfig", fleet.kubeconfig, "--context", "remediator")
    name = next(NAMES)

    def give(collection: str) -> tuple[str, ...]:
        rules = [
            {"apiGroups": [group], "resources": [kind], "verbs": ["list"]}
            for kind, group in LISTS.items()
            if kind != collection
        ]
        client.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        group = "rbac.authorization.k8s.io"
        reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
        subject = {"apiGroup": group, "kind": "Group", "name": "draguard:remediators"}
        body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        client.create(f"{RBAC}/clusterrolebindings", body)
        await_true("the role counts", lambda: main(["status", *where]) == 1)
        return where

    yield give
    client.delete(f"{RBAC}/clusterrolebindings/{name}")
    client.delete(f"{RBAC}/clusterroles/{name}")
    await_true("the role is gone", lambda: main(["status", *where]) == 2)


@pytest.mark.parametrize(
    ("collection", "lost", "kept"),
    [
        ("nodedevicehealths", ("nodes", "gpus", "unknown", "sources_down"), ("incidents", "rules")),
        ("deviceincidents", ("incidents",), ("gpus", "rules", "devices")),
        ("resourceslices", ("devices",), ("gpus", "incidents", "rules")),
        ("devicetaintrules", ("rules",), ("gpus", "incidents", "devices")),
        ("leases", ("leader",), ("incidents", "rules", "devices")),
        ("resourceclaims", ("claims",), ("gpus", "incidents", "rules", "devices")),
    ],
)
def test_status_tells_the_rest_and_ends_with_one(
    collection: str,
    lost: tuple[str, ...],
    kept: tuple[str, ...],
    without: Without,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = without(collection)
    text = printed(capsys, "status", *where, ends=1)
    found: Json = msgspec.json.decode(printed(capsys, "status", "-o", "json", *where, ends=1))

    assert f"not read: remediator may not list {collection}.{LISTS[collection]}" in text
    assert {name for name in lost if found[name] is not None} == set()
    assert {name for name in kept if not found[name]} == set()
    assert "none open" not in text
    assert "0 from Draguard" not in text
    assert "no remediator leads" not in text
    assert " 0 allocated" not in text
    assert text.count("unknown: you may not read it, see below") == sum(
        name
        in {"nodes", "gpus", "devices", "claims", "rules", "incidents", "sources_down", "leader"}
        for name in lost
    )


def test_without_claims_nobody_is_reported_to_hold_none(
    without: Without, capsys: pytest.CaptureFixture[str]
) -> None:
    where = without("resourceclaims")
    text = printed(capsys, "status", *where, ends=1)
    found: Json = msgspec.json.decode(printed(capsys, "status", "-o", "json", *where, ends=1))

    assert "devices    12 published: 12 of unknown state (2 tainted by Draguard)\n" in text
    assert {group["state"] for group in found["devices"]["counts"]} == {"unknown"}


def test_without_leases_no_agent_is_called_alive_or_silent(
    without: Without, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report alone is as old as its last change: only the Lease tells who lives."""
    stated = printed(capsys, "status", *without("leases"), ends=1)

    assert "the state of the agent of node-e is unknown: you may not read its Lease" in stated
    assert "silent" not in stated


def test_the_mode_is_not_shown_where_the_policy_is_not_known(
    without: Without, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shipped one enforces nothing: to name it would call an enforcing cluster harmless."""
    where = without("resourceclaims")

    assert "mode       unknown: the policy in force cannot be read" in printed(
        capsys, "status", *where, ends=1
    )
    found: Json = msgspec.json.decode(printed(capsys, "status", "-o", "json", *where, ends=1))
    assert found["modes"] is None


@pytest.mark.parametrize(
    ("collection", "unknown"),
    [
        ("nodedevicehealths", ("agents", "versions")),
        ("leases", ("remediator",)),
        ("devicetaintrules", ("taint rules take effect",)),
        ("deviceincidents", ()),
    ],
)
def test_the_doctor_tells_the_rest_and_calls_nothing_ok_that_it_did_not_see(
    collection: str,
    unknown: tuple[str, ...],
    without: Without,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = without(collection)
    capsys.readouterr()
    main(["doctor", "-o", "json", *where])
    found = items(capsys.readouterr().out, "DoctorReport")
    states = {check["about"]: check["state"] for check in found}

    assert {name: states[name] for name in unknown} == dict.fromkeys(unknown, "unknown")
    assert any(f"may not list {collection}" in check["says"] for check in found)
    assert {"agents", "remediator", "versions", "taint rules take effect", "emergency stop"} <= {
        *states
    }


@pytest.mark.parametrize("command", ["plan", "incidents"])
def test_what_is_decided_by_all_of_it_is_not_decided_by_a_part(
    command: str, without: Without, capsys: pytest.CaptureFixture[str]
) -> None:
    where = without("deviceincidents")

    assert "may not list deviceincidents" in printed(capsys, command, *where, ends=2)


def test_a_policy_that_cannot_be_read_is_no_mode_and_no_plan(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "/api/v1/namespaces/draguard-system/configmaps/draguard-policy"
    where = ("--kubeconfig", fleet.kubeconfig)
    before: Json = fleet.cluster.get(path)["data"]
    fleet.cluster.client.merge_patch(path, {"data": {"policy.yaml": "defaults: {mode: harsh}"}})
    try:
        status = printed(capsys, "status", *where)
        assert main(["plan", *where]) == 1
        refused = capsys.readouterr().err
        shipped = printed(capsys, "plan", "--shipped", *where)
    finally:
        fleet.cluster.client.merge_patch(path, {"data": before})

    assert "mode       unknown" in status
    assert "the policy in force is unknown, so its plan is" in refused
    assert "'harsh' is not a mode" in refused
    assert "policy  shipped" in shipped


def test_a_namespace_that_is_not_there_is_reported_and_status_ends_with_one(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig, "-n", "elsewhere")
    stated = printed(capsys, "status", *where, ends=1)

    assert "there is no namespace elsewhere: give the namespace of Draguard with -n" in stated


@pytest.fixture
def through(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, str]]:
    with Proxy(fleet.cluster.plane.endpoint()) as proxy:
        token = fleet.cluster.plane.endpoint().token or ""
        folder = tmp_path_factory.mktemp("kube")
        yield proxy, str(written(folder, "config", config(proxy.url, token)))


@pytest.mark.parametrize("collection", sorted(LISTS))
def test_a_list_that_fails_for_another_reason_fails_the_whole(
    collection: str, through: tuple[Proxy, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is only broken may be queried again; what is forbidden stays so."""
    proxy, path = through
    proxy.refuse, proxy.refused_path = 500, f"/{collection}?"

    stated = printed(capsys, "status", "--kubeconfig", path, ends=2)

    assert f"/{collection}: 500" in stated
    assert stated.count("\n") == 1


def test_a_user_who_may_only_list_leases_gets_the_leaders_drivers_of_gpus(
    without: Without, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = without("deviceincidents")
    with noted(fleet, "gpu.example.com"):
        theirs = printed(capsys, "status", "-o", "json", *where, ends=1)
    nvidias = printed(capsys, "status", "-o", "json", *where, ends=1)

    found: list[Json] = [msgspec.json.decode(text)["devices"] for text in (theirs, nvidias)]
    assert [each["published"] for each in found] == [0, 12]
