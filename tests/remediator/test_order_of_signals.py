"""In which order signals arrive, and what their dates are, decides nothing."""

from itertools import pairwise
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.node_health import XidRecord
from remediator.model.incident_status import SEEN_LIMIT
from tests.remediator.builders import LASTS, Stored, action, at, mig_gpu, view, xid
from tests.remediator.playing import settle

FOURTH = "gpu-0-mig-1g10gb-19-4"
READ = action(observed=30)
RECORDS = st.lists(
    st.builds(
        xid,
        st.sampled_from((63, 94)),
        seen=st.floats(0, 2).map(lambda seconds: round(seconds, 1)),
        gi=st.integers(1, 4),
    ),
    min_size=2,
    max_size=4,
    unique_by=lambda record: (record.code, record.gi),
)


def reported(stored: Stored, second: float, *records: XidRecord) -> None:
    settle(stored, view(mig_gpu(0, *records, recovery_action=READ)), second)


def test_a_contained_error_dated_before_the_youngest_signal_is_tainted_all_the_same() -> None:
    stored, first, then = Stored(), xid(63, seen=0.4), xid(94, seen=0.1, gi=5)

    settle(stored, view(mig_gpu(0, first, recovery_action=action(observed=0))), 1)
    assert stored.incident.status.fault.seen_through == at(0.4)
    assert stored.effects() == {}
    for second in (2, 6):
        reported(stored, second, first, then)

    assert stored.effects() == {FOURTH: "NoExecute"}


@given(RECORDS, st.randoms(use_true_random=False))
def test_any_order_of_arrival_ends_in_the_same_taints(records: list[XidRecord], by: Random) -> None:
    ends: list[dict[str, str]] = []
    shuffled = list(records)
    by.shuffle(shuffled)
    for order in (records, shuffled):
        stored = Stored()
        for count in range(1, len(order) + 1):
            reported(stored, 3 + count, *order[:count])
        for second in (20, 25):
            reported(stored, second, *order)
        ends.append(stored.effects())

    assert all(end == other for end, other in pairwise(ends))


def test_a_signal_of_an_earlier_date_restarts_the_soak() -> None:
    stored, first, then = Stored(), xid(94, seen=0.4, gi=5), xid(94, seen=0.1, gi=2)
    for second in (1, 5, 500):
        reported(stored, second, first)
    assert stored.incident.status.recovery.healthy_since == at(1)

    reported(stored, 500, first, then)

    assert stored.incident.status.recovery.healthy_since == at(500)


def test_an_earlier_signal_overtakes_a_confirmation() -> None:
    stored, first, then = Stored(), xid(94, seen=0.4, gi=5), xid(94, seen=0.1, gi=2)
    for second in (1, 5):
        reported(stored, second, first)
    stored.intend("RepairConfirmed", LASTS)
    reported(stored, 6, first)
    reported(stored, 7, first, then)

    (confirmed,) = stored.incident.status.policy.intents
    assert confirmed.state == "Overtaken"


def test_one_more_of_the_same_record_is_new_and_a_second_source_is_not() -> None:
    stored, first = Stored(), xid(94, seen=0.4, gi=5)
    for second in (1, 5):
        reported(stored, second, first)
    before = stored.incident.status.recovery.healthy_since

    reported(
        stored, 10, msgspec.structs.replace(first, first_seen=at(0.1), sources=("kmsg", "nvml"))
    )
    assert stored.incident.status.recovery.healthy_since == before

    reported(stored, 20, msgspec.structs.replace(first, count=2))
    assert stored.incident.status.recovery.healthy_since == at(20)


def test_a_record_that_the_report_no_longer_names_is_no_news_when_it_is_back() -> None:
    stored, first = Stored(), xid(94, seen=0.4, gi=5)
    for second in (1, 5):
        reported(stored, second, first)
    before = stored.incident.status.recovery.healthy_since

    reported(stored, 10)
    reported(stored, 20, first)

    assert [signal.gpu_instance for signal in stored.incident.status.fault.seen_signals or ()] == [
        5
    ]
    assert stored.incident.status.recovery.healthy_since == before


def test_more_signals_than_are_remembered_are_judged_by_their_dates_and_settle() -> None:
    stored = Stored()
    many = [xid(94, seen=0.4, gi=gi % 7 + 1) for gi in range(SEEN_LIMIT + 10)]
    many = [msgspec.structs.replace(record, ci=index) for index, record in enumerate(many)]

    for second in (1, 2, 3):
        reported(stored, second, *many)

    assert len(stored.incident.status.fault.seen_signals or ()) == SEEN_LIMIT
    assert stored.incident.status.recovery.healthy_since == at(1)
