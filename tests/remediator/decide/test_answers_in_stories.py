"""What people say to an incident, and what it changes."""

import msgspec
import pytest

from exporter.report import SourceHealth
from remediator.objects.incident import Incident
from tests.remediator.builders import RESET, Stored, action, at, dead, gpu, policy, told, view, xid
from tests.remediator.telling import claim, settle

HOLD, IGNORE = "draguard.dev/hold", "draguard.dev/ignore"
CONFIRMED = "draguard.dev/confirmed-repaired"


def until(seconds: float) -> str:
    return f"{at(seconds):%Y-%m-%dT%H:%M:%SZ}; by=ana; why=a run must end first"


def condition(incident: Incident, kind: str) -> tuple[str, str]:
    (found,) = [one for one in incident.status.conditions if one.type == kind]
    return found.status, found.reason


def texts(stored: Stored) -> list[str]:
    return [entry.text for entry in stored.incident.status.timeline]


class TestHold:
    def test_a_held_fence_stays_and_nobody_is_moved_until_it_expires(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        stored.annotate(HOLD, until(100))

        settle(stored, seen, 50)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert condition(stored.incident, "Held") == ("True", "Human")

        settle(stored, seen, 100)
        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert condition(stored.incident, "Held") == ("False", "AsExpected")

    def test_a_hold_on_a_younger_duplicate_counts_and_the_own_one_outranks_it_while_it_lasts(
        self,
    ) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        first = stored.incident
        stored.annotate(HOLD, until(100))
        held = stored.incident.metadata
        meta = msgspec.structs.replace(held, name=first.name[:-1] + "2", uid="uid-2")
        stored.incidents = {
            first.name: first,
            meta.name: msgspec.structs.replace(first, metadata=meta),
        }

        for second in (5, 50):
            settle(stored, seen, second)
        assert stored.effects() == {"gpu-0": "NoSchedule"}

        own = msgspec.structs.replace(held, annotations={HOLD: until(60)})
        leading = msgspec.structs.replace(stored.incidents[first.name], metadata=own)
        stored.incidents[first.name] = leading
        settle(stored, seen, 59)
        assert [one.said for one in stored.incidents[first.name].status.answers] == [until(60)]
        settle(stored, seen, 61)
        assert stored.effects() == {"gpu-0": "NoSchedule"}, "the other one counts until 100"
        settle(stored, seen, 100)
        assert stored.effects() == {"gpu-0": "NoExecute"}

    @pytest.mark.parametrize("said", [until(2), "as long as you can"])
    def test_an_answer_that_counts_no_more_hides_none_that_does(self, said: str) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        first = stored.incident
        stored.annotate(HOLD, said)
        mine = stored.incident
        young = msgspec.structs.replace(
            first.metadata,
            name=first.name[:-1] + "2",
            uid="uid-2",
            annotations={HOLD: "forever; by=ana; why=x"},
        )
        stored.incidents = {
            first.name: mine,
            young.name: msgspec.structs.replace(first, metadata=young),
        }

        for second in (5, 50):
            settle(stored, seen, second)

        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_it_is_looked_at_again_when_the_hold_expires(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        stored.annotate(HOLD, until(100))

        assert settle(stored, seen, 50).wake_at == at(100)

    def test_a_hold_takes_nothing_down_and_stops_no_healing(self) -> None:
        stored, seen = Stored(), view(dead())
        for second in (1, 5):
            settle(stored, seen, second)
        stored.annotate(HOLD, "forever; by=ana; why=x")
        settle(stored, seen, 6)
        assert stored.effects() == {"gpu-0": "NoExecute"}

        for second in (20, 700):
            settle(stored, view(gpu(0)), second)

        assert stored.effects() == {}
        assert stored.incident.status.phase == "Recovered"

    def test_an_answer_and_its_end_are_told_once_with_who_and_why(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        stored.annotate(HOLD, until(100))
        for second in range(10, 200, 10):
            settle(stored, seen, second)

        heard = [text for text in texts(stored) if text.startswith("a person's answer")]
        said = f"hold until {at(100):%Y-%m-%dT%H:%M:%SZ} by ana: a run must end first"
        assert heard == [
            f"a person's answer counts: {said}",
            f"a person's answer has run out: {said}",
        ]

    def test_an_answer_that_is_taken_back_is_told(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        stored.annotate(HOLD, until(100))
        settle(stored, seen, 10)
        stored.annotate(HOLD, None)
        settle(stored, seen, 11)

        assert "a person took an answer back: hold" in texts(stored)
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_what_cannot_be_read_changes_nothing_and_is_said(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        stored.annotate(HOLD, "as long as you can")

        for second in (5, 6):
            settle(stored, seen, second)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert condition(stored.incident, "AnswerUnreadable") == ("True", "BadAnnotation")
        assert sum("not of the form" in text for text in texts(stored)) == 1


class TestIgnore:
    @pytest.mark.parametrize("blind", ["", "the agent of node-a has been silent"])
    def test_our_rules_come_down_at_once_and_the_fault_counts_again_at_the_end(
        self, blind: str
    ) -> None:
        stored, seen = Stored(), view(dead(), claims=(claim("gpu-0"),))
        for second in (1, 5):
            settle(stored, seen, second)
        stored.annotate(IGNORE, until(100))

        settle(stored, msgspec.structs.replace(seen, stale=blind), 50)
        assert stored.effects() == {}
        assert stored.incident.open
        assert "not acted on: ignore until" in stored.incident.status.message

        settle(stored, seen, 99)
        assert stored.effects() == {}
        settle(stored, seen, 100)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert stored.incident.status.deleted_rules == ()

    def test_an_ignored_fault_that_heals_is_closed(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)
        stored.annotate(IGNORE, "forever; by=ana; why=x")

        for second in (20, 700):
            settle(stored, view(gpu(0)), second)

        assert stored.incident.status.phase == "Recovered"


class TestConfirmed:
    STICKY = policy(sticky=True)

    def sticky(self) -> Stored:
        """A sticky GPU, healthy for the whole soak time."""
        stored = Stored()
        settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), 1, self.STICKY)
        for second in (10, 700):
            settle(stored, self.mended, second, self.STICKY)
        return stored

    mended = view(gpu(0, xid(95), recovery_action=action(0, 9, 10)))

    def test_a_sticky_gpu_waits_for_a_person_after_its_soak(self) -> None:
        stored = self.sticky()

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert stored.incident.status.phase == "NeedsHuman"
        assert stored.incident.status.needs == "person"
        assert condition(stored.incident, "NeedsHuman") == ("True", "Sticky")
        assert CONFIRMED in stored.incident.status.message

    def test_a_confirmed_repair_releases_it(self) -> None:
        stored = self.sticky()
        stored.annotate(CONFIRMED, "forever; by=ana; why=new board")

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
        settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), 1, self.STICKY)
        stored.annotate(CONFIRMED, "forever; by=ana; why=new board")

        settle(stored, self.mended, 10, self.STICKY)
        settle(stored, self.mended, 609, self.STICKY)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        settle(stored, self.mended, 610, self.STICKY)
        assert stored.effects() == {}

    def test_a_later_signal_overtakes_a_confirmation(self) -> None:
        stored = self.sticky()
        stored.annotate(CONFIRMED, until(5000))
        again = view(gpu(0, xid(95, seen=705), recovery_action=action(1, 706, 706)))
        settle(stored, msgspec.structs.replace(self.mended, stale="silent"), 704, self.STICKY)
        settle(stored, again, 706, self.STICKY)

        mended = view(gpu(0, xid(95, seen=705), recovery_action=action(0, 710, 710)))
        for second in (711, 1400):
            settle(stored, mended, second, self.STICKY)

        assert stored.incident.status.phase == "NeedsHuman"
        assert stored.effects() != {}
        assert any("overtaken by a later signal" in text for text in texts(stored))

    def test_an_expired_confirmation_releases_nothing(self) -> None:
        stored = self.sticky()
        stored.annotate(CONFIRMED, until(705))

        settle(stored, self.mended, 710, self.STICKY)

        assert stored.incident.status.phase == "NeedsHuman"

    def test_a_board_that_was_taken_out_is_closed_on_a_persons_word(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1, self.STICKY)
        empty = view(gpu(1))
        settle(stored, empty, 10, self.STICKY)
        assert stored.effects() == {"gpu-0": "NoSchedule"}

        stored.annotate(CONFIRMED, "forever; by=ana; why=sent back")
        silent = msgspec.structs.replace(empty, stale="silent")
        settle(stored, silent, 11, self.STICKY)
        assert stored.incident.open
        blind = told(empty, sources=(SourceHealth(name="nvml", up=False),))
        settle(stored, msgspec.structs.replace(empty, report=blind), 11, self.STICKY)
        assert stored.incident.open

        settle(stored, empty, 12, self.STICKY)
        assert stored.effects() == {}
        assert stored.incident.status.phase == "Closed"
        assert "ana says that it is dealt with" in stored.incident.status.message


class TestTheNextEpisode:
    """A person who spoke of a GPU is heard until the word runs out, however often it recovers."""

    FOREVER = "forever; by=ana; why=a test board"

    def first(self, key: str, value: str) -> Stored:
        """An episode that was answered to and is over."""
        stored = Stored()
        settle(stored, view(gpu(0, recovery_action=RESET)), 1)
        stored.annotate(key, value)
        for second in (10, 700):
            settle(stored, view(gpu(0, recovery_action=action(0, 5, 5))), second)
        assert not stored.incident.open
        return stored

    def second(self, stored: Stored, second: float) -> Incident:
        """The same board fails again."""
        for later in (second, second + 4):
            settle(stored, view(gpu(0, recovery_action=action(1, second - 1, second - 1))), later)
        return stored.incidents[max(stored.incidents)]

    @pytest.mark.parametrize("key", [HOLD, IGNORE])
    def test_is_answered_by_what_was_said_to_the_one_before(self, key: str) -> None:
        stored = self.first(key, self.FOREVER)

        again = self.second(stored, 800)

        assert stored.effects() == {}
        assert again.open
        (first, _) = sorted(stored.incidents)
        kind = key.rpartition("/")[2]
        heard = f"{kind} forever by ana: a test board (said to {first})"
        assert [one.text for one in again.status.timeline].count(
            f"a person's answer counts: {heard}"
        ) == 1
        assert heard in again.status.message

    def test_is_acted_on_when_the_word_has_run_out(self) -> None:
        stored = self.first(IGNORE, until(805))

        again = self.second(stored, 800)
        assert stored.effects() == {}
        settle(stored, view(gpu(0, recovery_action=action(1, 799, 799))), 805)

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert "a person's answer has run out" in " ".join(
            one.text for one in stored.incidents[again.name].status.timeline
        )

    def test_is_acted_on_when_the_word_is_taken_back_where_it_was_said(self) -> None:
        stored = self.first(IGNORE, self.FOREVER)
        again = self.second(stored, 800)
        first = stored.incidents[min(stored.incidents)]
        plain = msgspec.structs.replace(first.metadata, annotations={})
        stored.incidents[first.name] = msgspec.structs.replace(first, metadata=plain)

        settle(stored, view(gpu(0, recovery_action=action(1, 799, 799))), 810)

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert "a person took an answer back: ignore" in [
            one.text for one in stored.incidents[again.name].status.timeline
        ]

    def test_is_answered_by_its_own_word_first_even_one_that_has_run_out(self) -> None:
        stored = self.first(IGNORE, self.FOREVER)
        again = self.second(stored, 800)
        said = msgspec.structs.replace(again.metadata, annotations={IGNORE: until(806)})
        stored.incidents[again.name] = msgspec.structs.replace(
            stored.incidents[again.name], metadata=said
        )

        settle(stored, view(gpu(0, recovery_action=action(1, 799, 799))), 807)

        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_is_not_deaf_for_a_word_that_nobody_can_read(self) -> None:
        stored = self.first(IGNORE, self.FOREVER)
        again = self.second(stored, 800)
        odd = msgspec.structs.replace(again.metadata, annotations={IGNORE: "what?"})
        stored.incidents[again.name] = msgspec.structs.replace(
            stored.incidents[again.name], metadata=odd
        )
        for second in (810, 820):
            settle(stored, view(gpu(0, recovery_action=action(1, 799, 799))), second)
        assert stored.effects() == {}

        for second in (830, 1500):
            settle(stored, view(gpu(0, recovery_action=action(0, 825, 825))), second)
        assert not stored.incidents[again.name].open
        self.second(stored, 1600)
        assert len(stored.incidents) == 3
        assert stored.effects() == {}

    def test_needs_its_own_confirmation_of_a_repair(self) -> None:
        stored = self.first(CONFIRMED, self.FOREVER)

        again = self.second(stored, 800)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert again.status.answers == ()
