"""What the leader's Lease says of the policy, and what a new leader makes of it."""

from datetime import datetime, timedelta

import msgspec
import pytest

from remediator.controller.policy_on_lease import (
    CHANGED,
    DIFFERS,
    DISAGREEING,
    HASH,
    MODES,
    Policies,
    PolicyOnLease,
)
from remediator.policy.fingerprint import of_permissions
from remediator.policy.limits import Cap, Caps, Correlation, Limits
from remediator.policy.load import read
from remediator.policy.place import Area
from remediator.policy.table import Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import at, policy
from tests.remediator.clock import Clock

MILD, STRONG = policy(mode="incident-only"), policy(mode="enforce")
RESTRICTS = policy(ceiling="NoSchedule")


class Replica:
    """One process with its clocks."""

    def __init__(self, own: Policy) -> None:
        self.clock = Clock(1000.0)
        self.changes: list[datetime] = []
        self.before: Policies = None
        self.lease = PolicyOnLease(self.note, self.clock.date, self.clock)
        self.lease.on_policy_loaded(own)

    def note(self, changed_at: datetime, before: Policies) -> None:
        self.changes.append(changed_at)
        self.before = before


def test_the_lease_says_what_is_permitted_and_since_when() -> None:
    one = Replica(MILD)
    one.lease.on_lease_found({})
    one.clock.seconds = 1060
    one.lease.on_policy_loaded(STRONG)

    stated = one.lease.annotations()
    assert stated[HASH] == of_permissions(STRONG)
    assert stated[CHANGED] == f"{at(1060):%Y-%m-%dT%H:%M:%SZ}"
    assert "gpu=enforce" in stated[MODES]
    assert one.changes == [at(1060)]


def test_a_change_of_budgets_alone_is_no_change() -> None:
    one = Replica(STRONG)
    one.lease.on_policy_loaded(policy(limits=Limits(evict=Limits().taint), mode="enforce"))

    assert one.changes == []


HOUR = 3600.0
SPARED = """
defaults: {mode: enforce}
exempt: [{devices: GPU-1, why: burn-in, until: 2026-01-05T15:00:00Z}]
"""


def test_another_text_is_no_change() -> None:
    one = Replica(read(SPARED))
    stated = one.lease.annotations()
    one.lease.on_policy_loaded(read(SPARED.replace("burn-in", "a long burn-in")))

    assert one.changes == []
    assert one.lease.annotations() == stated


def test_a_milder_policy_is_no_change_and_goes_on_the_lease() -> None:
    one = Replica(STRONG)
    one.lease.on_policy_loaded(MILD)

    assert one.changes == []
    assert one.lease.annotations()[HASH] == of_permissions(MILD)


def test_the_end_of_an_exemption_is_a_change_from_what_was_in_force_before() -> None:
    one = Replica(read(SPARED))
    one.clock.seconds += HOUR
    one.lease.on_policy_loaded(read(SPARED).at(at(4 * HOUR)))

    assert (one.changes, one.before) == ([at(1000 + HOUR)], (read(SPARED),))


def test_of_two_changes_within_the_time_what_was_before_both_counts() -> None:
    one = Replica(MILD)
    one.clock.seconds += HOUR
    one.lease.on_policy_loaded(RESTRICTS)
    one.clock.seconds += 1799
    one.lease.on_policy_loaded(STRONG)
    assert one.before == (MILD, RESTRICTS)

    one.clock.seconds += 1800
    one.lease.on_policy_loaded(policy(soak=timedelta(seconds=60)))
    assert (one.before, len(one.changes)) == ((STRONG,), 3)


def test_an_exemption_that_was_set_and_taken_back_shortly_after_another_change_counts() -> None:
    spared = msgspec.structs.replace(STRONG, exempt=read(SPARED).exempt)
    one = Replica(MILD)
    one.clock.seconds += HOUR
    one.lease.on_policy_loaded(STRONG)
    for policy_of_then in (spared, STRONG, spared, STRONG):
        one.clock.seconds += 60
        one.lease.on_policy_loaded(policy_of_then)

    assert one.changes[-1] == at(1000 + HOUR + 240)
    assert one.before == (MILD, STRONG, spared)


