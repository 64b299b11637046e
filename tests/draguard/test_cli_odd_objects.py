"""Objects that somebody edited, or another version wrote: reported, and never taken for well."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import msgspec
import pytest

from draguard.__main__ import main
from draguard.cluster.cordon_rule import KEY
from draguard.render.plain import plain
from draguard.render.status_page import status_page
from kubeapi.client import ApiError, NotFound
from tests.chain.scene import INCIDENTS
from tests.draguard.cluster.test_fleet_status import looked_at, objects
from tests.draguard.fleet import SICK_DEVICE, Fleet
from tests.draguard.printed import printed
from tests.lab.cluster import RULES, Json
from tests.remediator.builders import T0, gpu

ODD = "gpu-odd-1"
Tell = Callable[..., str]


@pytest.fixture
def tell(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> Tell:
    def run(*arguments: str, ends: int = 0) -> str:
        return printed(capsys, *arguments, "--kubeconfig", fleet.kubeconfig, ends=ends)

    return run


@contextmanager
def incident(fleet: Fleet, **status: object) -> Generator[None]:
    """Store an incident with a status that no remediator of this version writes."""
    client = fleet.cluster.client
    body = {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "DeviceIncident",
        "metadata": {"name": ODD},
        "spec": {"node": "node-a", "uuid": "GPU-odd", "fault": "of-another-version"},
    }
    client.create(INCIDENTS, body)
    try:
        client.merge_patch(f"{INCIDENTS}/{ODD}/status", {"status": status})
        yield
    finally:
        client.delete(f"{INCIDENTS}/{ODD}")


@contextmanager
def rule(fleet: Fleet, selector: Json | None, key: str = "example.com/broken") -> Generator[None]:
    taint = {"key": key, "value": "x", "effect": "NoSchedule"}
    spec = {"taint": taint} | ({} if selector is None else {"deviceSelector": selector})
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "odd-rule"},
        "spec": spec,
    }
    fleet.cluster.client.create(RULES, body)
    try:
        yield
    finally:
        fleet.cluster.client.delete(f"{RULES}/odd-rule")


UNREADABLE: Json = {"phase": "Tainted", "phaseSinceTime": "0000-01-01T00:00:00Z"}
"""The year 0, which the server stores and Python has no time for."""


class TestAnIncidentThatCannotBeRead:
    def test_is_named_and_the_list_is_not_called_whole(self, fleet: Fleet, tell: Tell) -> None:
        with incident(fleet, **UNREADABLE):
            status = tell("status", ends=1)
            plan = tell("plan", ends=1)
            listed = tell("incidents", ends=1)
            missing = tell("incidents", ODD, ends=1)
            tell("incidents", "-o", "json", ends=1)
            examined = " ".join(tell("doctor", ends=1).split())

        assert "1 deviceincidents (gpu-odd-1) cannot be read by this version" in examined
        assert "delete the incident, and a new one begins from them" in examined
        assert "cannot read them: 1 deviceincidents (gpu-odd-1)" in status
        assert "cannot read them: 1 deviceincidents (gpu-odd-1)" in plan
        assert (ODD in listed, missing) == (False, "")

    def test_is_not_reported_missing(
        self, fleet: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", fleet.kubeconfig)
        for command in (("incidents", ODD), ("hold", ODD, "--for", "1h", "--reason", "x")):
            with incident(fleet, **UNREADABLE):
                assert main([*command, *where]) == 1
            stated = capsys.readouterr().err
            assert "skipped because this version cannot read them: 1 deviceincidents" in stated

    def test_leaves_nothing_green_when_it_is_the_only_one(self) -> None:
        unreadable = ("1 deviceincidents (gpu-odd-1)",)
        found = looked_at(objects(gpu(0), unreadable=unreadable))

        assert "incidents  none open among those that can be read\n" in plain(
            status_page(found, T0)
        )


YEAR_0 = "0000-01-01T00:00:00Z"
"""Python has no year 0: an incident that has it is skipped, and the command ends with 1."""
ODD_TIMES: tuple[str, ...] = (
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59-14:00",
    "0001-01-01T00:00:00+14:00",
    "2026-01-05T12:00:00+02:00",
    "2026-01-05t12:00:00z",
    YEAR_0,
)


@pytest.mark.parametrize("time", ODD_TIMES)
@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_any_time_that_the_server_stores_can_be_shown(
    time: str, output: str, fleet: Fleet, tell: Tell
) -> None:
    line = {"time": time, "phase": "Tainted", "text": "x"}
    odd: Json = {
        "phase": "Tainted",
        "phaseSinceTime": time,
        "recovery": {"healthySinceTime": time},
        "timeline": [line],
    }
    with incident(fleet, **odd):
        ends = int(time == YEAR_0)
        tell("incidents", "-o", output, ends=ends)
        tell("incidents", ODD, "-o", output, ends=ends)
        tell("status", "-o", output, ends=ends)
        tell("plan", "-o", output, ends=ends)


@pytest.mark.parametrize(
    "time", ["2026-01-05T12:00:00", "2026-01-05T12:00:60Z", "2026-01-05", "soon"]
)
def test_a_time_without_a_zone_or_beyond_a_minute_is_not_stored_at_all(
    time: str, fleet: Fleet
) -> None:
    with (
        pytest.raises(ApiError, match="422"),
        incident(fleet, phase="Tainted", phaseSinceTime=time),
    ):
        pass


def test_a_time_of_another_zone_is_reported_in_utc(fleet: Fleet, tell: Tell) -> None:
    line = {"time": "2026-01-05T12:00:00+02:00", "phase": "Tainted", "text": "x"}
    with incident(
        fleet, phase="Tainted", recovery={"healthySinceTime": line["time"]}, timeline=[line]
    ):
        stated = tell("incidents", ODD)

    assert stated.count("2026-01-05T10:00:00Z") == 2


def test_an_incident_without_a_status_is_open(fleet: Fleet, tell: Tell) -> None:
    with incident(fleet):
        assert ODD in tell("incidents")
        assert "phase" in tell("incidents", ODD)
        assert "3 open" in tell("status")


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        (None, 12),
        ({}, 12),
        ({"driver": "gpu.nvidia.com"}, 12),
        ({"driver": "gpu.nvidia.com", "pool": "node-a"}, 4),
        ({"pool": "node-c"}, 8),
        ({"driver": "example.com"}, 2),
    ],
)
def test_a_rule_that_names_no_device_taints_all_that_it_means(
    selector: Json | None, tainted: int, fleet: Fleet, tell: Tell
) -> None:
    with rule(fleet, selector):
        found: Json = msgspec.json.decode(tell("status", "-o", "json"))

    counts = found["devices"]["counts"]
    assert sum(group["number"] for group in counts if group["taint"] != "none") == tainted
    assert found["rules"]["others"] == 1


@contextmanager
def without_labels(fleet: Fleet, name: str) -> Generator[None]:
    """Let somebody take every label off a rule."""
    path = f"{RULES}/{name}"
    before: Json = fleet.cluster.get(path)["metadata"]["labels"]
    client = fleet.cluster.client
    client.merge_patch(path, {"metadata": {"labels": None}})
    try:
        yield
    finally:
        with suppress(NotFound):
            client.merge_patch(path, {"metadata": {"labels": before}})


def test_a_rule_of_ours_that_lost_its_labels_is_released_all_the_same(
    fleet: Fleet, tell: Tell
) -> None:
    """The remediator knows it by its name, and so does `status`."""
    mine = [
        taint_rule
        for taint_rule in fleet.cluster.items(RULES)
        if SICK_DEVICE.pool in str(taint_rule["spec"])
    ]
    with without_labels(fleet, mine[0]["metadata"]["name"]):
        status = tell("status")
        everything = tell("cleanup", "--all", "--dry-run")

    assert "2 NoSchedule" in status
    assert f"{mine[0]['metadata']['name']}: NoSchedule" in everything


def test_a_cordon_for_maintenance_that_lost_its_labels_can_be_taken_away(
    fleet: Fleet, tell: Tell
) -> None:
    tell("cordon", "node-a/1", "--reason", "x")
    (name,) = (
        taint_rule["metadata"]["name"]
        for taint_rule in fleet.cluster.items(RULES)
        if taint_rule["spec"]["taint"]["key"] == KEY
    )
    with without_labels(fleet, name):
        assert "1 for maintenance" in tell("status")
        assert "already cordoned by admin: x" in tell("cordon", "node-a/1", "--reason", "y")
        assert "uncordoned" in tell("uncordon", "node-a/1")


def test_a_cordon_that_somebody_labels_as_ours_is_counted_once(fleet: Fleet, tell: Tell) -> None:
    tell("cordon", "node-a/1", "--reason", "x")
    (one,) = (o for o in fleet.cluster.items(RULES) if o["spec"]["taint"]["key"] == KEY)
    labels = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "draguard"}}}
    fleet.cluster.client.merge_patch(f"{RULES}/{one['metadata']['name']}", labels)
    found: Json = msgspec.json.decode(tell("status", "-o", "json"))
    tell("uncordon", "node-a/1")

    assert (found["rules"]["ours"]["NoSchedule"], found["rules"]["maintenance"]) == (2, 1)
    assert found["rules"]["others"] == 0


@pytest.mark.parametrize(("node", "ends"), [("node-a", 0), ("node-z", 1), ("../nodes", 1)])
def test_a_node_that_nobody_speaks_of_is_not_reported_without_incidents(
    node: str, ends: int, tell: Tell
) -> None:
    stated = tell("incidents", "--node", node, ends=ends)

    assert ("no open incidents on" in stated) == (ends == 0)
