"""Client, reflector, discovery and Lease against the real kube-apiserver."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubeapi.client import ApiError, Client, Conflict, NotFound
from kubeapi.discovery import served
from kubeapi.endpoint import Endpoint
from kubeapi.lease import Lease, leases, renew
from kubeapi.reflector import Pace, Reflector
from kubeapi.store import Change
from simulator.cluster.controlplane import ControlPlane
from tests.kubeapi.hostile import Gate
from tests.lab.cluster import await_true

CONFIG_MAPS = "/api/v1/namespaces/kubeapi-test/configmaps"
NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


class ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def version_of(raw: bytes) -> str:
    return msgspec.json.decode(raw, type=dict[str, Any])["metadata"]["resourceVersion"]


@pytest.fixture
def admin(client: Client) -> Iterator[Client]:
    """An admin with an empty namespace."""
    prepare(client)
    yield client
    client.delete(CONFIG_MAPS)


def prepare(client: Client) -> None:
    with suppress(Conflict):
        client.create("/api/v1/namespaces", {"metadata": {"name": "kubeapi-test"}})


def test_an_object_is_created_patched_replaced_and_deleted(admin: Client) -> None:
    created = admin.create(CONFIG_MAPS, config_map("one", color="red", shape="round"))
    path = f"{CONFIG_MAPS}/one"
    admin.merge_patch(path, {"data": {"color": "blue"}})
    assert msgspec.json.decode(admin.get(path), type=ConfigMap).data == {
        "color": "blue",
        "shape": "round",
    }
    stale = config_map("one", color="green")
    stale["metadata"]["resourceVersion"] = version_of(created)
    with pytest.raises(Conflict, match=r"Conflict: .*the object has been modified"):
        admin.replace(path, stale)
    stale["metadata"]["resourceVersion"] = version_of(admin.get(path))
    admin.replace(path, stale)
    assert msgspec.json.decode(admin.get(path), type=ConfigMap).data == {"color": "green"}
    with pytest.raises(Conflict):
        admin.delete(path, {"preconditions": {"uid": "another"}})
    admin.delete(path)
    with pytest.raises(NotFound, match='configmaps "one" not found'):
        admin.get(path)


def test_what_exists_already_is_a_conflict_of_that_reason(admin: Client) -> None:
    admin.create(CONFIG_MAPS, config_map("one"))
    with pytest.raises(Conflict) as caught:
        admin.create(CONFIG_MAPS, config_map("one"))
    assert caught.value.reason == "AlreadyExists"


def test_a_wrong_token_and_missing_rights_are_distinguished(control_plane: ControlPlane) -> None:
    right = control_plane.endpoint("remediator")
    wrong = Endpoint(server=right.server, token="wrong", ca_file=right.ca_file)
    for endpoint, status, reason in ((right, 403, "Forbidden"), (wrong, 401, "Unauthorized")):
        client = Client(endpoint, timeout=60.0)
        with pytest.raises(ApiError) as caught:
            client.get("/api/v1/secrets")
        client.close()
        assert (caught.value.status, caught.value.reason) == (status, reason)


def test_a_server_with_another_certificate_is_not_trusted(control_plane: ControlPlane) -> None:
    client = Client(Endpoint(server=control_plane.endpoint().server, token="secret"), timeout=60.0)
    with pytest.raises(ApiError, match="TLS failed; check the CA file"):
        client.get("/version")
    client.close()


def test_a_certificate_is_held_against_the_name_that_was_given(control_plane: ControlPlane) -> None:
    admin = control_plane.endpoint()
    named = Client(replace(admin, tls_server_name="kubernetes.default.svc"))
    assert named.get("/version")
    named.close()
    other = Client(replace(admin, tls_server_name="elsewhere.example"))
    with pytest.raises(ApiError, match=r"not valid for 'elsewhere\.example'"):
        other.get("/version")
    other.close()


def test_the_reflector_pages_through_a_collection_and_follows_its_changes(admin: Client) -> None:
    for number in range(7):
        admin.create(CONFIG_MAPS, config_map(f"map-{number}"))
    seen: list[Change[ConfigMap]] = []
    reflector = Reflector(admin, CONFIG_MAPS, ConfigMap, on_change=seen.append, pace=Pace(page=3))
    reflector.start()
    assert reflector.wait_synced(60.0)
    ours = {key for key in reflector.items() if "/map-" in key}
    assert ours == {f"kubeapi-test/map-{number}" for number in range(7)}
    seen.clear()
    admin.merge_patch(f"{CONFIG_MAPS}/map-1", {"data": {"x": "1"}})
    admin.delete(f"{CONFIG_MAPS}/map-2")
    await_true("both changes came", lambda: len(seen) == 2)
    reflector.stop()
    assert seen == [
        Change("kubeapi-test/map-1", ConfigMap(), ConfigMap({"x": "1"})),
        Change("kubeapi-test/map-2", ConfigMap(), None),
    ]
    assert reflector.items()["kubeapi-test/map-1"] == ConfigMap({"x": "1"})


def test_the_first_list_comes_by_watch_and_needs_no_list(
    admin: Client, control_plane: ControlPlane
) -> None:
    for number in range(3):
        admin.create(CONFIG_MAPS, config_map(f"map-{number}"))
    verbs: list[str] = []
    received = verbs.append
    endpoint = control_plane.endpoint()
    client = Client(endpoint, timeout=60.0, on_answer=lambda verb, _: received(verb))
    # A busy server may be silent for longer than is waited for elsewhere before pages are listed.
    pace = Pace(initial=60.0)
    reflector = Reflector(client, CONFIG_MAPS, ConfigMap, by_watch=True, pace=pace)
    reflector.start()
    assert reflector.wait_synced(60.0)
    admin.merge_patch(f"{CONFIG_MAPS}/map-1", {"data": {"x": "1"}})
    await_true("the change came", lambda: reflector.items()["kubeapi-test/map-1"].data)
    reflector.stop()
    client.close()
    assert {f"kubeapi-test/map-{number}" for number in range(3)} <= set(reflector.items())
    assert verbs == ["WATCH", "WATCH"]


class Everything(msgspec.Struct, frozen=True):
    kind: str = ""
    data: dict[str, str] = {}


@pytest.mark.parametrize("by_watch", [False, True])
def test_metadata_may_be_requested_alone(admin: Client, by_watch: bool) -> None:
    admin.create(CONFIG_MAPS, config_map("one", color="red"))
    reflector = Reflector(admin, CONFIG_MAPS, Everything, metadata_only=True, by_watch=by_watch)
    reflector.start()
    assert reflector.wait_synced(60.0)
    admin.create(CONFIG_MAPS, config_map("two", color="red"))
    await_true("the second came", lambda: "kubeapi-test/two" in reflector.items())
    reflector.stop()
    assert reflector.items()["kubeapi-test/one"] == Everything("PartialObjectMetadata")
    assert reflector.items()["kubeapi-test/two"] == Everything("PartialObjectMetadata")


def test_a_field_selector_narrows_the_reflector(admin: Client) -> None:
    admin.create(CONFIG_MAPS, config_map("mine"))
    params = {"fieldSelector": "metadata.name=mine"}
    reflector = Reflector(admin, CONFIG_MAPS, ConfigMap, params=params)
    reflector.start()
    assert reflector.wait_synced(60.0)
    admin.create(CONFIG_MAPS, config_map("other"))
    admin.merge_patch(f"{CONFIG_MAPS}/mine", {"data": {"seen": "yes"}})
    await_true("the change came", lambda: reflector.items()["kubeapi-test/mine"].data)
    assert set(reflector.items()) == {"kubeapi-test/mine"}
    reflector.stop()


def test_discovery_asks_for_the_resource_and_not_for_the_group_version(client: Client) -> None:
    versions = ["v9", "v1", "v1beta2"]
    assert served(client, "resource.k8s.io", "devicetaintrules", versions) == "v1"
    assert served(client, "resource.k8s.io", "gadgets", versions) is None
    assert served(client, "draguard.example", "gadgets", ["v1"]) is None
    assert served(client, "", "pods", ["v1"]) == "v1"


def test_a_lease_is_created_once_and_renewed_afterwards(admin: Client) -> None:
    path = f"{leases('kubeapi-test')}/node-a"
    renew(admin, "kubeapi-test", "node-a", "agent-1", 180, NOW, {"x/y": "1"})
    later = NOW + timedelta(seconds=60)
    renew(admin, "kubeapi-test", "node-a", "agent-2", 180, later, {"x/y": "2"})
    lease = msgspec.json.decode(admin.get(path), type=Lease)
    admin.delete(path)
    assert lease.spec.holder_identity == "agent-2"
    assert lease.spec.renew_time == NOW + timedelta(seconds=60)
    assert lease.spec.lease_duration_seconds == 180
    assert lease.metadata.annotations == {"x/y": "2"}


@pytest.fixture(scope="module")
def own_plane(control_plane_built: None) -> Iterator[ControlPlane]:
    """A control plane that these tests may stop and freeze."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def own(own_plane: ControlPlane) -> Iterator[Client]:
    client = Client(own_plane.endpoint(), timeout=60.0)
    prepare(client)
    yield client
    client.delete(CONFIG_MAPS)
    client.close()