def test_what_a_short_time_let_go_is_not_known_to_a_longer_one() -> None:
    def waiting(seconds: float, one: Policy) -> Policy:
        correlation = Correlation(after_change=timedelta(seconds=seconds))
        limits = msgspec.structs.replace(one.limits, correlation=correlation)
        return msgspec.structs.replace(one, limits=limits)

    one = Replica(MILD)
    one.clock.seconds += HOUR
    one.lease.on_policy_loaded(waiting(60, RESTRICTS))
    one.clock.seconds += 600
    one.lease.on_policy_loaded(waiting(60, STRONG))
    one.clock.seconds += 600
    one.lease.on_policy_loaded(waiting(1800, policy(soak=timedelta(seconds=60))))

    assert one.before is None


def test_a_milder_policy_of_long_ago_does_not_count() -> None:
    spared = msgspec.structs.replace(STRONG, exempt=read(SPARED).exempt)
    one = Replica(spared)
    one.clock.seconds += HOUR
    one.lease.on_policy_loaded(STRONG)
    one.clock.seconds += HOUR
    one.lease.on_policy_loaded(MILD)
    one.clock.seconds += 60
    one.lease.on_policy_loaded(STRONG)

    assert one.before == (STRONG, MILD)


def test_what_was_before_is_not_known_of_a_change_right_after_the_start() -> None:
    """Another one may have come just before."""
    one = Replica(MILD)
    one.clock.seconds += 1799
    one.lease.on_policy_loaded(STRONG)

    assert (len(one.changes), one.before) == (1, None)


class TestTheSameChangeOnAnotherReplica:
    def both(self, apart: float) -> Replica:
        """A leader sees the new file later than the replica that follows it."""
        before, after = Replica(MILD), Replica(MILD)
        for replica, seconds in ((after, HOUR), (before, HOUR + apart)):
            replica.clock.seconds += seconds
            replica.lease.on_policy_loaded(STRONG)
        after.clock.seconds = before.clock.seconds
        after.lease.on_lease_found(before.lease.annotations())
        return after

    def test_is_dated_by_the_later_one_and_what_was_before_is_known(self) -> None:
        one = self.both(120)

        assert (one.changes[-1], one.before) == (at(1000 + HOUR + 120), (MILD,))

    def test_may_be_another_one_when_they_are_far_apart(self) -> None:
        one = self.both(DISAGREEING + 1)

        assert (one.changes[-1], one.before) == (at(1000 + HOUR + DISAGREEING + 1), None)


def test_a_leader_that_starts_learns_from_the_lease_how_long_nothing_has_changed() -> None:
    before, after = Replica(MILD), Replica(STRONG)
    before.lease.on_policy_loaded(STRONG)
    after.clock.seconds += HOUR
    after.lease.on_lease_found(before.lease.annotations())
    assert (after.changes, after.before) == ([at(1000)], None)

    after.lease.on_policy_loaded(policy(soak=timedelta(seconds=60)))
    assert after.before == (STRONG,)


def test_a_new_leader_knows_when_the_policy_changed() -> None:
    before, after = Replica(MILD), Replica(STRONG)
    before.lease.on_policy_loaded(STRONG)
    after.clock.seconds = 1500

    after.lease.on_lease_found(before.lease.annotations())

    assert after.changes == [at(1000)]
    assert after.lease.why_disagrees(STRONG) == ""


def test_a_date_ahead_of_our_clock_is_now() -> None:
    one = Replica(STRONG)
    one.lease.on_lease_found({HASH: of_permissions(STRONG), CHANGED: "2099-01-01T00:00:00Z"})

    assert one.changes == [at(1000)]


@pytest.mark.parametrize(
    "date",
    ["", "yesterday", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "253402300800", "9" * 400],
)
def test_a_date_that_cannot_be_read_is_none(date: str) -> None:
    one = Replica(STRONG)
    one.lease.on_lease_found({HASH: of_permissions(STRONG), CHANGED: date})

    assert one.changes == []


WINDOW = Window(
    name="firmware", area=Area(nodes=("*",)), when=Once(at(0), at(0) + timedelta(hours=9))
)


