"""Commands that look, on a real API server, against goldens. UPDATE_GOLDEN=1 rewrites them."""

import re
from collections.abc import Callable

import msgspec
import pytest
import yaml

from draguard.cluster.incidents import short_name
from tests.draguard.fleet import LOST_INCIDENT, SICK, SLICE_INCIDENT, Fleet
from tests.draguard.printed import masked, matches, printed

Tell = Callable[..., str]


@pytest.fixture
def tell(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> Tell:
    """Run a command on the fleet; gives what it printed."""

    def run(command: str, *arguments: str, ends: int = 0) -> str:
        where = ("--kubeconfig", fleet.kubeconfig)
        return printed(capsys, command, *arguments, *where, ends=ends)

    return run


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("status", ("status",)),
        ("status-json", ("status", "-o", "json")),
        ("status-yaml", ("status", "-o", "yaml")),
        ("incidents", ("incidents",)),
        ("incidents-json", ("incidents", "-o", "json")),
        ("incident-of-a-lost-gpu", ("incidents", LOST_INCIDENT)),
        ("incident-of-a-slice", ("incidents", SLICE_INCIDENT)),
        ("plan", ("plan",)),
        ("plan-of-a-node", ("plan", "--node", "node-a")),
        ("plan-json", ("plan", "-o", "json")),
        ("explain-79", ("explain", "xid", "79")),
        ("explain-94-mig", ("explain", "xid", "94", "--mig")),
        ("cordon-a-gpu", ("cordon", SICK, "--reason", "swap", "--evict", "--dry-run")),
        ("cordon-slices", ("cordon", "node-c/0", "--reason", "test", "--dry-run")),
        ("uncordon-nothing", ("uncordon", "--all", "--dry-run")),
        ("cleanup-all", ("cleanup", "--all", "--dry-run")),
    ],
)
def test_a_command_prints_its_golden(name: str, arguments: tuple[str, ...], tell: Tell) -> None:
    matches(name, masked(tell(*arguments)))


def test_the_doctor_prints_its_golden_and_ends_with_one_for_what_is_bad(tell: Tell) -> None:
    """Roles and admission policies of the cluster are other tests' to install and to judge."""
    stated = masked(tell("doctor", ends=1)).partition("\n\n")[0]
    checks = re.split(r"\n(?=ok|warn|bad|unknown)", stated)
    kept = [check for check in checks if not re.match(r"\w+ +(permissions|admission) of ", check)]
    matches("doctor", "".join(f"{line}\n" for line in kept))


@pytest.mark.parametrize("command", ["status", "incidents", "plan", "doctor"])
def test_json_and_yaml_say_the_same(command: str, tell: Tell) -> None:
    ends = 1 if command == "doctor" else 0
    of_json = msgspec.json.decode(tell(command, "-o", "json", ends=ends))
    of_yaml = yaml.safe_load(tell(command, "-o", "yaml", ends=ends))

    assert masked(str(of_json)) == masked(str(of_yaml))


def test_an_incident_is_found_by_the_uuid_of_its_gpu(tell: Tell) -> None:
    assert tell("incidents", SICK).splitlines()[0] == LOST_INCIDENT


def test_an_incident_that_is_not_there_ends_with_one(fleet: Fleet, tell: Tell) -> None:
    assert tell("incidents", "gpu-none-1", ends=1) == ""


def test_of_one_node_only(tell: Tell) -> None:
    stated = tell("incidents", "--node", "node-c")

    assert short_name(SLICE_INCIDENT) in stated
    assert short_name(LOST_INCIDENT) not in stated


def test_more_objects_than_fit_on_a_page_are_all_seen(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = masked(tell("status"))
    monkeypatch.setattr("draguard.cluster.listing.PAGE", 1)

    assert masked(tell("status")) == whole


def test_another_policy_is_tried_without_being_in_force(
    tell: Tell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text("defaults: {mode: 'off'}", encoding="utf-8")

    stated = tell("plan", "--policy", str(policy))

    assert f"policy  {policy}" in masked(stated)
    assert "would do: DeleteRule gpu.nvidia.com/node-b/gpu-0 NoSchedule" in stated


def test_a_node_that_nobody_speaks_of_has_no_plan(tell: Tell) -> None:
    assert tell("plan", "--node", "node-z", ends=1) == ""


def test_the_emergency_stop_is_reported(fleet: Fleet, tell: Tell) -> None:
    namespace = "/api/v1/namespaces/draguard-system"
    stop = {"metadata": {"annotations": {"draguard.dev/stop": "ana: driver roll-out"}}}
    fleet.cluster.client.merge_patch(namespace, stop)
    try:
        assert "all new restrictions and disruptions are stopped: ana: driver roll-out" in tell(
            "status"
        )
        assert "emergency stop: ana: driver roll-out" in tell("plan")
        assert "all new restrictions and disruptions are stopped: ana: driver roll-out" in tell(
            "doctor", ends=1
        )
    finally:
        gone = {"metadata": {"annotations": {"draguard.dev/stop": None}}}
        fleet.cluster.client.merge_patch(namespace, gone)


def test_the_short_name_of_an_incident_will_do(tell: Tell) -> None:
    assert tell("incidents", "gpu-b0000000-1").splitlines()[0] == LOST_INCIDENT
