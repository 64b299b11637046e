"""A confirmed repair ends only what was reported when the confirmation was first read."""

import msgspec
import pytest

from exporter.model.node_health import MemorySlices, NvlinkHealth, XidRecord
from remediator.model.intent import Intent
from remediator.plan.view import NodeView
from tests.remediator.builders import (
    LASTS,
    NO_ACTION_FIELD,
    Stored,
    at,
    gpu,
    mig_gpu,
    policy,
    report_with,
    until,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.test_confirmed_repair import (
    CONFIRMED,
    DAY,
    SICK,
    SOAKED,
    confirmed,
    old,
    recovered,
    settle,
)


def counts_anew(code: int, count: int, last: float) -> XidRecord:
    """An agent that has lost its report reads the log again, from a later line on."""
    return msgspec.structs.replace(xid(code, count=count), last_seen=at(last))


def on_slice(size: int, count: int, last: float) -> XidRecord:
    """An error on an instance of a size. Those of one number and start have one key."""
    record = msgspec.structs.replace(xid(95, gi=1, count=count), last_seen=at(last))
    return msgspec.structs.replace(
        record, ci=0, placement=MemorySlices(0, size), mig_mode="Enabled"
    )


def on_slices(*records: XidRecord) -> NodeView:
    return view(mig_gpu(0, *records, recovery_action=NO_ACTION_FIELD))


class TestANewErrorTaints:
    @pytest.mark.parametrize(("first", "new"), [(74, 95), (95, 74), (95, 151), (95, 62), (95, 79)])
    def test_that_syslog_reports_first(self, first: int, new: int) -> None:
        """By syslog alone it is no fault, so nothing demands a taint until NVML reports it."""
        stored = confirmed(old(xid(first)))
        settle(stored, old(xid(first), xid(new, seen=300, sources=("syslog",))), 300)

        for seconds in (301, SOAKED, DAY):
            settle(stored, old(xid(first), xid(new, seen=300)), seconds)

        assert stored.effects() != {}

    @pytest.mark.parametrize(
        ("before", "after", "again"),
        [
            (SICK, 300, old(xid(95), xid(151, seen=300, sources=("syslog",)))),
            (old(xid(119, count=80)), 5000, old(counts_anew(119, 4, last=5000))),
            (old(xid(95, count=3)), 5000, old(counts_anew(95, 2, last=5000))),
            (old(xid(74, count=3)), 300, old(counts_anew(74, 2, last=300))),
            (
                on_slices(on_slice(1, 1, last=0), on_slice(2, 3, last=1)),
                1000,
                on_slices(on_slice(1, 2, last=1000), on_slice(2, 3, last=1)),
            ),
        ],
        ids=[
            "by syslog alone",
            "fewer timeouts, recovered",
            "a lower count, recovered",
            "a lower count, soaking",
            "on another slice of the same key",
        ],
    )
    def test_also_one_that(self, before: NodeView, after: float, again: NodeView) -> None:
        stored = confirmed(before)
        settle(stored, before, min(after - 1, SOAKED))

        for seconds in (after, after + 10, after + DAY):
            settle(stored, again, seconds)

        assert stored.effects() != {}

    def test_that_comes_in_the_report_with_which_the_confirmation_is_read(self) -> None:
        """Which came first is not known."""
        stored = Stored()
        settle(stored, SICK, 1)
        stored.intend("RepairConfirmed", LASTS)

        for seconds in (300, 301, DAY):
            settle(stored, old(xid(95), xid(119, seen=300)), seconds)

        assert stored.effects() != {}

    @pytest.mark.parametrize("back", [400, SOAKED + 400], ids=["soaking", "recovered"])
    def test_that_a_lost_peer_explained_until_it_came_back(self, back: float) -> None:
        peer = gpu(1, recovery_action=NO_ACTION_FIELD)
        lost = msgspec.structs.replace(peer, presence="Lost", presence_since=at(300))
        well = msgspec.structs.replace(
            peer, presence_since=at(back), epoch=2, epoch_started=at(back)
        )
        again = gpu(0, xid(95), xid(74, seen=300), recovery_action=NO_ACTION_FIELD)
        stored = confirmed(view(gpu(0, xid(95), recovery_action=NO_ACTION_FIELD), peer))
        for seconds in (300, back - 1):
            settle(stored, view(again, lost), seconds)

        for seconds in (back, back + 10, back + SOAKED, DAY):
            settle(stored, view(again, well), seconds)

        assert "gpu-0" in stored.effects()

    def test_that_came_before_the_first_xid_of_its_incident(self) -> None:
        """A link that is down opened it; the line of before is read late."""
        down = old(nvlink=NvlinkHealth(failed=(1,)), presence_since=at(5))
        stored = confirmed(down)
        late = old(xid(95, seen=3), presence_since=at(5))

        for seconds in (50, 60, 60 + SOAKED, DAY):
            settle(stored, late, seconds)

        assert stored.effects() != {}

    @pytest.mark.parametrize("enforced", [301, 2 * SOAKED], ids=["soaking", "recovered"])
    def test_whose_class_was_off_when_it_came(self, enforced: float) -> None:
        shipped = policy()
        rows = tuple(
            msgspec.structs.replace(row, mode="off") if row.fault_class == "fabric" else row
            for row in shipped.rows
        )
        off = msgspec.structs.replace(shipped, rows=rows)
        both = old(xid(95), xid(74, seen=300))
        stored = confirmed(rows=off)
        for seconds in (300, enforced - 1):
            settle(stored, both, seconds, off)

        for seconds in (enforced, DAY):
            settle(stored, both, seconds)

        assert stored.effects() != {}

    def test_in_a_boot_whose_clock_is_behind(self) -> None:
        """An incident keeps the counts and dates of the boot before."""

        def booted(*xids: XidRecord) -> NodeView:
            seen = old(*xids)
            report = report_with(seen, boot_id="boot-2", observed_at=at(-DAY))
            return with_fields(seen, report=report)

        stored = Stored()
        settle(stored, old(xid(95, count=2)), 1)
        first = xid(48, seen=-2 * DAY)
        settle(stored, booted(first), 10)
        stored.intend("RepairConfirmed", LASTS)
        for seconds in (CONFIRMED, SOAKED + 10):
            settle(stored, booted(first), seconds)
        assert stored.effects() == {}

        for seconds in (2000, 2010, DAY):
            settle(stored, booted(first, xid(95, seen=3000 - 2 * DAY)), seconds)

        assert stored.effects() != {}

    def test_after_the_clock_was_set_back_while_the_report_was_lost(self) -> None:
        stored = recovered()
        again = old(xid(95, seen=-3000))
        report = report_with(again, observed_at=at(-2990))

        for seconds in (700, 710, DAY):
            settle(stored, with_fields(again, report=report), seconds)

        assert stored.effects() != {}


def add_duplicate(stored: Stored) -> tuple[str, str]:
    """Let an older incident lead, which no user confirmed; returns its name and the duplicate's."""
    written = stored.incident
    older = msgspec.structs.replace(
        written,
        metadata=msgspec.structs.replace(
            written.metadata, name=f"{written.name[:-1]}0", uid="uid-older"
        ),
        spec=msgspec.structs.replace(written.spec, repair_confirmed=msgspec.UNSET),
        status=with_fields(written.status, intents=(), phase="Tainted", healthy_since=None),
    )
    stored.incidents[older.name] = older
    settle(stored, SICK, 30)
    assert stored.incidents[written.name].status.history.duplicate_of == older.name
    return older.name, written.name


def test_a_confirmation_that_is_removed_from_a_closed_duplicate_counts_no_longer() -> None:
    stored = confirmed()
    leading, duplicate = add_duplicate(stored)

    stored.intend("RepairConfirmed", None, duplicate)
    settle(stored, SICK, 40)

    assert stored.incidents[leading].status.phase not in {"Verifying", "Recovered"}
    assert stored.effects() != {}


@pytest.mark.parametrize("stale", ["", "silent"])
@pytest.mark.parametrize("ends", ["withdrawn", "expired"])
def test_a_duplicates_confirmation_does_not_count_once_the_incidents_own_has_ended(
    ends: str, stale: str
) -> None:
    """It may have been given before the error that overtook that."""
    stored = confirmed()
    leading, duplicate = add_duplicate(stored)
    stored.intend("RepairConfirmed", until(2000), leading)
    settle(stored, SICK, 40)
    stored.intend("RepairConfirmed", Intent(by="bob", reason="another one"), duplicate)
    both = old(xid(95), xid(119, seen=300))
    for seconds in (300, 1000):
        settle(stored, both, seconds)

    if ends == "withdrawn":
        stored.intend("RepairConfirmed", None, leading)
    settle(stored, with_fields(both, stale=stale), 2001)
    for seconds in (2010, 2010 + SOAKED, DAY):
        settle(stored, both, seconds)

    assert stored.effects() != {}


def test_a_duplicates_confirmation_that_counts_may_be_changed() -> None:
    stored = confirmed()
    _, duplicate = add_duplicate(stored)
    settle(stored, SICK, 40)
    stored.intend("RepairConfirmed", until(5 * DAY), duplicate)

    for seconds in (50, 60, 60 + SOAKED):
        settle(stored, SICK, seconds)

    assert stored.effects() == {}


def test_one_that_was_overtaken_stays_so_where_its_end_comes_twice() -> None:
    """The next leader's clock is behind."""
    stored = confirmed(intent=until(2000))
    both = old(xid(95), xid(119, seen=-30))
    for seconds in (300, 310, 2001, 1000, 1001, 1900):
        settle(stored, both, seconds)

    assert stored.effects() != {}
