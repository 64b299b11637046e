"""Who may write which DeviceTaintRule, in every version of it that an API server may have."""

from collections.abc import Iterator

import msgspec
import pytest

from remediator.model import taint_rule
from simulator.cluster.controlplane import ControlPlane
from tests.chain.test_api_versions import EMULATED
from tests.deploy.guarded import (
    AGENT,
    RELEASE,
    REMEDIATOR,
    STRANGER,
    Guarded,
    Json,
    Write,
    desired_rule,
    foreign,
    full,
    identity,
)

OLDER = {
    release: (f"--emulated-version={release}", flag, f"--feature-gates={','.join(gates)}")
    for release, (_, flag, gates) in EMULATED.items()
}
ALL_VERSIONS = "--runtime-config=resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true"
SERVERS = {
    "1.37, v1": ((ALL_VERSIONS,), "v1"),
    "1.37, v1beta2": ((ALL_VERSIONS,), "v1beta2"),
    "1.37, v1alpha3": ((ALL_VERSIONS,), "v1alpha3"),
    "1.36, v1beta2": (OLDER["1.36"], "v1beta2"),
    "1.35, v1alpha3": (OLDER["1.35"], "v1alpha3"),
}
"""Flags of an API server, and the version in which its clients write."""
NEWEST = "1.37, v1"
EACH = [pytest.param(name, marks=() if name == NEWEST else pytest.mark.verify) for name in SERVERS]
OURS = {"app.kubernetes.io/managed-by": "draguard"}
MAINTENANCE = "draguard.dev/maintenance"
OWNER: Json = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "a"}


def new(**changes: str) -> Json:
    """Return a rule of the remediator's for a device that has none."""
    return taint_rule.manifest(desired_rule(device="gpu-1", **changes), "v1")


def without(*names: str) -> Json:
    """Return it without parts of its selector."""
    body: Json = msgspec.json.decode(msgspec.json.encode(new()))
    selector = body["spec"]["deviceSelector"]
    for name in names:
        del selector[name]
    if not selector:
        del body["spec"]["deviceSelector"]
    return body


def changed(**metadata: object) -> Json:
    body: Json = msgspec.json.decode(msgspec.json.encode(new()))
    body["metadata"] |= metadata
    return body


