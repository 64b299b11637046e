"""Incidents of one GPU: counted, reported as relapses, and pruned when they are old."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeapi.types import ObjectMeta
from remediator.model.incident import Incident, IncidentSpec, incident_name, with_intent
from remediator.model.incident_status import IncidentStatus
from remediator.plan import history
from remediator.plan.words import days, ordinal
from remediator.policy.load import read
from remediator.policy.table import Ceiling, Policy, Repeat
from tests.remediator.builders import (
    LASTS,
    NODE,
    Stored,
    action,
    at,
    gpu,
    make_status,
    policy,
    until,
    uuid,
    view,
    with_fields,
)
from tests.remediator.playing import ENFORCE, settle

DAY = 86400.0
THREE_A_MONTH = policy(repeat=Repeat(count=3, within=timedelta(days=30)))


def incident(stored: Stored, start: float, rows: Policy = THREE_A_MONTH) -> None:
    """A GPU that wants a reset, gets it, and is healthy for the soak time."""
    sick = view(gpu(0, recovery_action=action(1, start, start)))
    mended = view(gpu(0, recovery_action=action(0, start + 20, start + 20)))
    for second in (1, 5):
        settle(stored, sick, start + second, rows)
    for second in (20, 720):
        settle(stored, mended, start + second, rows)


def last(stored: Stored) -> Incident:
    return stored.incidents[max(stored.incidents)]


@pytest.mark.parametrize(("ceiling", "count"), [("observe", 1), ("None", 1), ("NoSchedule", 3)])
def test_incidents_of_a_class_that_restricts_nothing_are_no_repeats(
    ceiling: Ceiling, count: int
) -> None:
    """Two row remaps, each carried out by a planned reset, and then the first real fault."""
    asks = Policy(
        rows=tuple(
            with_fields(row, mode="incident-only", ceiling=ceiling)
            if row.fault_class == "pending"
            else row
            for row in THREE_A_MONTH.rows
        )
    )
    stored = Stored()
    for number, day in enumerate((2, 4), 1):
        meta = ObjectMeta(
            name=incident_name(uuid(0), number),
            uid=f"u{number}",
            creation_timestamp=at(day * DAY),
        )
        remap = make_status(
            fault_class="pending",
            cause="row-remap-pending",
            phase="Recovered",
            mode="IncidentOnly",
            closed_at=at(day * DAY + 900),
        )
        stored.put_incident(Incident(meta, IncidentSpec(NODE, uuid(0)), remap))

    incident(stored, 10 * DAY, asks)

    assert last(stored).status.history.recurrence == count


@pytest.mark.parametrize("answered", [0, 1])
def test_a_reboot_that_was_called_for_counts_without_a_taint(answered: int) -> None:
    """A GPU that nothing publishes is never tainted, and stops its node's jobs all the same."""
    status = make_status(fault_class="lost", mode="Enforce", closed_at=at(900), answered=answered)
    one = Incident(ObjectMeta(name="one"), IncidentSpec(NODE, uuid(0)), status)

    assert history.counts_as_repeat(one, THREE_A_MONTH.row) is bool(answered)


def test_the_third_incident_in_thirty_days_needs_a_person() -> None:
    stored = Stored()
    for start in (0, 5 * DAY, 10 * DAY):
        incident(stored, start)

    status = last(stored).status
    assert [incident.status.history.recurrence for incident in stored.incidents.values()] == [
        1,
        2,
        3,
    ]
    assert (status.phase, status.recovery.untaint) == ("NeedsHuman", "OnConfirmation")
    assert status.message.startswith("3rd incident in 30 days: healthy for the whole soak time")
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_an_incident_outside_the_window_is_forgiven() -> None:
    stored = Stored()
    for start in (0, 5 * DAY, 31 * DAY):
        incident(stored, start)

    assert last(stored).status.history.recurrence == 2
    assert last(stored).status.phase == "Recovered"


def test_a_fault_in_probation_is_a_relapse_and_goes_on_counting() -> None:
    rows = policy(repeat=Repeat(count=2, within=timedelta(minutes=1)), probation=timedelta(days=1))
    stored = Stored()
    incident(stored, 0, rows)
    assert last(stored).status.history.probation_until == at(720) + timedelta(days=1)

    incident(stored, 5000, rows)

    assert last(stored).status.fault.evidence[0].startswith("relapse: ")
    assert incident_name(uuid(0), 1) in last(stored).status.fault.evidence[0]
    assert last(stored).status.history.recurrence == 2
    assert last(stored).status.phase == "NeedsHuman"


def test_after_probation_it_is_a_new_incident() -> None:
    rows = policy(repeat=Repeat(count=2, within=timedelta(minutes=1)), probation=timedelta(hours=1))
    stored = Stored()
    incident(stored, 0, rows)
    incident(stored, 5000, rows)

    assert last(stored).status.history.recurrence == 1
    assert not any(
        evidence.startswith("relapse") for evidence in last(stored).status.fault.evidence
    )


