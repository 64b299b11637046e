"""What begins a soak anew: more memory errors, and a later date of health."""

import pytest

from exporter.model.node_health import MemoryHealth
from tests.remediator.builders import RESET, Stored, action, at, gpu, view, xid
from tests.remediator.playing import settle


class TestErrorsOverADriverReload:
    """The driver's own count begins at zero again; the count of the GPU's life cannot be read."""

    def healthy(self, stored: Stored, second: float, errors: int | None, epoch: int = 1) -> None:
        counted = MemoryHealth(dbe_volatile=errors)
        one = gpu(0, xid(95), recovery_action=action(0, 20, 20), memory=counted, epoch=epoch)
        settle(stored, view(one), second)

    def soaking(self) -> Stored:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), second)
        self.healthy(stored, 30, errors=5)
        assert stored.incident.status.recovery.healthy_since == at(30)
        return stored

    @pytest.mark.parametrize(("errors", "epoch"), [(3, 1), (3, 2), (5, 2), (9, 2)])
    def test_an_error_after_the_reload_is_a_gap(self, errors: int, epoch: int) -> None:
        stored = self.soaking()
        self.healthy(stored, 100, errors, epoch)

        assert stored.incident.status.recovery.healthy_since == at(100)

    @pytest.mark.parametrize("epoch", [1, 2])
    def test_a_reload_without_an_error_is_none_and_the_next_error_is(self, epoch: int) -> None:
        stored = self.soaking()
        self.healthy(stored, 100, 0, epoch)
        assert stored.incident.status.recovery.healthy_since == at(30)

        self.healthy(stored, 200, 1, epoch)
        assert stored.incident.status.recovery.healthy_since == at(200)

    def test_a_count_that_cannot_be_read_after_the_reload_begins_at_zero_all_the_same(self) -> None:
        stored = self.soaking()
        self.healthy(stored, 100, None, epoch=2)
        self.healthy(stored, 200, 4, epoch=2)

        assert stored.incident.status.recovery.healthy_since == at(200)


class TestALaterDateOfHealth:
    """As of an XID that the driver says is over: the agent may restart and forget it."""

    def seen(self, stored: Stored, second: float, since: float) -> None:
        one = gpu(0, xid(95), recovery_action=action(0, since, second))
        settle(stored, view(one), second)

    def soaking(self) -> Stored:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), second)
        self.seen(stored, 30, since=20)
        assert stored.incident.status.recovery.healthy_since == at(30)
        return stored

    def test_begins_the_soak_anew_and_stays_when_it_is_forgotten(self) -> None:
        stored = self.soaking()

        self.seen(stored, 100, since=90)
        self.seen(stored, 110, since=20)

        assert stored.incident.status.recovery.healthy_since == at(100)

    @pytest.mark.parametrize("since", [30.0, 101.0])
    def test_no_later_than_ours_or_ahead_of_our_clock_is_none(self, since: float) -> None:
        stored = self.soaking()

        self.seen(stored, 100, since=since)

        assert stored.incident.status.recovery.healthy_since == at(30)


class TestAnErrorThatNothingFollowsFrom:
    """A remap, or a link that recovers: neither the catalogue nor the driver asks for anything."""

    @pytest.mark.parametrize("code", [63, 160, 74, 136, *range(144, 151), 155])
    @pytest.mark.parametrize(("action_value", "since"), [(0, 30), (1, None)])
    def test_restarts_the_soak_only_with_an_action(
        self, code: int, action_value: int, since: float | None
    ) -> None:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), second)
        settle(stored, view(gpu(0, xid(95), recovery_action=action(0, 20, 30))), 30)
        assert stored.incident.status.recovery.healthy_since == at(30)

        changed = 101 if action_value else 20
        later = gpu(0, xid(95), xid(code, 100), recovery_action=action(action_value, changed, 102))
        settle(stored, view(later), 103)

        expected = None if since is None else at(since)
        assert stored.incident.status.recovery.healthy_since == expected
