"""The report, carried forward by what the sensor says."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.report import ledger
from exporter.agent.report.ledger import Published
from exporter.model.node_health import Cursor, GpuHealth, NodeDeviceHealth, NodeHealth, SourceHealth
from exporter.model.readings import Observation
from exporter.model.signals import Signal
from exporter.sensor.overflow import MOST
from kubeapi.types import ObjectMeta
from tests.exporter.worlds import (
    BUS,
    START,
    Sensed,
    at,
    counts,
    gpu,
    mig_gpu,
    seen,
    unseen,
)
from tests.lab.examples import examples

FRESH = ledger.begin("boot-1", "1", START)


def known(*gpus: Any) -> NodeHealth:
    return ledger.observe(FRESH, seen(*gpus))


def take(report: NodeHealth, *signals: Signal, run: str = "run-1") -> NodeHealth:
    read = [signal.kernel_sequence for signal in signals if signal.kernel_sequence is not None]
    return ledger.take(report, signals, run=run, kernel_sequence=max(read, default=None))


def only(report: NodeHealth) -> GpuHealth:
    (found,) = report.gpus
    return found


class TestCounting:
    def test_one_error_with_two_sources_is_one_count(self) -> None:
        sensed = Sensed()
        report = take(known(gpu()), sensed.kmsg(1, 79, pid=7), sensed.nvml(1.2, 79))
        (record,) = only(report).xids
        assert (record.count, record.sources, record.pid) == (1, ("kmsg", "nvml"), 7)

    def test_the_event_names_the_slice_and_the_record_without_one_disappears(self) -> None:
        sensed = Sensed()
        report = take(known(mig_gpu()), sensed.kmsg(1, 94, reset=False))
        assert counts(report) == {"GPU-1": {(94, None): 1}}
        report = take(report, sensed.nvml(1.2, 94, gi=5, ci=0))
        assert counts(report) == {"GPU-1": {(94, 5): 1}}
        (record,) = only(report).xids
        assert (record.reset_request, record.ci, record.sources) == (
            "NotRequested",
            0,
            ("kmsg", "nvml"),
        )

    def test_the_slice_is_kept_when_the_event_comes_first(self) -> None:
        sensed = Sensed()
        report = take(known(mig_gpu()), sensed.nvml(1, 94, gi=5, ci=0), sensed.kmsg(1.1, 94))
        assert counts(report) == {"GPU-1": {(94, 5): 1}}

    def test_two_slices_at_once_get_one_count_each(self) -> None:
        sensed = Sensed()
        lines = [sensed.kmsg(1, 94), sensed.kmsg(1, 94)]
        events = [sensed.nvml(1.2, 94, gi=5), sensed.nvml(1.3, 94, gi=3)]
        assert counts(take(known(mig_gpu()), *lines, *events)) == {
            "GPU-1": {(94, 3): 1, (94, 5): 1}
        }

    def test_instance_ids_mean_nothing_where_mig_is_off(self) -> None:
        sensed = Sensed()
        report = take(known(gpu()), sensed.kmsg(1, 48), sensed.nvml(1.2, 48, gi=0, ci=0))
        assert counts(report) == {"GPU-1": {(48, None): 1}}

    def test_an_error_of_a_gpu_that_nvml_never_listed_is_kept_for_it(self) -> None:
        sensed = Sensed()
        report = take(FRESH, sensed.kmsg(1, 79))
        unknown = only(report)
        assert (unknown.uuid, unknown.presence) == ("unknown-0000:01:00.0", "Unknown")
        assert unknown.presence_reason == "NeverListed"
        assert counts(ledger.observe(report, seen(gpu()))) == {"GPU-1": {(79, None): 1}}

    def test_the_kernels_own_line_or_a_resource_slice_names_such_a_gpu(self) -> None:
        sensed = Sensed()
        report = take(FRESH, sensed.kmsg(1, 79), sensed.kmsg(2, 0, kind="identity", uuid="GPU-1"))
        assert counts(report) == {"GPU-1": {(79, None): 1}}
        report = take(FRESH, Sensed().kmsg(1, 79))
        offered = Published(frozenset({"GPU-1"}), {BUS["GPU-1"]: "GPU-1"})
        report = ledger.observe(report, seen(gpu(2)), published=offered)
        assert counts(report) == {"GPU-1": {(79, None): 1}}

    def test_the_line_that_comes_before_a_gpus_first_error_is_remembered(self) -> None:
        sensed = Sensed()
        line = sensed.kmsg(1, 0, kind="identity", uuid="GPU-1")
        report = take(FRESH, line, sensed.kmsg(1, 79))
        assert counts(report) == {"GPU-1": {(79, None): 1}}
        assert only(report).presence_reason == "NeverListed"
        assert only(ledger.observe(report, seen(gpu()))).presence == "Present"

    def test_signals_that_were_counted_are_not_counted_again(self) -> None:
        sensed = Sensed()
        first = sensed.kmsg(1, 13)
        report = take(known(gpu()), first)
        assert take(report, first) == report

    def test_garbage_bus_ids_cannot_fill_the_report(self) -> None:
        many = [
            msgspec.structs.replace(Sensed().kmsg(1, 79), number=n, bus_id=f"{n:04x}:00:00.0")
            for n in range(1, 101)
        ]
        report = take(FRESH, *many)
        assert len(report.gpus) == ledger.MAX_UNKNOWN
        assert report.xids_dropped == 100 - ledger.MAX_UNKNOWN


class TestPresence:
    def test_a_gpu_that_nvml_calls_lost_is_lost_at_once(self) -> None:
        report = ledger.observe(known(gpu()), seen(gpu(lost=True), seconds=30))
        assert (only(report).presence, only(report).presence_reason) == ("Lost", "GpuIsLost")

    def test_a_gpu_that_a_live_nvml_no_longer_lists_is_lost_after_a_minute(self) -> None:
        report = known(gpu(), gpu(2))
        report = ledger.observe(report, seen(gpu(2), seconds=30))
        assert report.gpus[0].presence == "Unknown"
        report = ledger.observe(report, seen(gpu(2), seconds=89))
        assert report.gpus[0].presence == "Unknown"
        report = ledger.observe(report, seen(gpu(2), seconds=90))
        assert (report.gpus[0].presence, report.gpus[0].presence_since) == ("Lost", at(30))

    def test_a_gpu_that_the_driver_no_longer_publishes_is_not_lost(self) -> None:
        """It was handed to a virtual machine, say."""
        report = known(gpu(), gpu(2))
        offered = Published(frozenset({"GPU-2"}), {})
        for seconds in (30, 120):
            report = ledger.observe(report, seen(gpu(2), seconds=seconds), published=offered)
        assert report.gpus[0].presence_reason == "NotPublished"
        assert report.gpus[0].presence == "Unknown"

    def test_a_source_that_is_down_makes_unknown_and_never_lost(self) -> None:
        report = known(gpu())
        for seconds in (30, 3600):
            report = ledger.observe(report, unseen(seconds))
        assert (only(report).presence, only(report).presence_reason) == ("Unknown", "NvmlCrashed")

    def test_a_source_that_has_not_reported_yet_changes_nothing(self) -> None:
        """So an agent that restarts keeps its GPUs and since when they are there."""
        starting = SourceHealth(name="nvml", state="Down", reason="Starting")
        report = ledger.observe(known(gpu()), Observation(at=at(30), sources=(starting,)))
        assert (only(report).presence, only(report).presence_since) == ("Present", START)

    def test_lost_stays_lost_while_nvml_is_down(self) -> None:
        report = ledger.observe(known(gpu()), seen(gpu(lost=True), seconds=30))
        assert only(ledger.observe(report, unseen(60))).presence == "Lost"

    def test_a_driver_that_was_loaded_again_makes_absence_unknown(self) -> None:
        report = take(known(gpu(), gpu(2)), Sensed().kmsg(10, 0, kind="driver-load"))
        for seconds in (30, 120):
            report = ledger.observe(report, seen(gpu(2), seconds=seconds))
        assert (report.gpus[0].presence, report.gpus[0].epoch) == ("Unknown", 2)
        assert (report.gpus[1].presence, report.gpus[1].epoch) == ("Present", 2)

    def test_a_hung_gpu_is_unknown_and_its_last_recovery_action_is_kept(self) -> None:
        report = known(gpu(recovery_action=1))
        hung = gpu(hung_call="nvmlDeviceGetName", recovery_supported=None, recovery_action=None)
        report = ledger.observe(report, seen(hung, seconds=30))
        assert (only(report).presence_reason, only(report).recovery_action.value) == ("Hung", 1)


class TestEpochs:
    def test_a_recovery_action_that_goes_back_to_none_was_a_reset(self) -> None:
        report = known(gpu(recovery_action=1))
        report = ledger.observe(report, seen(gpu(), seconds=60))
        assert (only(report).epoch, only(report).epoch_started) == (2, at(60))
        assert only(report).recovery_action.since == at(60)

    def test_a_gpu_that_comes_back_from_lost_was_reset(self) -> None:
        report = ledger.observe(known(gpu()), seen(gpu(lost=True), seconds=30))
        assert only(ledger.observe(report, seen(gpu(), seconds=60))).epoch == 2

    def test_a_crash_of_the_sensors_child_is_no_reset(self) -> None:
        report = ledger.observe(known(gpu()), unseen(30))
        assert only(ledger.observe(report, seen(gpu(), seconds=60))).epoch == 1

    def test_the_load_that_the_boot_began_with_starts_no_new_epoch(self) -> None:
        report = take(known(gpu()), Sensed().kmsg(-500, 0, kind="driver-load"))
        assert only(report).epoch == 1

    def test_an_xid_knows_its_epoch(self) -> None:
        sensed = Sensed()
        report = take(known(gpu()), sensed.kmsg(5, 48))
        report = ledger.observe(report, seen(gpu(recovery_action=1), seconds=10))
        report = ledger.observe(report, seen(gpu(), seconds=20))
        report = take(report, sensed.kmsg(30, 13))
        assert {record.code: record.epoch for record in only(report).xids} == {48: 1, 13: 2}


class TestAdoption:
    def test_another_boot_begins_anew(self) -> None:
        report = take(known(gpu()), Sensed().kmsg(1, 79))
        assert ledger.adopt(report, "boot-2", "1", START).gpus == ()

    def test_a_report_in_a_language_two_versions_apart_is_begun_anew(self) -> None:
        far = msgspec.structs.replace(known(gpu()), schema_version=3)
        assert ledger.adopt(far, "boot-1", "1", START).gpus == ()

    def test_nothing_can_be_received_from_a_sensor_that_is_gone(self) -> None:
        report = ledger.blind(known(gpu()), "SensorUnreachable", "gone", at(5))
        assert [source.reason for source in report.sources] == ["SensorUnreachable"]
        assert only(report).presence == "Unknown"


def sequences(draw: st.DrawFn) -> list[tuple[str, int, float, int, int | None]]:
    step = st.tuples(
        st.sampled_from(["kmsg", "nvml"]),
        st.sampled_from([1, 2]),
        st.sampled_from([0.0, 0.2, 3.0, 20.0]),
        st.sampled_from([13, 79, 94]),
        st.sampled_from([None, 3, 5]),
    )
    return draw(st.lists(step, max_size=25))


def play(sequence: list[tuple[str, int, float, int, int | None]], sensed: Sensed) -> None:
    now = 0.0
    for source, number, pause, code, gi in sequence:
        now += pause
        if source == "kmsg":
            sensed.kmsg(now, code, number)
        else:
            sensed.nvml(now, code, number, gi=gi if number == 1 else None)


@settings(max_examples=examples(150))
@given(st.composite(sequences)(), st.integers(0, 25))
def test_adopting_after_any_prefix_gives_the_report_of_no_restart(
    sequence: list[tuple[str, int, float, int, int | None]], cut: int
) -> None:
    """To the same sensor, which still has the rest in its ring."""
    sensed = Sensed()
    play(sequence, sensed)
    start = ledger.observe(FRESH, seen(mig_gpu(1), gpu(2)))
    every = sensed.ring.after(0)
    straight = take(start, *every)

    written = take(start, *every[:cut])
    stored = msgspec.json.decode(
        msgspec.json.encode(NodeDeviceHealth(ObjectMeta("node-a"), written)), type=NodeDeviceHealth
    ).status
    adopted = ledger.adopt(stored, "boot-1", "1", START)
    rest = sensed.ring.resume(adopted.cursor, "boot-1")
    assert counts(take(adopted, *rest)) == counts(straight)
    assert take(adopted, *rest).gpus == straight.gpus


@settings(max_examples=examples(100))
@given(st.composite(sequences)(), st.integers(0, 25))
def test_a_new_sensor_in_the_same_boot_loses_and_doubles_no_kernel_line(
    sequence: list[tuple[str, int, float, int, int | None]], cut: int
) -> None:
    """It reads the kernel log from its start; only what NVML alone reported is gone."""
    lines = [step for step in sequence if step[0] == "kmsg"]
    first, second = Sensed("run-1"), Sensed("run-2")
    play(lines, first)
    play(lines, second)
    start = ledger.observe(FRESH, seen(gpu(1), gpu(2)))
    written = take(start, *first.ring.after(0)[:cut])
    rest = second.ring.resume(written.cursor, "boot-1")
    finished = take(written, *rest, run="run-2")
    assert counts(finished) == counts(take(start, *first.ring.after(0)))


@pytest.mark.parametrize("boot_id", ["boot-2", ""])
def test_an_agent_of_another_boot_receives_everything(boot_id: str) -> None:
    sensed = Sensed("run-2")
    sensed.kmsg(1, 79)
    cursor = take(known(gpu()), Sensed().kmsg(1, 13), Sensed().kmsg(2, 13)).cursor
    assert len(sensed.ring.resume(cursor, boot_id)) == 1


def test_overflow_drops_what_only_a_part_is_new_of_and_counts_it() -> None:
    sensed = Sensed(capacity=3)
    for seconds in range(6):
        sensed.kmsg(seconds * 10, 13)
    assert [signal.number for signal in sensed.ring.after(1)] == [4, 5, 6]
    assert sensed.ring.dropped == 2


def test_what_every_agent_took_in_time_is_not_counted_as_dropped() -> None:
    sensed = Sensed(capacity=3)
    for seconds in range(9):
        sensed.kmsg(seconds * 10, 13)
        assert len(sensed.ring.after(seconds)) == 1
    assert sensed.ring.dropped == 0


@settings(max_examples=examples(150))
@given(st.composite(sequences)(), st.integers(1, 8))
def test_an_agent_that_begins_with_nothing_counts_what_left_the_ring(
    sequence: list[tuple[str, int, float, int, int | None]], capacity: int
) -> None:
    small, large = Sensed(capacity=capacity), Sensed()
    play(sequence, small)
    play(sequence, large)
    start = ledger.observe(FRESH, seen(mig_gpu(1), gpu(2)))
    reported = small.ring.resume(Cursor(), "")
    assert counts(take(start, *reported)) == counts(take(start, *large.ring.after(0)))
    assert [signal.number for signal in reported] == sorted({signal.number for signal in reported})
    assert small.ring.dropped == 0


def test_instances_that_mean_nothing_do_not_part_what_left_the_ring() -> None:
    """Where MIG is off some libraries send zeros, and the kernel log names no instance."""
    sensed = Sensed(capacity=1)
    for step in range(8):
        if step % 2:
            sensed.nvml(step * 10, 13, gi=0, ci=0)
        else:
            sensed.kmsg(step * 10, 13)
    reported = sensed.ring.resume(Cursor(), "")
    assert [signal.times for signal in reported] == [3, 4, 1]
    assert counts(take(known(gpu()), *reported)) == {"GPU-1": {(13, None): 8}}


def test_more_places_than_are_kept_of_what_left_the_ring_are_counted_as_dropped() -> None:
    sensed = Sensed(capacity=3)
    for code in range(1, MOST + 6):
        sensed.kmsg(code, code)
    assert len(sensed.ring.resume(Cursor(), "")) == MOST + 3
    assert sensed.ring.dropped == 2


def test_a_storm_of_an_nvswitch_that_left_the_ring_is_counted() -> None:
    sensed = Sensed(capacity=3)
    for seconds in range(9):
        sensed.kmsg(seconds, 12028, kind="sxid", fatal=False)
    report = take(FRESH, *sensed.ring.resume(Cursor(), ""))
    assert [record.count for record in report.switches[0].sxids] == [9]


def test_what_left_the_ring_of_a_new_sensor_is_not_counted_twice() -> None:
    sensed = Sensed(capacity=3)
    for seconds in range(9):
        sensed.kmsg(seconds * 10, 13)
    cursor = Cursor(sensor_run="run-0", kernel_sequence=40)
    assert [signal.number for signal in sensed.ring.resume(cursor, "boot-1")] == [7, 8, 9]
    # Those after record 40 may be all six, as they are known by their sum alone.
    assert sensed.ring.dropped == 6


def test_lost_after_is_a_setting() -> None:
    report = known(gpu(), gpu(2))
    for seconds in (1, 3):
        report = ledger.observe(
            report, seen(gpu(2), seconds=seconds), lost_after=timedelta(seconds=2)
        )
    assert report.gpus[0].presence == "Lost"


def test_an_old_reading_that_is_reported_again_was_not_read_after_the_error() -> None:
    """The kubelet's news repeats NVML's last reading; it proves nothing about a later XID."""
    reading = seen(gpu(), seconds=0)
    report = take(ledger.observe(FRESH, reading), Sensed().kmsg(5, 95))

    reported_again = msgspec.structs.replace(reading, at=at(6))
    report = ledger.observe(report, reported_again)

    (record,) = only(report).xids
    observed = only(report).recovery_action.observed_at
    assert observed is not None
    assert observed < record.last_seen


def test_a_field_that_was_there_and_is_reported_missing_was_not_read() -> None:
    report = ledger.observe(FRESH, seen(gpu(recovery_action=1), seconds=0))

    report = ledger.observe(
        report, seen(gpu(recovery_supported=False, recovery_action=None), seconds=9)
    )

    action = only(report).recovery_action
    assert (action.supported, action.value, action.observed_at) == (True, 1, at(0))