@pytest.mark.parametrize(
    "newer",
    [
        msgspec.structs.replace(STRONG, stopped="ana: a bad driver"),
        msgspec.structs.replace(STRONG, maintenance=(WINDOW,)),
        policy(limits=Limits(evict=Caps(cluster=Cap(1))), mode="enforce"),
    ],
    ids=["emergency stop", "window", "budget"],
)
class TestOtherBrakes:
    """The file of the new leader is older than the one that the leader before obeyed."""

    def gained(self, newer: Policy) -> Replica:
        before, after = Replica(STRONG), Replica(STRONG)
        before.lease.on_lease_found({})
        before.lease.on_policy_loaded(newer)
        after.lease.on_lease_found(before.lease.annotations())
        return after

    def test_count_until_the_file_arrives(self, newer: Policy) -> None:
        one = self.gained(newer)
        held = one.lease.policy_in_force(STRONG)
        assert (bool(held.disagrees), held.stopped) == (True, newer.stopped)

        one.lease.on_policy_loaded(newer)
        assert one.lease.policy_in_force(newer) == newer

    def test_count_for_five_minutes_and_no_longer(self, newer: Policy) -> None:
        one = self.gained(newer)
        one.clock.seconds += DISAGREEING - 1
        assert one.lease.policy_in_force(STRONG) != STRONG

        one.clock.seconds += 1
        assert one.lease.policy_in_force(STRONG) == STRONG

    def test_are_no_change_of_what_is_permitted(self, newer: Policy) -> None:
        assert self.gained(newer).changes == []

    def test_are_not_missed_where_an_older_version_led(self, newer: Policy) -> None:
        one = Replica(newer)
        one.lease.on_lease_found({HASH: of_permissions(newer), MODES: "", CHANGED: ""})

        assert one.lease.policy_in_force(newer) == newer


class TestAnotherPolicy:
    def gained(self) -> Replica:
        one = Replica(MILD)
        one.lease.on_lease_found(Replica(STRONG).lease.annotations())
        return one

    def test_disagrees_for_five_minutes_and_no_longer(self) -> None:
        one = self.gained()
        one.clock.seconds += DISAGREEING - 1
        assert of_permissions(STRONG) in one.lease.why_disagrees(MILD)

        one.clock.seconds += 1
        assert one.lease.why_disagrees(MILD) == ""
        assert one.lease.annotations()[HASH] == of_permissions(MILD)

    def test_is_a_change_as_late_as_now(self) -> None:
        assert self.gained().changes == [at(1000)]

    def test_stays_on_the_lease_meanwhile(self) -> None:
        """Who leads next, before this replica has obeyed its own, compares with the same."""
        one = self.gained()

        assert one.lease.annotations()[HASH] == of_permissions(STRONG)

    def test_disagrees_until_the_same_file_is_in_force(self) -> None:
        one = self.gained()
        one.lease.on_policy_loaded(STRONG)
        assert one.lease.why_disagrees(MILD)

        assert one.lease.why_disagrees(STRONG) == ""

    def test_may_change_once_the_two_agreed(self) -> None:
        one = self.gained()
        one.lease.on_policy_loaded(STRONG)
        assert one.lease.why_disagrees(STRONG) == ""

        one.lease.on_policy_loaded(MILD)
        assert one.lease.why_disagrees(MILD) == ""
        assert one.lease.annotations()[HASH] == of_permissions(MILD)

    def test_is_none_where_this_replica_led_before_and_changed_it_itself(self) -> None:
        one = Replica(STRONG)
        one.lease.on_lease_found({})
        stated = one.lease.annotations()
        one.lease.on_policy_loaded(MILD)

        one.lease.on_lease_found(stated)

        assert one.lease.why_disagrees(MILD) == ""

    def test_begins_anew_with_each_gain(self) -> None:
        one = self.gained()
        one.clock.seconds += DISAGREEING - 1
        one.lease.on_lease_found(Replica(STRONG).lease.annotations())
        one.clock.seconds += timedelta(minutes=4).total_seconds()

        assert one.lease.why_disagrees(MILD)

    def test_lasts_no_longer_when_remediators_restart_again_and_again(self) -> None:
        one, seconds = self.gained(), 0.0
        while one.lease.why_disagrees(MILD) and seconds < 2 * DISAGREEING:
            found, seconds = one.lease.annotations(), seconds + 60
            one = Replica(MILD)
            one.clock.seconds += seconds
            one.lease.on_lease_found(found)

        assert seconds == DISAGREEING
        assert one.lease.annotations()[HASH] == of_permissions(MILD)
        assert one.lease.annotations()[DIFFERS] == ""

    @pytest.mark.parametrize("date", ["2099-01-01T00:00:00Z", "2026-01-01T00:00:00", "yesterday"])
    def test_lasts_five_minutes_by_a_date_that_proves_nothing(self, date: str) -> None:
        one = Replica(MILD)
        one.lease.on_lease_found(Replica(STRONG).lease.annotations() | {DIFFERS: date})
        one.clock.seconds += DISAGREEING - 1
        assert one.lease.why_disagrees(MILD)

        one.clock.seconds += 1
        assert one.lease.why_disagrees(MILD) == ""
