"""Which neighbour explains an NVLink that went down where no NVSwitch is: by dates and numbers."""

from datetime import datetime
from typing import Any

import pytest

from exporter.model.node_health import GpuHealth, NvlinkHealth
from remediator.diagnose import links
from remediator.diagnose.fault import NO_SURROUNDINGS, Sick
from remediator.diagnose.verdict import verdict
from tests.remediator.builders import Stored, action, at, dead, gpu, report, uuid, view, with_fields
from tests.remediator.builders import xid as xid_of
from tests.remediator.playing import settle

DAY = 86400.0
WELL = NvlinkHealth(up=(0, 1, 2, 3))
BROKEN = NvlinkHealth(down=(0, 1, 2, 3), failed=(0, 1, 2, 3))
ONE = NvlinkHealth(up=(1, 2, 3), down=(0,), failed=(0,))
UNWIRED = NvlinkHealth(up=(0, 1, 2, 3), down=(4, 5))
REQUESTS: dict[str, Any] = {"recovery_action": action(4, 0, 3 * DAY)}
AWAY: dict[str, Any] = {
    "presence": "Unknown",
    "presence_reason": "SetAside",
    "presence_since": at(0),
}


def board(
    index: int, nvlink: NvlinkHealth = WELL, *, failed: float | None = None, **fields: Any
) -> GpuHealth:
    """A GPU whose XID 74 dates its failed links; `failed` None: nothing does."""
    errors = () if failed is None else (xid_of(74, failed),)
    fields = {"recovery_action": action(observed=4 * DAY), "nvlink": nvlink} | fields
    return gpu(index, *errors, **fields)


def gone(index: int) -> GpuHealth:
    """A GPU that was lost at T0, and that NVML last read with every link up."""
    return dead(index, nvlink=WELL)


def sick(*gpus: GpuHealth, seconds: float = 4 * DAY) -> set[int]:
    """Return which GPUs have the fault that their links went down."""
    around = with_fields(NO_SURROUNDINGS, gpus=gpus, reported_at=at(seconds))
    found: set[int] = set()
    for index, one in enumerate(gpus):
        judged = verdict(one, around)
        causes = [fault.cause for fault in judged.faults] if isinstance(judged, Sick) else []
        if "nvlink-failed" in causes:
            found.add(index)
    return found


class TestTroubleOfOthers:
    """Bridges join A and C, and B and D. B has been in trouble for days when that of A fails."""

    NEIGHBOURS = (
        pytest.param(gone(1), id="lost"),
        pytest.param(board(1, **AWAY), id="passed through"),
        pytest.param(board(1, **REQUESTS), id="requests an action"),
        pytest.param(board(1, UNWIRED, mig_mode="Enabled"), id="has MIG on"),
    )

    @pytest.mark.parametrize("neighbour", NEIGHBOURS)
    @pytest.mark.parametrize("failed", [3 * DAY, None], ids=["dated", "undated"])
    @pytest.mark.parametrize("broken", [BROKEN, ONE], ids=["a bridge", "a link"])
    def test_it_hides_no_link_between_two_others(
        self, neighbour: GpuHealth, failed: float | None, broken: NvlinkHealth
    ) -> None:
        one, two = (board(index, broken, failed=failed) for index in (0, 2))

        assert sick(one, neighbour, two, board(3)) == {0, 2}

    @pytest.mark.parametrize("failed", [3 * DAY, None], ids=["dated", "undated"])
    def test_one_that_lost_more_links_days_ago_hides_none(self, failed: float | None) -> None:
        six = NvlinkHealth(down=tuple(range(6)), failed=tuple(range(6)))
        one, two = (board(index, BROKEN, failed=failed) for index in (0, 2))

        assert sick(one, board(1), two, board(3, six, failed=0)) == {0, 2, 3}
        assert sick(one, board(1), two, board(3, six)) == {0, 2, 3}

    @pytest.mark.parametrize("dates", [(3 * DAY, 0), (3 * DAY, None), (None, 0), (None, None)])
    def test_a_lost_one_explains_only_what_went_down_with_it(
        self, dates: tuple[float | None, float | None]
    ) -> None:
        """D, at the other end of its bridge, is spared where a date shows which bridge it is."""
        later, then = dates
        one, two = (board(index, BROKEN, failed=later) for index in (0, 2))
        found = sick(one, gone(1), two, board(3, BROKEN, failed=then))

        assert found == ({0, 2, 3} if later is None else {0, 2})

    def test_a_taint_comes_and_stays(self) -> None:
        stored = Stored()
        for seconds in (3 * DAY, 3 * DAY + 5, 3 * DAY + 60, 30 * DAY):
            ends = (board(index, BROKEN, failed=3 * DAY) for index in (0, 2))
            one, two = (with_fields(end, recovery_action=action(observed=seconds)) for end in ends)
            gpus = (one, board(1, **AWAY), two)
            settle(stored, view(*gpus, report=report(*gpus, observed_at=at(seconds))), seconds)

        assert stored.effects() == {"gpu-0": "NoSchedule", "gpu-2": "NoSchedule"}


