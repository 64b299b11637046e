"""Any sequence of a node, reported with and without restarts of the agent, ends in one report."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.report import ledger, outline
from exporter.agent.report.clock_set import by_clock_of
from exporter.agent.report.ledger import Published
from exporter.model.node_health import NodeDeviceHealth, NodeHealth
from exporter.model.readings import LinkReading, Observation
from kubeapi.types import ObjectMeta
from tests.exporter.worlds import BUS, START, Sensed, at, gpu, mig_gpu, seen, unseen, with_bus
from tests.lab.examples import examples

FRESH = ledger.begin("boot-1", "1", START)
OFFERED = Published(frozenset({"GPU-1", "GPU-2"}), {BUS["GPU-1"]: "GPU-1"})

Step = tuple[str, float, int, int | None]
"""What happens, seconds after the step before, on which GPU, code or instance."""

_SIGNALS = ("xid", "event", "sxid", "rate-limit", "driver-load", "identity", "154")
_LOOKS: dict[str, Callable[[float], Observation]] = {
    "both": lambda now: seen(mig_gpu(1), gpu(2), seconds=now),
    "sick": lambda now: seen(mig_gpu(1, recovery_action=1), gpu(2, slowdown=8), seconds=now),
    "one": lambda now: with_bus(seen(gpu(2), seconds=now), *BUS.values()),
    "unbound": lambda now: with_bus(seen(mig_gpu(1), seconds=now), BUS["GPU-1"]),
    "lost": lambda now: seen(mig_gpu(1, lost=True), gpu(2, released=True), seconds=now),
    "twins": lambda now: seen(mig_gpu(1), gpu(2, uuid="GPU-1"), seconds=now),
    "down": unseen,
    "links": lambda now: seen(
        mig_gpu(1), gpu(2, links=(LinkReading(link=4, up=now % 2 > 1),)), seconds=now
    ),
}

STEPS = st.lists(
    st.tuples(
        st.sampled_from([*_SIGNALS, *_LOOKS]),
        st.sampled_from([0.0, 0.3, 4.0, 61.0, -3600.0]),
        st.sampled_from([1, 2]),
        st.sampled_from([None, 3, 5]),
    ),
    max_size=30,
)


class Node:
    """A sensor that goes on, and an agent whose state is its report alone."""

    def __init__(self) -> None:
        self.report = FRESH
        self._sensed = Sensed()
        self._now, self._booted = 0.0, at(-86_400)

    def restart(self) -> None:
        """Go on from what the API server has."""
        written = NodeDeviceHealth(ObjectMeta("node-a"), outline.finished(self.report))
        stored = msgspec.json.decode(msgspec.json.encode(written), type=NodeDeviceHealth)
        self.report = ledger.adopt(stored.status, "boot-1", "1", at(self._now))

    def go_on(self, step: Step) -> None:
        what, pause, number, gi = step
        self._now += pause
        if pause < 0:
            self._booted += timedelta(seconds=pause)
        self.report = by_clock_of(self.report, self._booted)
        if what in _LOOKS:
            changes = _LOOKS[what](self._now)
            self.report = ledger.observe(self.report, changes, published=OFFERED)
            return
        code = 94 if gi else 79
        if what == "event":
            self._sensed.nvml(self._now, code, number, gi=gi)
        elif what == "xid":
            self._sensed.kmsg(self._now, code, number)
        elif what == "154":
            self._sensed.kmsg(self._now, 154, number, recovery_to=gi)
        else:
            uuid = f"GPU-{number}" if what == "identity" else ""
            self._sensed.kmsg(self._now, code, number, kind=what, uuid=uuid, link=gi)
        rest = self._sensed.ring.resume(self.report.cursor, "boot-1")
        self.report = ledger.take(self.report, rest, run="run-1", kernel_sequence=None)


def reported(report: NodeHealth) -> NodeHealth:
    """Leave out what only says which process wrote it, and when."""
    whole = outline.finished(report)
    return msgspec.structs.replace(whole, sources=(), summary=type(whole.summary)())


@settings(max_examples=examples(300))
@given(STEPS, st.sets(st.integers(0, 30)))
def test_restarts_at_any_moments_change_nothing_in_the_report(
    sequence: list[Step], restarts: set[int]
) -> None:
    straight, restarted = Node(), Node()
    for place, step in enumerate(sequence):
        if place in restarts:
            restarted.restart()
        straight.go_on(step)
        restarted.go_on(step)
    assert reported(restarted.report) == reported(straight.report)


def totals(report: NodeHealth) -> Counter[tuple[str, int]]:
    """Count by code: over all GPUs, of each GPU with a name, and of each switch."""
    found: Counter[tuple[str, int]] = Counter()
    for health in report.gpus:
        for record in health.xids:
            found["", record.code] += record.count
            if not health.uuid.startswith(ledger.UNKNOWN_PREFIX):
                found[health.uuid, record.code] += record.count
    for switch in report.switches:
        for sxid in switch.sxids:
            found[switch.pci_bus_id, sxid.code] += sxid.count
    return found


@settings(max_examples=examples(300))
@given(STEPS)
def test_no_count_ever_falls_and_no_record_ends_before_it_began(sequence: list[Step]) -> None:
    node = Node()
    before = totals(node.report)
    for step in sequence:
        node.go_on(step)
        now = totals(node.report)
        assert all(now[what] >= count for what, count in before.items()), (step, before, now)
        before = now
        for health in node.report.gpus:
            assert all(record.first_seen <= record.last_seen for record in health.xids)
            assert all(slowed.since <= slowed.last_seen for slowed in health.slowdowns)