STANDING = desired_rule().name
EFFECT: Json = {"spec": {"taint": {"effect": "NoExecute"}}}
TAKEN: Json = {"metadata": {"labels": OURS}, "spec": {"taint": {"key": "draguard.dev/gpu"}}}
KEPT: Json = {"metadata": {"finalizers": ["a.b/c"]}}
FREED: Json = {"metadata": {"finalizers": None}}
ALL_THREE, ALONE, THEIRS = (
    "driver, pool and device, all three",
    "only draguard-remediator",
    "another user",
)
HAND = foreign("by-hand", MAINTENANCE, full("gpu-2"))
WRITES = [
    Write(REMEDIATOR, "create", "", new()),
    Write(REMEDIATOR, "create", "", without("device"), ALL_THREE),
    Write(REMEDIATOR, "create", "", without("pool"), ALL_THREE),
    Write(REMEDIATOR, "create", "", without("driver"), ALL_THREE),
    Write(REMEDIATOR, "create", "", without("driver", "pool", "device"), ALL_THREE),
    Write(REMEDIATOR, "create", "", changed(labels={}), "writes no rule but those"),
    Write(REMEDIATOR, "create", "", changed(ownerReferences=[OWNER]), "has no owner"),
    Write(REMEDIATOR, "create", "", changed(finalizers=["a.b/c"]), "no finalizer on a rule"),
    Write(REMEDIATOR, "create", "", foreign("a", "example.com/b", full("gpu-1")), "no rule but"),
    Write(REMEDIATOR, "create", "", foreign("a", MAINTENANCE, full("gpu-1"), OURS), "no rule but"),
    Write(REMEDIATOR, "patch", STANDING, EFFECT),
    Write(REMEDIATOR, "patch", STANDING, {"metadata": {"labels": {"draguard.dev/incident": "b"}}}),
    Write(REMEDIATOR, "patch", STANDING, KEPT, "no finalizer on a rule"),
    Write(REMEDIATOR, "patch", STANDING, {"spec": {"deviceSelector": None}}, ALL_THREE),
    Write(REMEDIATOR, "patch", STANDING, {"spec": {"deviceSelector": {"pool": None}}}, ALL_THREE),
    Write(
        REMEDIATOR,
        "patch",
        STANDING,
        {"spec": {"deviceSelector": {"device": "gpu-5"}}},
        "stays with its device",
    ),
    Write(REMEDIATOR, "patch", "theirs", EFFECT, "no rule but"),
    Write(REMEDIATOR, "patch", "theirs", TAKEN, THEIRS),
    Write(REMEDIATOR, "patch", "maintenance", EFFECT, "no rule but"),
    Write(REMEDIATOR, "delete", STANDING, {}),
    Write(REMEDIATOR, "delete", "theirs", {}, THEIRS),
    Write(REMEDIATOR, "delete", "maintenance", {}, THEIRS),
    Write(RELEASE, "delete", STANDING, {}),
    Write(RELEASE, "delete", "theirs", {}, THEIRS),
    Write(RELEASE, "delete", "maintenance", {}, THEIRS),
    Write(RELEASE, "create", "", new(), ALONE),
    Write(RELEASE, "patch", STANDING, EFFECT, ALONE),
    Write(AGENT, "create", "", new(), ALONE),
    Write(STRANGER, "create", "", new(), ALONE),
    Write(STRANGER, "create", "", without("device"), ALL_THREE),
    Write(STRANGER, "create", "", foreign("a", "draguard.dev/gpu", full("gpu-1")), ALONE),
    Write(STRANGER, "create", "", foreign("a", "draguard.dev/gpu", {}), ALL_THREE),
    Write(STRANGER, "create", "", foreign("a", "example.com/b", full("gpu-1"), OURS), ALONE),
    Write(STRANGER, "create", "", foreign(new()["metadata"]["name"], "example.com/b", {}), ALONE),
    Write(STRANGER, "create", "", HAND),
    Write(STRANGER, "create", "", foreign("a", MAINTENANCE, {}), ALL_THREE),
    Write(STRANGER, "create", "", foreign("a", MAINTENANCE, {"driver": "d.e"}), ALL_THREE),
    Write(STRANGER, "create", "", foreign("a", MAINTENANCE, full("gpu-2"), OURS), ALONE),
    Write(STRANGER, "create", "", foreign("a", "example.com/b", {})),
    Write(STRANGER, "patch", STANDING, EFFECT, ALONE),
    Write(STRANGER, "patch", STANDING, {"spec": {"taint": {"key": "example.com/b"}}}, ALONE),
    Write(STRANGER, "patch", STANDING, {"metadata": {"labels": None}}, ALONE),
    Write(STRANGER, "patch", STANDING, {"metadata": {"annotations": None}}, ALONE),
    Write(STRANGER, "patch", STANDING, {"metadata": {"ownerReferences": [OWNER]}}, ALONE),
    Write(STRANGER, "patch", STANDING, FREED),
    Write(STRANGER, "patch", STANDING, KEPT),
    Write(STRANGER, "patch", "theirs", {"spec": {"taint": {"key": "draguard.dev/gpu"}}}, ALONE),
    Write(STRANGER, "patch", "theirs", {"metadata": {"labels": OURS}}, ALONE),
    Write(STRANGER, "patch", "theirs", EFFECT),
    Write(STRANGER, "patch", "maintenance", EFFECT),
    Write(STRANGER, "patch", "maintenance", {"spec": {"deviceSelector": None}}, ALL_THREE),
    Write(STRANGER, "delete", STANDING, {}),
    Write(STRANGER, "delete", "theirs", {}),
    Write(STRANGER, "delete", "maintenance", {}),
    Write(STRANGER, "delete", "", {}),
    Write("admin", "create", "", new(), ALONE),
    Write("admin", "delete", STANDING, {}),
]


@pytest.fixture(scope="module", params=EACH)
def guarded(
    control_plane_built: None, policies: str, request: pytest.FixtureRequest
) -> Iterator[Guarded]:
    flags, version = SERVERS[request.param]
    with ControlPlane(apiserver_flags=flags) as plane:
        one = Guarded(plane, policies, version)
        yield one
        one.close()


@pytest.mark.parametrize("write", WRITES, ids=identity)
def test_a_rule_is_let_through_or_refused_with_the_reason(guarded: Guarded, write: Write) -> None:
    path = f"{guarded.rules}/{write.path}".rstrip("/")
    body = {**write.body, "apiVersion": f"resource.k8s.io/{guarded.version}"} if write.body else {}

    refusal = guarded.refusal(write._replace(path=path, body=body))

    assert bool(refusal) == bool(write.refused), refusal or "it was let through"
    assert write.refused in refusal