class TestItsOtherEnd:
    @pytest.mark.parametrize("failed", [0, None], ids=["dated", "undated"])
    @pytest.mark.parametrize(
        "neighbour",
        [
            gone(1),
            board(1, **AWAY),
            board(1, BROKEN, mig_mode="Enabled", mig_since=at(0)),
            board(1, mig_mode="Enabled", mig_since=at(0)),
        ],
        ids=["lost", "passed through", "has MIG on", "has MIG on, and no link is read there"],
    )
    def test_the_links_of_the_only_gpu_that_lost_some_end_there(
        self, neighbour: GpuHealth, failed: float | None
    ) -> None:
        """An end that answers would have lost them, too."""
        assert sick(board(0, BROKEN, failed=failed), neighbour, board(2), board(3)) == set()

    @pytest.mark.parametrize("turned", [at(0), None], ids=["since a day", "since the boot"])
    def test_a_link_that_failed_long_after_mig_was_turned_on_is_not_explained_by_it(
        self, turned: datetime | None
    ) -> None:
        neighbour = board(1, UNWIRED, mig_mode="Enabled", mig_since=turned)

        assert sick(board(0, ONE, failed=3 * DAY), neighbour, board(2)) == {0}

    @pytest.mark.parametrize("turned", [None, at(4 * DAY)], ids=["away", "under MIG"])
    def test_links_are_trained_anew_when_the_other_end_comes_back(
        self, turned: datetime | None
    ) -> None:
        """The reports are of day four; it was away, or under MIG, until a moment ago."""
        back: dict[str, Any] = {"mig_since": turned} if turned else {"presence_since": at(4 * DAY)}

        assert sick(board(0, BROKEN), board(1, **back), board(2)) == set()
        assert sick(board(0, BROKEN), board(1), board(2)) == {0}

    @pytest.mark.parametrize("failed", [0, None], ids=["dated", "undated"])
    def test_a_gpu_that_fell_off_explains_as_many_links_as_it_has(
        self, failed: float | None
    ) -> None:
        """Each is joined to each by four links."""
        each = NvlinkHealth(up=tuple(range(8)), down=(8, 9, 10, 11), failed=(8, 9, 10, 11))
        more = NvlinkHealth(up=tuple(range(7)), down=(7, 8, 9), failed=(7, 8, 9, 10, 11))
        ends = [board(index, each, failed=failed) for index in (0, 2, 3)]
        broken = [board(index, more, failed=3 * DAY) for index in (0, 2)]

        assert sick(ends[0], gone(1), *ends[1:]) == set()
        assert {0, 2} <= sick(broken[0], gone(1), broken[1], ends[2])

    @pytest.mark.parametrize("failed", [0, None], ids=["dated", "undated"])
    def test_two_explain_together_what_neither_does(self, failed: float | None) -> None:
        one, two = (board(index, BROKEN, failed=failed) for index in (0, 2))

        assert sick(one, gone(1), two, gone(3)) == set()
        assert sick(one, gone(1), two, board(3)) == {0, 2}

    def test_a_later_failure_is_not_of_a_gpu_that_is_away_since_long(self) -> None:
        assert sick(board(0, ONE, failed=3 * DAY), gone(1)) == {0}

    def test_an_earlier_one_may_be(self) -> None:
        """Only the last change of its presence has a date: NVML may have been away since."""
        later = board(1, presence="Unknown", presence_since=at(DAY))

        assert sick(board(0, ONE, failed=0), later) == set()

    def test_what_only_syslog_reports_dates_no_link(self) -> None:
        """Any program of the node may have written it."""
        forged = with_fields(xid_of(74, 3 * DAY), sources=("syslog",))
        one = with_fields(board(0, BROKEN), xids=(forged,))
        around = with_fields(NO_SURROUNDINGS, gpus=(one, gone(1)), reported_at=at(4 * DAY))

        (remark,) = links.remarks(one, around)
        assert remark.endswith(f"{uuid(1)} on the same node is in trouble; nothing dates it")


class TestNearInTime:
    @pytest.mark.parametrize("seconds", [0, 60, 61])
    def test_a_request_explains_undated_links_for_a_minute(self, seconds: float) -> None:
        asks = board(1, **REQUESTS)

        assert sick(board(0, ONE), asks, seconds=seconds) == ({0} if seconds > 60 else set())

    def test_a_request_explains_as_many_links_as_its_gpu_lost_then(self) -> None:
        asks = board(1, BROKEN, recovery_action=action(1, 5, 9))
        lost = [board(index, BROKEN, failed=0) for index in (0, 2)]

        assert sick(lost[0], asks, board(2)) == {1}
        assert sick(lost[0], asks, lost[1]) == {0, 1, 2}
        assert sick(board(0, BROKEN), asks, board(2)) == {0, 1}  # it may be either end

    def test_links_that_failed_before_do_not_wait_for_what_began_later(self) -> None:
        one, two = (board(index, BROKEN, failed=-3 * DAY) for index in (0, 2))

        assert sick(one, gone(1), two, seconds=5) == {0, 2}
