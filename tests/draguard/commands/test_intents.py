"""`hold`, `ignore`, `confirm-repaired`: what is written is what the remediator reads."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from draguard.__main__ import main
from draguard.cluster.intents import WrongIntentError, intent_of, patch, until_of
from exporter.model.node_health import RecoveryAction
from kubeapi import clock
from remediator.diagnose.fault import Record
from remediator.model.incident import IncidentSpec
from remediator.model.incident_status import SeenSignal, TimelineEntry
from remediator.model.intent import FIELDS, Intent, Kind
from tests.chain.scene import INCIDENTS
from tests.draguard.fleet import (
    LOST_INCIDENT,
    SICK,
    SLICE_INCIDENT,
    Fleet,
    boards,
    health,
    just_now,
    report,
)
from tests.draguard.printed import masked, matches, printed
from tests.remediator.builders import T0, gpu, make_status, xid

Tell = Callable[..., str]
END = datetime(2099, 1, 1, tzinfo=UTC)


@pytest.fixture
def tell(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> Tell:
    def run(*arguments: str, ends: int = 0) -> str:
        return printed(capsys, *arguments, "--kubeconfig", fleet.kubeconfig, ends=ends)

    return run


def stored_intent(fleet: Fleet, incident: str, kind: Kind) -> Intent | None:
    spec = fleet.cluster.get(f"{INCIDENTS}/{incident}")["spec"]
    found = spec.get(FIELDS[kind])
    return msgspec.convert(found, Intent) if found else None


@pytest.mark.parametrize(
    ("command", "kind", "agreed"), [("hold", "Hold", ()), ("ignore", "Ignore", ("--yes",))]
)
def test_an_intent_is_read_as_it_was_meant_and_removed(
    command: str, kind: Kind, agreed: tuple[str, ...], fleet: Fleet, tell: Tell
) -> None:
    began = clock.now()

    given = ("--until", "4h", "--reason", "a run must end; then we look")
    words = tell(command, LOST_INCIDENT, *given, *agreed)

    matches(command, masked(words))
    read = stored_intent(fleet, LOST_INCIDENT, kind)
    assert read is not None
    assert (read.by, read.reason) == ("admin", "a run must end; then we look")
    assert read.until is not None
    assert abs(read.until - began - timedelta(hours=4)) < timedelta(minutes=2)

    tell(command, LOST_INCIDENT, "--remove")
    assert stored_intent(fleet, LOST_INCIDENT, kind) is None


def test_a_gpu_stands_for_its_open_incident(fleet: Fleet, tell: Tell) -> None:
    tell("hold", SICK, "--until", "2099-01-01T00:00:00Z", "--reason", "x")

    assert stored_intent(fleet, LOST_INCIDENT, "Hold") == Intent(until=END, by="admin", reason="x")
    tell("hold", SICK, "--remove")


def test_an_intent_that_is_there_is_not_lost_by_accident(fleet: Fleet, tell: Tell) -> None:
    """One without an end leaves none of the end before it."""
    until = ("--until", "2099-01-01T00:00:00Z")
    tell("ignore", SLICE_INCIDENT, *until, "--reason", "mine", "--yes")

    tell("ignore", SLICE_INCIDENT, "--forever", "--reason", "other", "--yes", ends=1)
    assert stored_intent(fleet, SLICE_INCIDENT, "Ignore") == Intent(
        until=END, by="admin", reason="mine"
    )

    tell("ignore", SLICE_INCIDENT, "--forever", "--reason", "other", "--overwrite", "--yes")
    assert stored_intent(fleet, SLICE_INCIDENT, "Ignore") == Intent(by="admin", reason="other")
    tell("ignore", SLICE_INCIDENT, "--remove")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["gpu-none-1", "--until", "1h", "--reason", "x"], "there is no incident"),
        ([LOST_INCIDENT, "--until", "1h", "--reason", "a\x1b[31mb"], "not printable"),
        ([LOST_INCIDENT, "--until", "1h", "--reason", "x" * 600], "longer than 512"),
        ([LOST_INCIDENT, "--remove"], "has no spec.hold to remove"),
    ],
)
def test_what_the_server_would_refuse_is_not_written(
    arguments: list[str],
    why: str,
    fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["hold", *arguments, "--kubeconfig", fleet.kubeconfig]) == 1
    assert why in capsys.readouterr().err
    assert stored_intent(fleet, LOST_INCIDENT, "Hold") is None


@pytest.mark.parametrize("command", ["hold", "ignore", "confirm-repaired"])
@pytest.mark.parametrize("flag", ["--for", "--until"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", "'soon' is not a duration; write 500ms, 3s, 10m, 24h or 30d; or give a time"),
        ("4hours", "'4hours' is not a duration"),
        ("2026-02-30T00:00:00Z", "is not a duration; write"),
        ("2099-01-01T00:00:00", "is not a duration; write"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z is in the past"),
        ("0s", "0s is in the past"),
        ("9999d", "9999d is longer than 3660 days"),
    ],
)
def test_what_is_no_time_to_come_is_a_wrong_flag_and_no_cluster_is_queried(
    command: str, flag: str, text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, LOST_INCIDENT, flag, text, "--reason", "x", "--kubeconfig", "/nowhere"])

    assert ended.value.code == 2
    assert f"draguard {command}: error: {flag}: " in (stated := capsys.readouterr().err)
    assert why in stated


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("ignore", ["--reason", "x"]),
        ("ignore", ["--until", "1h"]),
        ("hold", ["--reason", "x"]),
        ("hold", ["--forever", "--reason", "x"]),
        ("confirm-repaired", []),
    ],
)
def test_an_end_and_a_reason_are_required(
    command: str, missing: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, LOST_INCIDENT, *missing])

    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("30m", "2026-01-05T12:30:00+00:00"),
        ("4h", "2026-01-05T16:00:00+00:00"),
        ("2d", "2026-01-07T12:00:00+00:00"),
        ("2026-07-30T18:00:00Z", "2026-07-30T18:00:00+00:00"),
        ("2026-07-30T18:00:00+02:00", "2026-07-30T16:00:00+00:00"),
        ("2026-07-30T18:00:00.5Z", "2026-07-30T18:00:00+00:00"),
    ],
)
def test_a_length_of_time_and_a_moment_are_stored_as_a_moment(text: str, until: str) -> None:
    end = until_of(text, T0)

    assert end is not None
    assert end.isoformat() == until


def test_without_an_end_the_one_before_is_removed_by_name() -> None:
    intent = intent_of(until_of("forever", T0), "ana", " x ")

    assert patch(intent) == {"until": None, "by": "ana", "reason": "x"}
    assert patch(None) is None


def test_either_flag_takes_either_and_says_how_far_it_is(fleet: Fleet, tell: Tell) -> None:
    lasts = tell("hold", LOST_INCIDENT, "--until", "4h", "--reason", "x")
    tell("hold", LOST_INCIDENT, "--remove")
    ends = tell("hold", LOST_INCIDENT, "--for", "2099-01-01T00:00:00+02:00", "--reason", "x")

    assert "Z, in 4h\n" in lasts
    read = stored_intent(fleet, LOST_INCIDENT, "Hold")
    assert read == Intent(until=END - timedelta(hours=2), by="admin", reason="x")
    assert "2098-12-31T22:00:00Z, in " in ends
    tell("hold", LOST_INCIDENT, "--remove")


def test_a_confirmation_that_nothing_waits_for_is_refused(fleet: Fleet, tell: Tell) -> None:
    tell("confirm-repaired", LOST_INCIDENT, "--reason", "new board", ends=1)

    assert stored_intent(fleet, LOST_INCIDENT, "RepairConfirmed") is None


def test_a_repair_that_is_waited_for_is_confirmed(fleet: Fleet, tell: Tell) -> None:
    words = tell("confirm-repaired", SLICE_INCIDENT, "--reason", "new board, ticket 47")

    matches("confirm-repaired", masked(words))
    read = stored_intent(fleet, SLICE_INCIDENT, "RepairConfirmed")
    assert read == Intent(by="admin", reason="new board, ticket 47")
    tell("confirm-repaired", SLICE_INCIDENT, "--remove")


@pytest.fixture
def old_driver(fleet: Fleet) -> Iterator[str]:
    """An incident of a GPU whose driver cannot report that a reset has ended the fault."""
    seen = just_now()
    line = msgspec.structs.replace(xid(95), first_seen=seen, last_seen=seen)
    field = RecoveryAction(support="Unsupported", observed_at=clock.now())
    board = gpu(0, line, node="node-a", recovery_action=field)
    well = boards()["node-a"]
    report(fleet.cluster, "node-a", health(board, well[1], at=clock.now()))
    record = Record.of(line)
    status = make_status(
        fault_class="gpu",
        cause="xid-95",
        evidence=("XID 95 (Uncontained ECC error), seen by kmsg and nvml",),
        phase="Tainted",
        mode="Enforce",
        needs="GPUReset",
        boot_id="boot-1",
        seen_through=seen,
        seen_signals=(
            SeenSignal(code=record.code, count=record.count, first_seen_time=record.first_seen),
        ),
        timeline=(TimelineEntry(seen, "Tainted", "NoSchedule on gpu-0"),),
    )
    name = f"{board.uuid.lower()}-1"
    fleet.incident(name, IncidentSpec(node="node-a", uuid=board.uuid), status)
    yield name
    fleet.cluster.client.delete(f"{INCIDENTS}/{name}")
    report(fleet.cluster, "node-a", health(*well, at=clock.now()))


def test_a_reset_under_an_old_driver_is_confirmed(
    fleet: Fleet, old_driver: str, tell: Tell
) -> None:
    tell("confirm-repaired", old_driver, "--reason", "reset, nvidia-smi is well")

    read = stored_intent(fleet, old_driver, "RepairConfirmed")
    assert read == Intent(by="admin", reason="reset, nvidia-smi is well")


def test_a_server_that_does_not_say_who_asks_gets_nothing_written() -> None:
    with pytest.raises(WrongIntentError, match="did not return your user name"):
        intent_of(None, "", "x")
