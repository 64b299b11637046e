"""What users want for the GPU of an incident, and what it changes."""

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, SourceHealth
from remediator.model.incident import Incident
from remediator.model.incident_status import IncidentStatus
from remediator.model.intent import Intent
from remediator.plan.view import NodeView
from tests.remediator.builders import (
    LASTS,
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    report_with,
    until,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import EVICTS_LATER, claim, settle
from tests.remediator.test_pending_remap import REMAP

DAY = 86400.0
PENDING = gpu(0, memory=REMAP)
"""A row remap waits for a reset; the GPU works."""


def condition(incident: Incident, kind: str) -> tuple[str, str]:
    (found,) = [entry for entry in incident.status.conditions if entry.type == kind]
    return found.status, found.reason


def texts(stored: Stored) -> list[str]:
    return [entry.text for entry in stored.incident.status.timeline]


class TestHold:
    def test_a_held_taint_stays_and_nobody_is_moved_until_it_expires(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1, EVICTS_LATER)
        stored.intend("Hold", until(100))

        settle(stored, seen, 50)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert condition(stored.incident, "Deferred") == ("True", "Human")

        settle(stored, seen, 100)
        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert condition(stored.incident, "Deferred") == ("False", "AsExpected")

    def twice(self, seconds: float) -> tuple[Stored, NodeView, str, str]:
        """Two open incidents of one GPU; the older one leads."""
        stored, seen = Stored(), view(dead())
        settle(stored, seen, seconds, EVICTS_LATER)
        first = stored.incident
        meta = msgspec.structs.replace(first.metadata, name=first.name[:-1] + "2", uid="uid-2")
        stored.incidents[meta.name] = msgspec.structs.replace(first, metadata=meta)
        return stored, seen, first.name, meta.name

    def test_a_hold_on_a_younger_duplicate_counts_and_the_own_one_outranks_it_while_it_lasts(
        self,
    ) -> None:
        stored, seen, first, second = self.twice(1)
        stored.intend("Hold", until(100), second)
        for moment in (5, 50):
            settle(stored, seen, moment)
        assert stored.effects() == {"gpu-0": "NoSchedule"}

        stored.intend("Hold", until(60), first)
        settle(stored, seen, 59)
        assert [intent.until for intent in stored.incidents[first].status.policy.intents] == [
            at(60)
        ]
        settle(stored, seen, 61)
        assert stored.effects() == {"gpu-0": "NoSchedule"}, "the other one counts until 100"
        settle(stored, seen, 100)
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_one_that_has_expired_hides_none_that_counts(self) -> None:
        stored, seen, first, second = self.twice(1)
        stored.intend("Hold", until(2), first)
        stored.intend("Hold", LASTS, second)

        for moment in (5, 50):
            settle(stored, seen, moment)

        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_it_is_looked_at_again_when_the_hold_expires(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        stored.intend("Hold", until(100))

        assert settle(stored, seen, 50).wake_at == at(100)

    def test_a_hold_takes_nothing_down_and_stops_no_healing(self) -> None:
        stored, seen = Stored(), view(dead())
        for second in (1, 5):
            settle(stored, seen, second)
        stored.intend("Hold", LASTS)
        settle(stored, seen, 6)
        assert stored.effects() == {"gpu-0": "NoExecute"}

        for second in (20, 700):
            settle(stored, view(gpu(0)), second)

        assert stored.effects() == {}
        assert stored.incident.status.phase == "Recovered"

    def test_it_and_its_end_are_reported_once_with_user_and_reason(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        stored.intend("Hold", until(100))
        for second in range(10, 200, 10):
            settle(stored, seen, second)

        stated = f"hold until {at(100):%Y-%m-%dT%H:%M:%SZ} by ana: a run must end first"
        received = [text for text in texts(stored) if text.endswith(stated) and "seen" not in text]
        assert received == [f"in force: {stated}", f"expired: {stated}"]

    def test_one_that_is_changed_is_reported_anew_and_counts_until_the_new_end(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1, EVICTS_LATER)
        stored.intend("Hold", until(100))
        settle(stored, seen, 10)
        stored.intend("Hold", until(200))
        settle(stored, seen, 150)

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert len([text for text in texts(stored) if text.startswith("in force: hold")]) == 2

    def test_one_that_is_removed_counts_no_more_and_is_reported(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        stored.intend("Hold", until(100))
        settle(stored, seen, 10)
        stored.intend("Hold", None)
        settle(stored, seen, 11)

        assert any(text.startswith("a user removed: hold until") for text in texts(stored))
        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert stored.incident.status.policy.intents == ()


class TestIgnore:
    @pytest.mark.parametrize("blind", ["", "the agent of node-a has been silent"])
    def test_our_rules_come_down_at_once_and_the_fault_counts_again_at_the_end(
        self, blind: str
    ) -> None:
        stored, seen = Stored(), view(dead(), claims=(claim("gpu-0"),))
        for second in (1, 5):
            settle(stored, seen, second)
        stored.intend("Ignore", until(100))

        settle(stored, with_fields(seen, stale=blind), 50)
        assert stored.effects() == {}
        assert stored.incident.open
        assert "not acted on: ignore until" in stored.incident.status.message

        settle(stored, seen, 99)
        assert stored.effects() == {}
        settle(stored, seen, 100)
        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_an_ignored_fault_that_heals_is_closed(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)
        stored.intend("Ignore", LASTS)

        for second in (20, 700):
            settle(stored, view(gpu(0)), second)

        assert stored.incident.status.phase == "Recovered"


def fallen(second: float) -> GpuHealth:
    """The GPU with the pending remap falls off the bus."""
    return dead(0, xids=(xid(79, seen=second),), presence_since=at(second), memory=REMAP)


def lost(second: float) -> NodeView:
    return seen_at(second, fallen(second))


def seen_at(second: float, health: GpuHealth) -> NodeView:
    seen = view(health)
    return with_fields(seen, report=report_with(seen, observed_at=at(second)))


def ignored(stored: Stored) -> list[str]:
    return [
        intent.state for intent in stored.incident.status.policy.intents if intent.kind == "Ignore"
    ]


class TestIgnoredClass:
    """A user who ignores a fault has seen its class, and no worse one."""

    def pending(self) -> Stored:
        """A pending remap that is ignored without an end."""
        stored = Stored()
        settle(stored, view(PENDING), 1)
        stored.intend("Ignore", LASTS)
        settle(stored, view(PENDING), 5)
        return stored

    def test_a_worse_one_overtakes_it_and_the_gpu_is_tainted(self) -> None:
        stored = self.pending()
        assert (ignored(stored), stored.effects()) == (["InForce"], {})

        for second in (60 * DAY, 60 * DAY + 4):
            settle(stored, lost(60 * DAY), second)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert ignored(stored) == ["Overtaken"]
        assert (
            "overtaken by a fault worse than pending: ignore without end by ana: a test board"
            in (texts(stored))
        )

    def test_one_that_has_risen_and_is_over_does_not_count_again(self) -> None:
        stored = self.pending()
        for second in (100, 104):
            settle(stored, lost(100), second)
        taints = stored.effects()

        for second in range(110, 600, 50):
            sick = PENDING if second % 100 == 10 else fallen(100)
            settle(stored, seen_at(second, sick), second)
            assert stored.effects() == taints

        assert ignored(stored) == ["Overtaken"]
        received = [text.partition(":")[0] for text in texts(stored) if LASTS.reason in text]
        assert received == ["in force", "overtaken by a fault worse than pending"]

    def test_the_same_and_a_milder_one_are_ignored(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)
        stored.intend("Ignore", LASTS)
        settle(stored, view(dead()), 5)

        for second, sick in ((10, PENDING), (15, dead()), (20, fallen(18))):
            settle(stored, seen_at(second, sick), second)
            assert stored.effects() == {}

        assert ignored(stored) == ["InForce"]

    def test_a_worse_one_that_only_waits_for_evidence_overtakes_it_once_it_has_waited(
        self,
    ) -> None:
        broken = gpu(0, xid(74, 100, sources=("kmsg",)), memory=REMAP)
        stored = self.pending()

        settle(stored, seen_at(100, broken), 100)
        assert condition(stored.incident, "AwaitingEvidence")[0] == "True"
        assert (ignored(stored), stored.effects()) == (["InForce"], {})

        settle(stored, seen_at(104, broken), 104)
        assert (ignored(stored), stored.effects()) == (["Overtaken"], {"gpu-0": "NoSchedule"})

    def test_and_not_where_it_is_over_before(self) -> None:
        broken = gpu(0, xid(74, 100, sources=("kmsg",)), memory=REMAP)
        stored = self.pending()

        settle(stored, seen_at(100, broken), 100)
        for second in (102, 500):
            settle(stored, seen_at(second, PENDING), second)

        assert (ignored(stored), stored.effects()) == (["InForce"], {})

    def test_one_that_is_read_together_with_a_worse_one_was_not_for_that(self) -> None:
        stored = Stored()
        settle(stored, view(PENDING), 1)
        stored.intend("Ignore", LASTS)

        for second in (100, 104):
            settle(stored, lost(100), second)

        assert ignored(stored) == ["Overtaken"]
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_one_that_is_written_anew_is_for_the_worse_one(self) -> None:
        stored = self.pending()
        for second in (100, 104):
            settle(stored, lost(100), second)
        stored.intend("Ignore", LASTS)
        settle(stored, lost(100), 110)
        assert stored.effects() == {"gpu-0": "NoExecute"}, "the same words are the overtaken ones"

        stored.intend("Ignore", Intent(by="ana", reason="it may be lost as well"))
        settle(stored, lost(100), 120)

        assert (ignored(stored), stored.effects()) == (["InForce"], {})

    def test_one_that_has_expired_is_not_overtaken_afterwards(self) -> None:
        stored = Stored()
        settle(stored, view(PENDING), 1)
        stored.intend("Ignore", until(50))
        for second in (5, 60):
            settle(stored, view(PENDING), second)

        settle(stored, lost(100), 100)

        assert ignored(stored) == ["Expired"]

    def test_one_of_a_version_that_recorded_no_class_is_for_that_of_the_incident(self) -> None:
        stored = self.pending()
        status = stored.incident.status
        old = (msgspec.structs.replace(record, seen_fault="") for record in status.policy.intents)
        before = with_fields(status, intents=tuple(old))
        stored.put_incident(msgspec.structs.replace(stored.incident, status=before))

        settle(stored, view(PENDING), 10)
        assert (ignored(stored), stored.effects()) == (["InForce"], {})
        for second in (100, 104):
            settle(stored, lost(100), second)

        assert ignored(stored) == ["Overtaken"]

    def test_one_whose_incident_has_lost_its_status_goes_on_for_what_is_seen(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)
        stored.intend("Ignore", LASTS)
        settle(stored, view(dead()), 5)
        stored.loses_status(stored.incident.name)

        settle(stored, with_fields(view(dead()), stale="silent"), 1000)
        for second in (1010, 1014):
            settle(stored, view(dead()), second)

        assert (ignored(stored), stored.effects()) == (["InForce"], {})


class TestConfirmed:
    STICKY = policy(sticky=True)

    def sticky(self) -> Stored:
        """A sticky GPU, healthy for the whole soak time."""
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), second, self.STICKY)
        for second in (10, 700):
            settle(stored, self.mended, second, self.STICKY)
        return stored

    mended = view(gpu(0, xid(95), recovery_action=action(0, 9, 10)))

    def test_a_sticky_gpu_waits_for_a_person_after_its_soak(self) -> None:
        stored = self.sticky()

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert stored.incident.status.phase == "NeedsHuman"
        assert stored.incident.status.repair.needs == "Human"
        assert condition(stored.incident, "NeedsHuman") == ("True", "Sticky")
        assert "spec.repairConfirmed" in stored.incident.status.message

    def test_a_confirmed_repair_releases_it(self) -> None:
        stored = self.sticky()
        stored.intend("RepairConfirmed", LASTS)

        settle(stored, self.mended, 710, self.STICKY)

        assert stored.effects() == {}
        assert stored.incident.status.phase == "Recovered"

    def test_a_class_that_is_switched_off_waits_for_nobody(self) -> None:
        stored = self.sticky()

        settle(stored, self.mended, 710, policy(mode="off"))

        assert stored.effects() == {}
        assert not stored.incident.open

    def test_a_confirmation_does_not_replace_the_soak(self) -> None:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), second, self.STICKY)
        stored.intend("RepairConfirmed", LASTS)

        settle(stored, self.mended, 10, self.STICKY)
        settle(stored, self.mended, 609, self.STICKY)
        assert stored.effects() == {"gpu-0": "NoExecute"}
        settle(stored, self.mended, 610, self.STICKY)
        assert stored.effects() == {}

    def test_a_later_signal_overtakes_a_confirmation(self) -> None:
        stored = self.sticky()
        stored.intend("RepairConfirmed", until(5000))
        again = view(gpu(0, xid(95, seen=705), recovery_action=action(1, 706, 706)))
        settle(stored, with_fields(self.mended, stale="silent"), 704, self.STICKY)
        settle(stored, again, 706, self.STICKY)

        mended = view(gpu(0, xid(95, seen=705), recovery_action=action(0, 710, 710)))
        for second in (711, 1400):
            settle(stored, mended, second, self.STICKY)

        assert stored.incident.status.phase == "NeedsHuman"
        assert stored.effects() != {}
        assert any("overtaken by a later signal" in text for text in texts(stored))

    def test_one_that_was_overtaken_counts_again_when_it_is_written_anew(self) -> None:
        stored = self.sticky()
        stored.intend("RepairConfirmed", LASTS)
        again = view(gpu(0, xid(95, seen=705), recovery_action=action(1, 706, 706)))
        settle(stored, with_fields(self.mended, stale="silent"), 704, self.STICKY)
        settle(stored, again, 706, self.STICKY)
        mended = view(gpu(0, xid(95, seen=705), recovery_action=action(0, 710, 710)))
        for second in (711, 1400):
            settle(stored, mended, second, self.STICKY)
        stored.intend("RepairConfirmed", LASTS)
        settle(stored, mended, 1401, self.STICKY)
        assert stored.effects() != {}, "the same words are the overtaken ones"

        stored.intend("RepairConfirmed", until(5000))
        settle(stored, mended, 1402, self.STICKY)

        assert stored.effects() == {}

    def test_one_whose_incident_has_lost_its_status_untaints_nothing(self) -> None:
        """Nobody knows any more which signals it was given for."""
        stored = self.sticky()
        one = stored.incident
        stored.incidents[one.name] = msgspec.structs.replace(one, status=IncidentStatus())
        stored.intend("RepairConfirmed", LASTS)

        for second in (710, 720, 1500):
            settle(stored, self.mended, second, self.STICKY)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_an_expired_confirmation_releases_nothing(self) -> None:
        stored = self.sticky()
        stored.intend("RepairConfirmed", until(705))

        settle(stored, self.mended, 710, self.STICKY)

        assert stored.incident.status.phase == "NeedsHuman"

    def test_a_board_that_was_taken_out_is_closed_on_a_users_word(self) -> None:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(dead()), second, self.STICKY)
        empty = view(gpu(1))
        settle(stored, empty, 10, self.STICKY)
        assert stored.effects() == {"gpu-0": "NoExecute"}

        stored.intend("RepairConfirmed", LASTS)
        unanswered = with_fields(empty, stale="silent")
        settle(stored, unanswered, 11, self.STICKY)
        assert stored.incident.open
        blind = report_with(empty, sources=(SourceHealth(name="nvml", state="Down"),))
        settle(stored, with_fields(empty, report=blind), 11, self.STICKY)
        assert stored.incident.open

        settle(stored, empty, 12, self.STICKY)
        assert stored.effects() == {}
        assert stored.incident.status.phase == "Closed"
        assert "ana confirmed the repair" in stored.incident.status.message