def test_a_watch_from_a_version_of_long_ago_is_gone(own: Client, own_plane: ControlPlane) -> None:
    """The list that a restarted apiserver begins with is the oldest that it can watch from."""
    version = version_of(own.get(CONFIG_MAPS))
    own.create(CONFIG_MAPS, config_map("later"))
    own_plane.apiserver.stop()
    own_plane.apiserver.start()
    own_plane.wait_ready()
    query = {"watch": "true", "resourceVersion": version}

    def first() -> bytes:
        # Ready is the server; its list of this collection may still be on the way from etcd.
        with suppress(ApiError), own.stream(CONFIG_MAPS, query, idle_timeout=60.0) as lines:
            return next(lines)
        return b""

    answer = await_true("the watch is answered", first)
    assert b'"type":"ERROR"' in answer
    assert b'"code":410' in answer


@pytest.mark.parametrize("by_watch", [False, True])
def test_what_changed_while_the_apiserver_was_away_is_known_after_its_restart(
    own: Client, own_plane: ControlPlane, caplog: pytest.LogCaptureFixture, by_watch: bool
) -> None:
    for name in ("kept", "changed", "deleted"):
        own.create(CONFIG_MAPS, config_map(name))
    seen: list[Change[ConfigMap]] = []
    with Gate(own_plane.layout.api_port) as gate:
        through = Endpoint(
            server=f"https://127.0.0.1:{gate.port}",
            token=own.endpoint.token,
            ca_file=own.endpoint.ca_file,
        )
        client = Client(through, timeout=60.0)
        pace = Pace(first_retry=0.02, longest_retry=0.1)
        reflector = Reflector(
            client, CONFIG_MAPS, ConfigMap, on_change=seen.append, pace=pace, by_watch=by_watch
        )
        reflector.start()
        assert reflector.wait_synced(60.0)
        gate.shut()
        await_true("it knows that nothing answers", lambda: reflector.error)
        assert "kubeapi-test/deleted" in reflector.items()
        own.delete(f"{CONFIG_MAPS}/deleted")
        own.merge_patch(f"{CONFIG_MAPS}/changed", {"data": {"x": "1"}})
        own_plane.apiserver.stop()
        own_plane.apiserver.start()
        own_plane.wait_ready()
        seen.clear()
        caplog.set_level("INFO")
        gate.open()
        await_true("the deletion is known", lambda: "kubeapi-test/deleted" not in reflector.items())
        await_true("both were notified", lambda: len(seen) >= 2)
        await_true("all is well again", lambda: not reflector.error)
        reflector.stop()
        client.close()
    assert sorted(seen) == [
        Change("kubeapi-test/changed", ConfigMap(), ConfigMap({"x": "1"}), listed=True),
        Change("kubeapi-test/deleted", ConfigMap(), None, listed=True),
    ]
    assert "listing again" in caplog.text


def test_a_frozen_apiserver_is_noticed_and_does_not_hold_up_a_stop(
    own: Client, own_plane: ControlPlane
) -> None:
    own.create(CONFIG_MAPS, config_map("one"))
    pace = Pace(first_retry=0.02, longest_retry=0.1, idle=0.5)
    first, second = (Reflector(own, CONFIG_MAPS, ConfigMap, pace=pace) for _ in range(2))
    for reflector in (first, second):
        reflector.start()
        assert reflector.wait_synced(60.0)
    own_plane.apiserver.pause()
    try:
        await_true("both say so", lambda: first.error and second.error)
        contact = second.last_contact
        first.stop()
        assert "kubeapi-test/one" in second.items()
    finally:
        own_plane.apiserver.resume()
    own.create(CONFIG_MAPS, config_map("two"))
    await_true("the second goes on", lambda: "kubeapi-test/two" in second.items())
    assert second.last_contact > contact
    second.stop()
