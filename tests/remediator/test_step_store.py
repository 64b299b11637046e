"""The store of a plan's steps: what it holds after each, and which writes it refuses."""

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from exporter.model.device import Device
from kubeapi.types import ObjectMeta
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.incident_status import AffectedPod, IncidentStatus
from remediator.model.node import NodeCondition
from remediator.model.taint_rule import Effect, Rule
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteIncident,
    DeleteRule,
    EvictPod,
    OpenIncident,
    Step,
    WriteNodeConditions,
    WriteStatus,
)
from remediator.step_store import ConflictError, StepStore
from tests.remediator.builders import DRIVER, NODE, T0, uuid

DEVICE = Device(DRIVER, NODE, "gpu-0")
NAME = "gpu-0-1"
NEW = Incident(ObjectMeta(name=NAME), IncidentSpec(NODE, uuid(0)), IncidentStatus(message="new"))


def rule(effect: Effect = "NoSchedule") -> Rule:
    return Rule(
        device=DEVICE,
        effect=effect,
        fault="gpu",
        cause="xid-95",
        incident=NAME,
        uuid=uuid(0),
        gpu=uuid(0),
        node=NODE,
    )


def store() -> StepStore:
    """Return a store with one incident and one rule."""
    there = StepStore()
    there.take(OpenIncident(NEW), T0)
    there.take(CreateRule(rule()), T0)
    return there


def status(message: str) -> IncidentStatus:
    return IncidentStatus(message=message)


def test_an_opened_incident_has_what_the_api_server_adds_and_no_status_yet() -> None:
    there = StepStore()
    there.take(OpenIncident(NEW), T0 + timedelta(seconds=1.5))
    stored = there.incidents[NAME]

    assert stored.spec == NEW.spec
    assert stored.status == IncidentStatus()
    assert stored.metadata.creation_timestamp == T0 + timedelta(seconds=1)
    assert stored.metadata.uid
    assert stored.metadata.resource_version


def test_a_written_status_has_a_new_version_and_the_same_uid() -> None:
    there = store()
    before = there.incidents[NAME]
    there.take(WriteStatus(before, status("tainted")), T0)
    after = there.incidents[NAME]

    assert after.status.message == "tainted"
    assert after.metadata.uid == before.metadata.uid
    assert after.metadata.resource_version != before.metadata.resource_version


def test_a_changed_rule_keeps_its_uid_and_a_rule_that_is_created_anew_has_another() -> None:
    there = store()
    created = there.rules[DEVICE]
    there.take(ChangeRule(created, rule("NoExecute")), T0)
    changed = there.rules[DEVICE]
    there.take(DeleteRule(changed, "repaired"), T0)
    assert there.rules == {}
    there.take(CreateRule(rule()), T0)

    assert changed.effect == "NoExecute"
    assert changed.uid == created.uid
    assert changed.resource_version != created.resource_version
    assert there.rules[DEVICE].uid != created.uid


def test_a_pruned_incident_is_gone() -> None:
    there = store()
    there.take(DeleteIncident(there.incidents[NAME]), T0)

    assert there.incidents == {}


def test_evicted_pods_and_the_last_of_each_condition_are_kept() -> None:
    there = store()
    pod = AffectedPod(namespace="team", pod="train-0", claim="c", device=str(DEVICE), uid="u")
    calls, repaired = (
        NodeCondition(type="GpuRepairNeeded", status=value, reason="R", message="")
        for value in ("True", "False")
    )
    there.take(EvictPod(uuid(0), pod), T0)
    there.take(WriteNodeConditions(NODE, (calls,)), T0)
    there.take(WriteNodeConditions(NODE, (repaired,)), T0)

    assert there.evicted == [pod]
    assert there.conditions == {"GpuRepairNeeded": repaired}


def test_what_another_client_writes_makes_the_plan_before_it_stale() -> None:
    there = store()
    read = there.incidents[NAME]
    there.put_incident(msgspec.structs.replace(read, status=status("restored")))

    with pytest.raises(ConflictError):
        there.take(WriteStatus(read, status("planned")), T0)
    assert there.incidents[NAME].status.message == "restored"


def stale(there: StepStore) -> tuple[Incident, Rule]:
    """Return an incident and a rule as they were read before they changed."""
    incident, read = there.incidents[NAME], there.rules[DEVICE]
    there.take(WriteStatus(incident, status("tainted")), T0)
    there.take(ChangeRule(read, rule("NoExecute")), T0)
    return incident, read


def of_another_run(there: StepStore) -> tuple[Incident, Rule]:
    """Return an incident and a rule of the same names and versions with other UIDs."""
    incident, read = there.incidents[NAME], there.rules[DEVICE]
    meta = msgspec.structs.replace(incident.metadata, uid="another")
    return (
        msgspec.structs.replace(incident, metadata=meta),
        msgspec.structs.replace(read, uid="another"),
    )


def gone(there: StepStore) -> tuple[Incident, Rule]:
    """Return an incident and a rule that were deleted since."""
    incident, read = there.incidents[NAME], there.rules[DEVICE]
    there.take(DeleteIncident(incident), T0)
    there.take(DeleteRule(read, "deleted by a user"), T0)
    return incident, read


@pytest.mark.parametrize("read", [stale, of_another_run, gone])
def test_a_write_on_what_is_no_longer_stored_is_refused_and_changes_nothing(
    read: Callable[[StepStore], tuple[Incident, Rule]],
) -> None:
    there = store()
    incident, before = read(there)
    stored = dict(there.incidents), dict(there.rules)
    steps: list[Step] = [
        WriteStatus(incident, status("late")),
        DeleteIncident(incident),
        ChangeRule(before, rule("None")),
        DeleteRule(before, "late"),
    ]

    for step in steps:
        with pytest.raises(ConflictError, match="has changed since it was read"):
            there.take(step, T0)
    assert (there.incidents, there.rules) == stored


@pytest.mark.parametrize("step", [OpenIncident(NEW), CreateRule(rule("NoExecute"))])
def test_what_exists_is_not_created_again(step: Step) -> None:
    there = store()
    stored = dict(there.incidents), dict(there.rules)

    with pytest.raises(ConflictError, match="exists already"):
        there.take(step, T0)
    assert (there.incidents, there.rules) == stored


def test_a_rule_has_the_date_of_its_effect() -> None:
    """The client asks the API server for a new date with each effect, and with nothing else."""
    there = store()
    assert there.rules[DEVICE].time_added == T0

    later, latest = T0 + timedelta(seconds=5), T0 + timedelta(seconds=9)
    there.take(ChangeRule(there.rules[DEVICE], rule("NoExecute")), later)
    reworded = msgspec.structs.replace(rule("NoExecute"), cause="xid-79")
    there.take(ChangeRule(there.rules[DEVICE], reworded), latest)

    assert there.rules[DEVICE].time_added == later
