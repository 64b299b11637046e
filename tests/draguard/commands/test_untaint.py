"""`draguard untaint` on a real API server: one meaning, with a remediator and without."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest

from draguard.__main__ import main
from draguard.phrases import stamp
from kubeapi import clock
from kubeapi.lease import renew
from remediator.controller.agents import LEASE_NAME
from tests.chain.scene import INCIDENTS, LEASES
from tests.draguard.fleet import LOST_INCIDENT, SICK, SLICE_INCIDENT, Fleet
from tests.draguard.printed import printed
from tests.draguard.test_cli_races import GIVEN
from tests.lab.cluster import RULES

Tell = Callable[..., str]


@pytest.fixture
def tell(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> Tell:
    def run(*arguments: str, ends: int = 0) -> str:
        where = ("--kubeconfig", fleet.kubeconfig)
        return printed(capsys, "untaint", *arguments, *where, ends=ends)

    return run


@pytest.fixture(autouse=True)
def _as_before(fleet: Fleet) -> Iterator[None]:
    rules = fleet.cluster.items(RULES)
    yield
    left = names(fleet)
    for rule in rules:
        for name in GIVEN:
            rule["metadata"].pop(name, None)
        if rule["metadata"]["name"] not in left:
            fleet.cluster.client.create(RULES, rule)
    for incident in (LOST_INCIDENT, SLICE_INCIDENT):
        fleet.cluster.client.merge_patch(f"{INCIDENTS}/{incident}", {"spec": {"ignore": None}})


@contextmanager
def without_a_leader(fleet: Fleet) -> Generator[None]:
    with fleet.silence():
        renew(fleet.cluster.client, LEASES, LEASE_NAME, "", 10, clock.now())
        yield


def names(fleet: Fleet) -> set[str]:
    return {rule["metadata"]["name"] for rule in fleet.cluster.items(RULES)}


def ignored(fleet: Fleet, incident: str = LOST_INCIDENT) -> dict[str, str]:
    return fleet.cluster.get(f"{INCIDENTS}/{incident}")["spec"].get("ignore", {})


@pytest.mark.parametrize("word", [LOST_INCIDENT, SICK])
def test_beside_a_remediator_it_asks_for_it_by_the_incident(
    word: str, fleet: Fleet, tell: Tell
) -> None:
    before = names(fleet)

    stated = tell(word, "--reason", "a false alarm", "--yes")

    assert names(fleet) == before, "the remediator removes them"
    assert ignored(fleet)["by"] == "admin"
    assert ignored(fleet)["reason"] == "a false alarm"
    assert "the remediator removes the taints now" in stated
    assert "Z, in 4h" in stated


def test_without_a_remediator_it_removes_the_rules_of_this_gpu_and_no_other(
    fleet: Fleet, tell: Tell
) -> None:
    with without_a_leader(fleet):
        stated = tell(LOST_INCIDENT, "--reason", "a false alarm", "--yes")

    left = fleet.cluster.items(RULES)
    assert [rule for rule in left if LOST_INCIDENT in str(rule["metadata"])] == []
    assert [rule for rule in left if SLICE_INCIDENT in str(rule["metadata"])] != []
    assert ignored(fleet)["reason"] == "a false alarm", "a later remediator creates none again"
    assert "removed" in stated


@pytest.mark.parametrize("flag", [(), ("--dry-run",)], ids=["no terminal", "dry run"])
def test_it_shows_the_verdict_and_does_nothing_that_nobody_agreed_to(
    flag: tuple[str, ...], fleet: Fleet, tell: Tell, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(fleet)

    arguments = ["untaint", LOST_INCIDENT, "--reason", "x", "--kubeconfig", fleet.kubeconfig, *flag]
    assert main(arguments) == (0 if flag else 1)

    stated = capsys.readouterr().err
    assert "verdict  sick: " in stated
    assert "needs    node-reboot" in stated
    assert "new pods can be scheduled to it immediately" in stated
    assert ("add --yes to continue" in stated) != bool(flag)
    assert names(fleet) == before
    assert ignored(fleet) == {}


def test_what_is_untainted_already_is_reported(fleet: Fleet, tell: Tell) -> None:
    tell(LOST_INCIDENT, "--reason", "a false alarm", "--yes")

    tell(LOST_INCIDENT, "--reason", "again", "--yes", ends=1)

    assert ignored(fleet)["reason"] == "a false alarm"


def test_what_was_ignored_for_a_milder_fault_is_untainted_on_a_new_word(
    fleet: Fleet, tell: Tell, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"{INCIDENTS}/{LOST_INCIDENT}"
    before = {"by": "admin", "reason": "a remap can wait"}
    fleet.cluster.client.merge_patch(path, {"spec": {"ignore": before}})
    read = {"kind": "Ignore", "state": "Overtaken", "seenTime": stamp(clock.now())}
    overtaken = [{**before, **read, "seenFault": "pending"}]
    fleet.cluster.client.merge_patch(
        f"{path}/status", {"status": {"policy": {"intents": overtaken}}}
    )

    try:
        same = ("--reason", before["reason"], "--forever", "--yes")
        assert main(["untaint", LOST_INCIDENT, *same, "--kubeconfig", fleet.kubeconfig]) == 1
        assert "overtaken by a fault worse than pending" in capsys.readouterr().err
        tell(LOST_INCIDENT, "--reason", "it may be lost as well", "--yes")
        assert ignored(fleet)["reason"] == "it may be lost as well"
    finally:
        fleet.cluster.client.merge_patch(
            f"{path}/status", {"status": {"policy": {"intents": None}}}
        )


def test_an_incident_that_is_not_there_untaints_nothing(fleet: Fleet, tell: Tell) -> None:
    before = names(fleet)

    tell("gpu-none-1", "--reason", "x", "--yes", ends=1)

    assert names(fleet) == before


@pytest.mark.parametrize("missing", [[], ["--reason", " "], ["--reason", "x", "--until", "soon"]])
def test_a_reason_and_a_time_to_come_are_required(
    missing: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["untaint", LOST_INCIDENT, *missing])

    assert ended.value.code == 2