def test_a_duplicate_is_no_incident() -> None:
    stored = Stored()
    incident(stored, 0)
    (name,) = stored.incidents
    one = stored.incidents[name]
    stored.incidents[name] = msgspec.structs.replace(
        one,
        status=with_fields(one.status, duplicate_of="another", probation_until=None),
    )
    incident(stored, DAY)

    assert last(stored).status.history.recurrence == 1


def closed(number: int, age: float, gpu_index: int = 0) -> Incident:
    """An incident that was closed so many days before T0."""
    when = at(-age * DAY)
    name = incident_name(uuid(gpu_index), number)
    meta = ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=when)
    spec = IncidentSpec(NODE, uuid(gpu_index))
    return Incident(meta, spec, make_status(fault_class="gpu", phase="Recovered", closed_at=when))


class TestPruning:
    def test_old_closed_incidents_go_and_open_ones_never(self) -> None:
        forever = msgspec.structs.replace(closed(3, 400), status=IncidentStatus())
        found = history.incidents_to_prune(
            (closed(1, 32), closed(2, 30), forever), ENFORCE, at(0), ""
        )

        assert [incident.name for incident in found] == [incident_name(uuid(0), 1)]

    def test_one_with_an_intent_that_the_next_would_inherit_stays(self) -> None:
        old = closed(1, 32)

        assert (
            history.incidents_to_prune((with_intent(old, "Ignore", LASTS),), ENFORCE, at(0), "")
            == ()
        )
        over = with_intent(old, "Ignore", until(-1))
        assert history.incidents_to_prune((over,), ENFORCE, at(0), "") == (over,)

    def test_a_longer_repeat_window_keeps_them_longer(self) -> None:
        quarter = policy(repeat=Repeat(count=3, within=timedelta(days=90)))

        assert history.incidents_to_prune((closed(1, 60),), quarter, at(0), "") == ()
        assert history.incidents_to_prune((closed(1, 92),), quarter, at(0), "") != ()

    @pytest.mark.parametrize("where", ["overrides", "another class"])
    def test_a_longer_window_anywhere_in_the_policy_keeps_them_longer(self, where: str) -> None:
        """Incidents of all classes count together, and the window may be that of some nodes."""
        change = "{lost: {repeat: {count: 2, within: 90d}}}"
        in_file = {
            "overrides": f"overrides: [{{match: {{node: 'node-*'}}, classes: {change}}}]",
            "another class": f"classes: {change}",
        }

        found = history.incidents_to_prune((closed(1, 60),), read(in_file[where]), at(0), "")

        assert found == ()

    def test_of_one_gpu_only_so_many_are_kept(self) -> None:
        many = tuple(closed(number, 20 - number / 10) for number in range(40))

        found = history.incidents_to_prune((*many, closed(1, 19, gpu_index=1)), ENFORCE, at(0), "")

        assert found == many[:8]

    def test_of_one_node_only_so_many_are_kept(self) -> None:
        """It may tell of ever new GPUs."""
        count = history.KEPT_PER_NODE + 2
        many = tuple(closed(1, 20 - index / 1000, gpu_index=index) for index in range(count))

        assert history.incidents_to_prune(many, ENFORCE, at(0), "") == many[:2]

    def test_a_few_at_a_time_oldest_first(self) -> None:
        many = tuple(closed(1, 100 + index, gpu_index=index) for index in range(50))

        assert history.incidents_to_prune(many, ENFORCE, at(0), "") == many[:29:-1]

    def test_an_incident_prunes_what_it_no_longer_needs(self) -> None:
        stored = Stored()
        incident(stored, 0)
        settle(stored, view(gpu(0)), 40 * DAY)

        assert stored.incidents == {}


@pytest.mark.parametrize(
    ("number", "stated"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (13, "13th"), (21, "21st")],
)
def test_numbers_are_written_as_people_say_them(number: int, stated: str) -> None:
    assert ordinal(number) == stated


def test_spans_are_written_in_days_or_seconds() -> None:
    assert days(timedelta(days=30)) == "30 days"
    assert days(timedelta(days=1)) == "1 day"
    assert days(timedelta(hours=36)) == "129600 s"


@settings(deadline=None)
@given(st.permutations([closed(number, 10 + 3 * number) for number in range(12)]))
def test_the_order_of_incidents_does_not_matter(found: list[Incident]) -> None:
    pruned = history.incidents_to_prune(tuple(found), ENFORCE, at(0), "")

    assert [incident.status.history.closed_at for incident in pruned] == [
        at(-days * DAY) for days in (43, 40, 37, 34)
    ]
