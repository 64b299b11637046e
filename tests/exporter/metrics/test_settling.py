"""Counts of XIDs as counters: they only grow, whatever the sources name and when."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.report import ledger
from exporter.metrics.settling import SETTLED, Settling
from exporter.metrics.xid_changes import Counted, between
from exporter.model.node_health import NodeHealth
from exporter.model.signals import Partner, Signal
from tests.exporter.worlds import START, Sensed, mig_gpu, seen
from tests.exporter.worlds import gpu as whole_gpu

WHOLE, SLICE = (None, None), (5, 0)


class Shown:
    """A ledger on a node with MIG, and what the counters on its page read."""

    def __init__(self) -> None:
        self.report = ledger.observe(
            ledger.begin("boot-1", "1", START), seen(mig_gpu(2), whole_gpu(3))
        )
        self.settling = Settling()
        self.sensed = Sensed()
        self.moment = 100.0
        self.number = 0

    def log_line(self, *, gpu: int = 2) -> int:
        self.number += 1
        self._take(self.sensed.kmsg(self.number, 94, gpu))
        return self.number

    def event(self, line: int, gi: int | None = 5) -> None:
        """NVML's word on an error that a log line reported."""
        self.number += 1
        ci = None if gi is None else 0
        self._take(self.sensed.nvml(self.number, 94, 2, gi=gi, ci=ci, partner=Partner(line)))

    def _take(self, signal: Signal) -> None:
        before = self.report
        self.report = ledger.take(before, [signal], run="run-1", kernel_sequence=None)
        self.settling.took(between(before, self.report), self.moment)

    def page(self) -> dict[tuple[int | None, int | None], int]:
        corrections = self.settling.corrections(self.moment)
        shown = {key: count + corrections.get(key, 0) for key, count in counts(self.report)}
        return {(gi, ci): count for ((_, gi, ci), _), count in shown.items() if count}


def counts(report: NodeHealth) -> list[tuple[Counted, int]]:
    return [
        (((gpu.uuid, record.gi, record.ci), record.code), record.count)
        for gpu in report.gpus
        for record in gpu.xids
    ]


def test_an_error_is_never_shown_where_the_next_source_moves_it_from() -> None:
    node = Shown()
    line = node.log_line()
    assert node.page() == {}
    node.moment += 0.5
    node.event(line)
    assert node.page() == {SLICE: 1}
    node.moment += 2 * SETTLED
    assert node.page() == {SLICE: 1}


def test_an_error_that_nobody_places_is_shown_when_it_has_settled() -> None:
    node = Shown()
    node.log_line()
    node.moment += SETTLED - 0.1
    assert node.page() == {}
    node.moment += 0.2
    assert node.page() == {WHOLE: 1}


def test_on_a_gpu_without_mig_nothing_waits() -> None:
    node = Shown()
    node.log_line(gpu=3)
    assert node.page() == {WHOLE: 1}


def test_in_a_storm_what_has_settled_stays_visible() -> None:
    node = Shown()
    for _ in range(100):
        node.log_line()
        node.moment += 0.1
    assert 0 < node.page()[WHOLE] <= 51


def test_an_error_that_moves_late_stays_visible_where_it_was() -> None:
    node = Shown()
    line = node.log_line()
    node.log_line()
    node.moment += 2 * SETTLED
    assert node.page() == {WHOLE: 2}
    node.event(line)
    assert node.page() == {WHOLE: 2, SLICE: 1}


STEPS = st.lists(
    st.one_of(
        st.just(("line", 0.0)),
        st.tuples(st.just("event"), st.sampled_from([0.0, 1.0])),
        st.tuples(st.just("wait"), st.floats(0, 2 * SETTLED)),
    ),
    max_size=40,
)


@given(STEPS)
def test_no_counter_ever_falls_though_one_may_go_and_come_back(
    steps: list[tuple[str, float]],
) -> None:
    node, lines = Shown(), list[int]()
    highest: dict[tuple[int | None, int | None], int] = {}
    for word, how in steps:
        if word == "line":
            lines.append(node.log_line())
        elif word == "event" and lines:
            node.event(lines.pop(0), gi=5 if how else None)
        else:
            node.moment += how
        now = node.page()
        assert all(count >= highest.get(place, 0) for place, count in now.items())
        highest |= now
    node.moment += 2 * SETTLED
    assert sum(node.page().values()) >= sum(count for _, count in counts(node.report))
